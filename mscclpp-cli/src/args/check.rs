//! Arguments of `mscclpp check`.

use clap::Args;

use super::SourceArgs;

/// Arguments of `mscclpp check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp check plan.json
  mscclpp check allreduce_ring --ranks 8
  mscclpp check plan.json --json | jq '.findings[].code'
  mscclpp plan export allreduce_ring --ranks 4 | mscclpp check -

Exit codes: 0 accepted, 1 findings, 2 the plan cannot be read")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Take warnings as findings, such as keys of a plan file that nobody knows
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
