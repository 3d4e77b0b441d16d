//! Decides how a request is served.

use std::sync::Arc;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;

use mscclpp_base::error::Error;
use mscclpp_select::{Algorithm, Choice, PlanError, Registry, Request};

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
    let decision = decision.map_err(|why| Error::Select { rank, message: why.to_string() })?;
    if decision.algorithm.is_native() {
        return Ok((decision.algorithm, None));
    }
    let no_plan = |why: PlanError| Error::NoPlan { rank, request: request.to_string(), message: why.to_string() };
    let plan = registry.plan(request, &decision).map_err(no_plan)?;
    Ok((decision.algorithm, Some(plan)))
}
