//! `mscclpp plan show`: what every rank and thread block does.

use std::process::ExitCode;

use mscclpp_core::plan::show::Show;

use crate::args::ShowArgs;
use crate::error::{Error, Result};
use crate::output::print;
use crate::{exit, source};

/// Shows a plan or one of its ranks.
///
/// # Errors
/// What loading brings; [`Error::Usage`] for a rank that the plan does not have; failures of standard output.
pub(crate) fn show(args: &ShowArgs) -> Result<ExitCode> {
    let plan = source::load(&args.source)?.warned();
    let ranks = plan.ranks.len();
    match args.rank {
        Some(rank) if rank as usize >= ranks => {
            return Err(Error::Usage(format!("--rank {rank}: plan `{}` has ranks 0 to {}", plan.name, ranks - 1)));
        }
        Some(rank) => print(Show::rank(&plan, rank))?,
        None => print(Show::plan(&plan))?,
    }
    Ok(ExitCode::from(exit::DONE))
}
