//! Decides how a request is served.

use std::sync::Arc;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;

use crate::error::Error;
use crate::select::{Algorithm, Choice, Config, DecidedBy, Decision, Registry, Request};

/// Selects the algorithm for a request of `rank`, and compiles its plan; there is none if a function serves the request.
/// `forced`: the algorithm that serves all requests of a collective. `max_blocks`: the number of thread blocks per rank from
/// which on the plan is built with fewer of them than usual; a number that a selector, a table or the caller states stays.
///
/// # Errors
/// [`Error::Select`], [`Error::NoPlan`].
pub(super) fn decide(
    registry: &Registry,
    forced: Option<&(CollectiveKind, Choice)>,
    request: &Request,
    rank: u32,
    max_blocks: u32,
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
    let mut plan = registry.plan(request, &decision).map_err(no_plan)?;
    let is_usual = matches!(decision.decided_by, DecidedBy::Added | DecidedBy::Rule(_) | DecidedBy::First);
    let mut blocks = max_blocks;
    while blocks > 0 && (is_usual || decision.config.blocks.is_none()) && num_blocks(&plan) > max_blocks {
        // An algorithm may need several thread blocks for each that it is asked for, or exist with one number only.
        let config = Config { blocks: Some(blocks), ..decision.config };
        plan = registry.plan(request, &Decision { config, ..decision.clone() }).map_err(no_plan)?;
        blocks /= 2;
    }
    Ok((decision.algorithm, Some(plan)))
}

/// Returns the largest number of thread blocks of a rank.
fn num_blocks(plan: &Plan) -> u32 {
    plan.ranks().map(|rank| rank.blocks().count() as u32).max().unwrap_or(0)
}
