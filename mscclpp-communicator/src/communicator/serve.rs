//! Serves calls on slices: selects an algorithm, prepares its plan once, and launches it.

use std::iter;
use std::panic::Location;
use std::sync::Arc;

use mscclpp_bootstrap::place;
use mscclpp_bootstrap::places::CallPlace;

use super::decide::decide;
use super::handle::{Calls, Communicator};
use crate::metrics::CallCounters;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_exec::process::PreparedPlan;
use mscclpp_select::{Algorithm, Buffers, Call, Decision, Request};

/// A prepared request: its algorithm, and its plan, bound to the message, unless the algorithm is a function.
pub(super) struct Prepared {
    algorithm: Arc<Algorithm>,
    plan: Option<Box<PreparedPlan>>,
    counters: Arc<CallCounters>,
}

impl Prepared {
    /// Returns whether a launch that follows `calls` others would wait for no other rank.
    pub(super) fn is_immediate(&self, calls: u64) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.is_immediate(calls))
    }
}

impl Communicator {
    /// Serves a request out of place; the caller has checked its lengths.
    #[track_caller]
    pub(crate) fn serve_separate<T: Element>(
        &self,
        request: Request,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), Error> {
        self.serve(request, Typed::Separate(input, output))
    }

    /// Serves a request in place; the caller has checked its length.
    #[track_caller]
    pub(crate) fn serve_in_place<T: Element>(&self, request: Request, buffer: &mut [T]) -> Result<(), Error> {
        self.serve(request, Typed::Same(buffer))
    }

    /// Serves a request.
    #[track_caller]
    pub(super) fn serve<T: Element>(&self, request: Request, buffers: Typed<'_, T>) -> Result<(), Error> {
        let mut calls = self.calls()?;
        #[cfg(feature = "cuda")]
        let place = Location::caller();
        self.record(&mut calls, Some(request), |calls| {
            #[cfg(feature = "cuda")]
            calls.devices.post_of_host(Some(&request), place)?;
            self.launch(calls, request, buffers)
        })
    }

    /// Makes a call, that of a request or a barrier, and writes a dump if it fails.
    #[track_caller]
    pub(super) fn record<R>(
        &self,
        calls: &mut Calls,
        request: Option<Request>,
        call: impl FnOnce(&mut Calls) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let place = calls.places.of(CallPlace::of(Location::caller()));
        self.inner.observed.recorder.note(request.as_ref(), place);
        self.guard(calls, call)
    }

    /// Runs a part of a call with the timeout of this handle, and writes a dump if it fails.
    #[track_caller]
    pub(super) fn guard<R>(
        &self,
        calls: &mut Calls,
        call: impl FnOnce(&mut Calls) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let _place = place::enter(Location::caller());
        // Not `inspect_err`, which copies the room for an error in calls that succeed.
        self.with_own_timeout(|| call(calls)).map_err(|error| self.record_failure(error))
    }

    #[cold]
    fn record_failure(&self, error: Error) -> Error {
        let stall = match &error {
            Error::Stalled(stall) => Some(&**stall),
            Error::Interrupted(interrupted) => Some(&interrupted.stall),
            _ => None,
        };
        let observed = &self.inner.observed;
        observed.counters.record_failure(error.kind());
        observed.recorder.fail(&observed.rank, &error, stall);
        error
    }

    fn launch<T: Element>(&self, calls: &mut Calls, request: Request, buffers: Typed<'_, T>) -> Result<(), Error> {
        let rank = self.rank();
        let is_asked = match self.ask_selector(&mut calls.forced, &request, iter::empty(), false) {
            // The other ranks wait for this one.
            Err(error @ Error::Selector { .. }) => return Err(self.executor()?.fail(error)),
            asked => asked?,
        };
        if is_asked && self.inner.bootstrap.num_nodes() > 1 {
            // Nodes compare what ranks prepare, and not what they launch.
            self.executor()?.agree(&(self.describe(&request) + &calls.forced.describe(&request)))?;
        }
        let (forced, key) = (&calls.forced, (calls.forced.variant(&request), request));
        let prepare = || {
            let name = self.describe(&request) + &forced.describe(&request);
            // What follows are calls of all ranks, which are parts of this one.
            let _part = self.enter_call(|| name.clone());
            let (Decision { algorithm, .. }, plan) = match decide(&*self.registry()?, forced, &request, rank) {
                // Ranks whose selectors have chosen others make other calls.
                Err(error) if forced.variant(&request) > 0 => {
                    self.executor()?.control(&name, |bootstrap| bootstrap.barrier())?;
                    return Err(error);
                }
                decided => decided?,
            };
            let call = Some((&*name, request.element_type()));
            let prepare = |plan| self.executor()?.prepare_as(&plan, request.message(), call);
            let plan = plan.map(prepare).transpose()?.map(Box::new);
            let counters = &self.inner.observed.counters;
            let counters = counters.of_calls(request.collective.name(), algorithm.name());
            Ok::<_, Error>(Prepared { algorithm, plan, counters })
        };
        let prepared = calls.cache.get(&key, prepare, drop)?;
        let started = prepared.counters.start();
        match (&mut prepared.plan, buffers) {
            (Some(plan), Typed::Separate(input, output)) => plan.launch(input, output)?,
            (Some(plan), Typed::Same(buffer)) => plan.launch_in_place(buffer)?,
            (Some(plan), Typed::Source(buffer)) => plan.launch_source(buffer)?,
            (None, buffers) => {
                let mut copy = Vec::new();
                let buffers = buffers.bytes(&mut copy);
                let call = Call { request: &request, bootstrap: &self.inner.bootstrap, buffers };
                let failed = |error: mscclpp_select::CallError| Error::NativeAlgorithm {
                    rank,
                    request: self.describe(&request),
                    message: error.to_string(),
                };
                prepared.algorithm.call(call).map_err(failed)?;
            }
        }
        prepared.algorithm.record_call();
        let milliseconds = prepared.plan.as_ref().map_or(0, |plan| plan.last_duration());
        prepared.counters.record(request.bytes, started, milliseconds);
        self.inner.observed.counters.set_prepared(calls.cache.len());
        Ok(())
    }
}

/// The memory of a call.
pub(super) enum Typed<'a, T> {
    /// Out of place: input and output.
    Separate(&'a [T], &'a mut [T]),
    /// In place.
    Same(&'a mut [T]),
    /// In place, on a rank whose buffer the plan does not write.
    Source(&'a [T]),
}

impl<'a, T: Element> Typed<'a, T> {
    /// Returns the memory for a function; `copy` takes what it gets instead of memory that it may not write.
    fn bytes(self, copy: &'a mut Vec<T>) -> Buffers<'a> {
        match self {
            Self::Source(buffer) => {
                copy.extend_from_slice(buffer);
                Buffers::InPlace(bytemuck::cast_slice_mut(copy))
            }
            Self::Separate(input, output) => {
                Buffers::OutOfPlace { input: bytemuck::cast_slice(input), output: bytemuck::cast_slice_mut(output) }
            }
            Self::Same(buffer) => Buffers::InPlace(bytemuck::cast_slice_mut(buffer)),
        }
    }
}
