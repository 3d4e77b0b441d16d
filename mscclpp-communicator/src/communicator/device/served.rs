//! Whether algorithms serve a call, before it is made.

use std::panic::Location;

use super::connection::Connection;
use super::launch::{DeviceCall, Entry, pieces};
use super::posted::Kind;
use super::{Devices, OnStream};
use crate::communicator::decide::{decide, select};
use crate::communicator::forced::Variant;
use mscclpp_base::error::Error;
use mscclpp_select::Request;

impl OnStream<'_> {
    /// Checks that algorithms serve a call on memory that is not registered: a call that fails may have changed its memory. The
    /// request is one of [`Communicator::request_of`](crate::Communicator::request_of), with the call's reduction, root and mode;
    /// what depends on the devices is added here. The first call connects the ranks, so that all of them make it.
    ///
    /// # Cost
    /// Compiles the plans, which are cached.
    ///
    /// # Errors
    /// [`Error::Select`] and [`Error::NoPlan`] if no algorithm serves the call; those of [`OnStream`].
    #[track_caller]
    #[doc(hidden)]
    pub fn check_request(&self, request: &Request) -> Result<(), Error> {
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        // That no algorithm serves it is the answer, and no failure of the communicator.
        let answer = self.communicator.guard(&mut calls, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            match connection.check_request(&call, request) {
                Err(error @ (Error::Select { .. } | Error::NoPlan { .. })) => Ok(Some(error)),
                other => other.map(|()| None),
            }
        })?;
        answer.map_or(Ok(()), Err)
    }
}

impl OnStream<'_> {
    /// Returns whether calls of `request` on memory that is not registered are made in place, as
    /// [`Communicator::agree_in_place`](crate::Communicator::agree_in_place) does.
    ///
    /// # Errors
    /// Those of [`OnStream`].
    #[track_caller]
    #[doc(hidden)]
    pub fn agree_in_place(&self, request: &Request, in_place: bool) -> Result<bool, Error> {
        let request = Request { in_place: false, ..*request };
        let forms = &self.communicator.inner.forms;
        if let Some(form) = forms.find(&request, self.communicator.num_ranks(), in_place) {
            return Ok(form);
        }
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        let form = self.communicator.record(&mut calls, None, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            let kind = Kind::Agreement(connection.on_device(request));
            let text = kind.describe();
            connection.check(call.stream)?;
            connection.post(kind, &call)?;
            let of_all = {
                let _set_up = call.set_up()?;
                connection.executor.gather(&text, &[u64::from(in_place)])?
            };
            connection.compare()?;
            Ok(of_all.iter().flatten().all(|in_place| *in_place == 1))
        })?;
        forms.insert(request, form);
        Ok(form)
    }
}

impl Devices {
    /// Returns whether a request on memory that is not registered is prepared, so that a call only enqueues work.
    pub(super) fn is_prepared(&self, variant: Variant, request: &Request) -> bool {
        let is_prepared = |connection: &Connection| connection.is_prepared(variant, request, self.staging_limit);
        self.connection.as_deref().is_some_and(is_prepared)
    }
}

impl Connection {
    /// Returns whether a request on memory that is not registered is prepared, in all its pieces.
    fn is_prepared(&self, variant: Variant, request: &Request, staging_limit: u64) -> bool {
        let whole = self.cache.find(&(variant, self.on_device(*request)));
        if whole.is_some_and(Entry::is_of_kernels) {
            return true;
        }
        pieces(staging_limit, request)
            .all(|piece| self.cache.find(&(variant, self.on_device(piece))).is_some_and(Entry::is_ready))
    }

    fn check_request(&self, call: &DeviceCall<'_>, request: &Request) -> Result<(), Error> {
        let request = self.on_device(*request);
        if request.bytes == 0 || request.num_ranks == 1 {
            return Ok(());
        }
        let (registry, rank, forced) = (call.communicator.registry()?, call.communicator.rank(), &*call.forced);
        // Kernels take it whole.
        if select(&registry, forced, &request, rank).is_ok_and(|decision| !decision.algorithm.has_plans()) {
            return Ok(());
        }
        pieces(call.staging_limit, &request).try_for_each(|piece| decide(&registry, forced, &piece, rank).map(|_| ()))
    }
}
