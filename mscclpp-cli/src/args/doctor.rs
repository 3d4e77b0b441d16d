//! Arguments of `mscclpp doctor`.

use std::time::Duration;

use clap::Args;

use super::seconds;

/// Arguments of `mscclpp doctor`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp doctor         check this machine
  mscclpp doctor --json  print the report as JSON
  mscclpp doctor --nccl  say what a program that loads mscclpp's libnccl.so.2 would get in this environment
  mscclpp doctor --variables
                         list the environment variables, what they mean and are set to
  mscclpp launch -n 4 -- mscclpp doctor --group
                         also check that 4 ranks can connect to each other")]
pub(crate) struct DoctorArgs {
    /// As a rank of a job: join the other ranks and test every connection between them
    #[arg(long)]
    pub(crate) group: bool,
    /// Repeat the test for S seconds
    #[arg(long = "for", value_name = "S", default_value = "0", value_parser = seconds, requires = "group")]
    pub(crate) time: Duration,
    /// Say what programs that call NCCL would get: version, forwarding, plans, functions, devices
    #[arg(long, conflicts_with = "group")]
    pub(crate) nccl: bool,
    /// List the environment variables, what they are set to and mean, as Markdown
    #[arg(long, conflicts_with_all = ["group", "nccl", "json"])]
    pub(crate) variables: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
