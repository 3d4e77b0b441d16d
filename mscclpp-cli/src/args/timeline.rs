//! Arguments of `mscclpp timeline`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `mscclpp timeline`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp timeline trace.json --html trace.html
  mscclpp timeline timelines/*.json --launch 3 --html third.html     one launch of all ranks

`mscclpp run --timeline`, `MSCCLPP_TIMELINE`, `mscclpp check --trace` and `mscclpp simulate --trace` write such files.
Exit codes: 0 the page was written, 2 a file cannot be read or is no trace")]
pub(crate) struct TimelineArgs {
    /// Timelines of one host, in the event format of Chrome's and Perfetto's viewers
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Show only the operations of one launch, counted from 1
    #[arg(long, value_name = "N")]
    pub(crate) launch: Option<u64>,
    /// Page to write
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) html: PathBuf,
}
