//! Arguments of `mscclpp analyze`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `mscclpp analyze`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp analyze dumps
  mscclpp analyze dumps --html job.html                        a page with the last calls of each rank, and where it waits
  mscclpp analyze dumps/mscclpp-rank-0-of-4-1234-1.jsonl --json
  MSCCLPP_DUMP_DIR=dumps mscclpp launch -n 4 -- ./train       ranks whose calls fail write files to `dumps`

Exit codes: 0 the dumps were read, 2 a dump cannot be read")]
pub(crate) struct AnalyzeArgs {
    /// Dumps, or directories of dumps
    #[arg(value_name = "DUMP", required = true)]
    pub(crate) dumps: Vec<PathBuf>,
    /// Also write a page that shows the last calls of each rank, and what its thread blocks wait for
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
