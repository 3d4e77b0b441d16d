//! Transfers between two ranks, in a communicator of the two.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use mscclpp_bootstrap::place;
use mscclpp_core::collective::CollectiveKind;

use super::handle::Communicator;
use super::serve::Typed;
use crate::dtype::Element;
use crate::error::Error;
use crate::select::{Registry, Request};

/// The communicators of a rank with single other ranks, by rank: each exists from its first transfer on.
#[derive(Default)]
pub(super) struct Pairs(Mutex<BTreeMap<u32, Communicator>>);

impl Pairs {
    /// Replaces the registry of all pairs; the ranks have compared it.
    pub(super) fn set_registry(&self, registry: &Arc<Registry>) -> Result<(), Error> {
        for pair in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            pair.calls()?.clear();
            *pair.lock_registry() = Some(Arc::clone(registry));
        }
        Ok(())
    }
}

impl Communicator {
    /// Sends `data` to another rank, which receives as many elements of the same type with [`recv`](Self::recv). Returns when
    /// `data` may be changed: at once for short data, otherwise when the other rank has it. Ranks that exchange data do it in a
    /// [`Group`](super::Group).
    ///
    /// Other ranks need not call anything. The transfers between two ranks, in both directions, are made in the order of their
    /// calls: two ranks that both send first make different calls.
    ///
    /// # Cost
    /// The first transfer with a rank connects the two as a communicator of their own, which waits for the other one. Later ones
    /// are one launch of a plan of two ranks; registered memory of this communicator is copied like other memory.
    ///
    /// # Errors
    /// [`Error::Peer`] for this rank itself or no rank; [`Error::Transfer`] for any other failure: it ends the transfers between
    /// the two ranks, and no other calls.
    #[track_caller]
    pub fn send<T: Element>(&self, data: &[T], peer: u32) -> Result<(), Error> {
        let count = data.len();
        self.transfer("send", peer, |pair| {
            pair.serve(pair.transfer_request::<T>(count, pair.rank()), Typed::Source(data))
        })
    }

    /// Receives `data` from another rank, which sends as many elements of the same type with [`send`](Self::send).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[track_caller]
    pub fn recv<T: Element>(&self, data: &mut [T], peer: u32) -> Result<(), Error> {
        let count = data.len();
        self.transfer("recv", peer, |pair| {
            pair.serve(pair.transfer_request::<T>(count, 1 - pair.rank()), Typed::Same(data))
        })
    }

    /// Makes a call of the communicator with another rank.
    #[track_caller]
    pub(super) fn transfer(
        &self,
        call: &'static str,
        peer: u32,
        run: impl FnOnce(&Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (rank, num_ranks) = (self.rank(), self.num_ranks());
        if peer == rank || peer >= num_ranks {
            return Err(Error::Peer { call, rank, peer, num_ranks });
        }
        self.wait_for_started();
        let _place = place::enter(Location::caller());
        let pair = self.pair(peer)?;
        run(&pair).map_err(|source| Error::Transfer { call, rank, peer, source: Box::new(source) })
    }

    /// Calls a function for each pair.
    #[cfg(feature = "cuda")]
    #[track_caller]
    pub(super) fn each_pair(&self, run: impl Fn(&Self) -> Result<(), Error>) -> Result<(), Error> {
        let pairs = self.inner.pairs.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pairs.into_iter().try_for_each(|(peer, pair)| {
            let pair = Self { timeout: self.timeout, ..pair };
            let failed = |source| Error::Transfer { call: "synchronize", rank: self.rank(), peer, source };
            run(&pair).map_err(|source| failed(Box::new(source)))
        })
    }

    /// Returns the communicator with another rank.
    fn pair(&self, peer: u32) -> Result<Self, Error> {
        let mut pairs = self.inner.pairs.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = pairs.get(&peer) {
            return Ok(Self { timeout: self.timeout, ..pair.clone() });
        }
        let bootstrap = self.inner.bootstrap.pair(peer)?;
        let registry = self.lock_registry().clone().or_else(|| self.inner.inherited.clone());
        let pair = Self::with_inherited(bootstrap, registry);
        pairs.insert(peer, pair.clone());
        Ok(Self { timeout: self.timeout, ..pair })
    }

    /// Returns the request of a transfer from one of two ranks: a broadcast in place.
    pub(super) fn transfer_request<T: Element>(&self, count: usize, from: u32) -> Request {
        Request { in_place: true, root: from, ..self.request::<T>(CollectiveKind::Broadcast, count) }
    }
}
