//! Arguments of `mscclpp doctor`.

use std::time::Duration;

use clap::Args;

use super::seconds;

/// Arguments of `mscclpp doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp doctor         what this machine offers, and what is missing or small
  mscclpp doctor --json  the same for programs
  mscclpp launch -n 4 -- mscclpp doctor --group
                         whether 4 ranks find and reach each other")]
pub(crate) struct DoctorArgs {
    /// As a rank of a job: come together with the others and try every way between them
    #[arg(long)]
    pub(crate) group: bool,
    /// Go on trying for so many seconds
    #[arg(long = "for", value_name = "S", default_value = "0", value_parser = seconds, requires = "group")]
    pub(crate) time: Duration,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
