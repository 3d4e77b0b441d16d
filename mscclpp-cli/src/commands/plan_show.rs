//! `mscclpp plan show`: shows the operations of every rank and thread block.

use std::process::ExitCode;

use mscclpp_core::plan::text::PlanText;

use crate::args::ShowArgs;
use crate::error::Result;
use crate::output::print;
use crate::{exit, source};

/// Shows a plan or one of its ranks.
///
/// # Errors
/// Those of loading; [`Error::Usage`](crate::error::Error::Usage) for a rank that the plan does not have; failures of
/// standard output.
pub(crate) fn show(args: &ShowArgs) -> Result<ExitCode> {
    let plan = source::load(&args.source)?.warned();
    let mut text = PlanText::new(&plan);
    if let Some(rank) = source::one_rank(&plan, args.rank)? {
        text = text.with_rank(rank);
    }
    print(if args.comments { text.with_comments() } else { text })?;
    Ok(ExitCode::from(exit::SUCCESS))
}
