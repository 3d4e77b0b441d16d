//! Decides how a request is served.

use mscclpp_core::plan::Plan;

use super::Communicator;
use super::forced::Forced;
use mscclpp_base::error::Error;
use mscclpp_select::{Decision, Registry, Request, defaults};

/// Selects the algorithm for a request of `rank`. `forced`: the choices of the caller and of the selector.
///
/// # Errors
/// [`Error::Select`].
pub(super) fn select(registry: &Registry, forced: &Forced, request: &Request, rank: u32) -> Result<Decision, Error> {
    let decision = match forced.choice(request) {
        Some((choice, by)) => registry.decision_by(request, choice, by),
        None => registry.select(request),
    };
    decision.map_err(|why| why.of_call(rank))
}

/// Selects the algorithm as [`select`] does, and compiles its plan; there is none if a function or kernels serve the request.
///
/// # Errors
/// [`Error::Select`], [`Error::NoPlan`].
pub(super) fn decide(
    registry: &Registry,
    forced: &Forced,
    request: &Request,
    rank: u32,
) -> Result<(Decision, Option<Plan>), Error> {
    let decision = select(registry, forced, request, rank)?;
    if !decision.algorithm.has_plans() {
        return Ok((decision, None));
    }
    let plan = registry.plan(request, &decision).map_err(|why| why.of_call(rank, request))?;
    Ok((decision, Some(plan)))
}

impl Communicator {
    /// Asks the selector of the process about a call, unless there is none, the caller has chosen, or the call needs no algorithm, and
    /// keeps what it returns as the choice for the call. Returns whether it was asked. `pieces`: as for [`defaults::ask`].
    ///
    /// # Errors
    /// [`Error::Selector`] with the selector's error, of which the other ranks do not know yet; those of
    /// [`registry`](Self::registry).
    pub(super) fn ask_selector(
        &self,
        forced: &mut Forced,
        request: &Request,
        pieces: impl Iterator<Item = Request>,
        is_captured: bool,
    ) -> Result<bool, Error> {
        let is_asked = defaults::has_selector()
            && !self.inner.is_pair
            && request.bytes > 0
            && request.num_ranks > 1
            && !forced.is_forced(request.collective);
        forced.select(request.collective, None);
        if !is_asked {
            return Ok(false);
        }
        let registry = {
            // The first call compares the registries of all ranks, which is a part of this call.
            let _part = self.enter_call(|| self.describe(request));
            self.registry()?
        };
        let choice = defaults::ask(&registry, request, pieces, is_captured).map_err(|error| Error::Selector {
            rank: self.rank(),
            request: self.describe(request),
            message: error.to_string(),
        })?;
        forced.select(request.collective, choice);
        Ok(true)
    }
}
