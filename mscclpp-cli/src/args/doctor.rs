//! Arguments of `mscclpp doctor`.

use clap::Args;

/// Arguments of `mscclpp doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp doctor         what this machine offers, and what is missing or small
  mscclpp doctor --json  the same for programs")]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
