//! Decides how a request is served.

use std::sync::Arc;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;

use crate::error::Error;
use crate::select::{Algorithm, Choice, Registry, Request};

/// Selects the algorithm for a request of `rank`, and compiles its plan; there is none if a function serves the request.
/// `forced`: the algorithm that serves all requests of a collective.
///
/// # Errors
/// [`Error::Select`], [`Error::NoPlan`].
pub(super) fn decide(
    registry: &Registry,
    forced: Option<&(CollectiveKind, Choice)>,
    request: &Request,
    rank: u32,
) -> Result<(Arc<Algorithm>, Option<Plan>), Error> {
    let decision = match forced {
        Some((kind, choice)) if *kind == request.collective => registry.decision(request, choice),
        _ => registry.select(request),
    };
    let decision = decision.map_err(|source| Error::Select { rank, source: Box::new(source) })?;
    if decision.algorithm.is_native() {
        return Ok((decision.algorithm, None));
    }
    let no_plan = |source| Error::NoPlan { rank, request: request.to_string(), source: Box::new(source) };
    let plan = registry.plan(request, &decision).map_err(no_plan)?;
    Ok((decision.algorithm, Some(plan)))
}
