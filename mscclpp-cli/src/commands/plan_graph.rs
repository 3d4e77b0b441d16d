//! `mscclpp plan graph`: draws which data moves between which ranks.

use std::process::ExitCode;

use mscclpp_core::plan::graph::Graph;

use crate::args::GraphArgs;
use crate::error::Result;
use crate::output::{print, write_file};
use crate::{exit, source};

/// Draws a plan or one of its ranks, to a file or to standard output.
///
/// # Errors
/// Those of loading; [`Error::Usage`](crate::error::Error::Usage) for a rank that the plan does not have; failures of
/// the output.
pub(crate) fn graph(args: &GraphArgs) -> Result<ExitCode> {
    let plan = source::load(&args.source)?.warned();
    let graph = match source::one_rank(&plan, args.rank)? {
        Some(rank) => Graph::rank(&plan, rank),
        None => Graph::plan(&plan),
    };
    match args.output.as_deref() {
        Some(path) if path.as_os_str() != "-" => write_file(path, graph.to_string().as_bytes())?,
        _ => print(graph)?,
    }
    Ok(ExitCode::from(exit::SUCCESS))
}
