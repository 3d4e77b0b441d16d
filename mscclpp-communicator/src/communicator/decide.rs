//! Decides how a request is served.

use std::sync::Arc;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;

use mscclpp_base::error::Error;
use mscclpp_select::{Algorithm, Choice, Decision, Registry, Request};

/// Selects the algorithm for a request of `rank`. `forced`: the algorithm that serves all requests of a collective.
///
/// # Errors
/// [`Error::Select`].
pub(super) fn select(
    registry: &Registry,
    forced: Option<&(CollectiveKind, Choice)>,
    request: &Request,
    rank: u32,
) -> Result<Decision, Error> {
    let decision = match forced {
        Some((kind, choice)) if *kind == request.collective => registry.decision(request, choice),
        _ => registry.select(request),
    };
    decision.map_err(|why| why.of_call(rank))
}

/// Selects the algorithm as [`select`] does, and compiles its plan; there is none if a function or kernels serve the request.
///
/// # Errors
/// [`Error::Select`], [`Error::NoPlan`].
pub(super) fn decide(
    registry: &Registry,
    forced: Option<&(CollectiveKind, Choice)>,
    request: &Request,
    rank: u32,
) -> Result<(Arc<Algorithm>, Option<Plan>), Error> {
    let decision = select(registry, forced, request, rank)?;
    if !decision.algorithm.has_plans() {
        return Ok((decision.algorithm, None));
    }
    let plan = registry.plan(request, &decision).map_err(|why| why.of_call(rank, request))?;
    Ok((decision.algorithm, Some(plan)))
}
