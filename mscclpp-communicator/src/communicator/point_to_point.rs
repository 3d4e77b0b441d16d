//! Transfers between two ranks, in a communicator of the two.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use mscclpp_bootstrap::place;
use mscclpp_core::collective::CollectiveKind;

use super::handle::Communicator;
use super::serve::Typed;
use mscclpp_base::dtype::{DataType, Element, ElementType};
use mscclpp_base::error::{Error, ErrorKind};
use mscclpp_select::{Registry, Request};

/// The sequence of which a transfer between two ranks is a part: the ranks make the transfers of one in the same order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sequence {
    /// Transfers of slices in both directions: a call waits for the other rank, which must not make the same one.
    OfSlices,
    /// Transfers of device memory that this rank sends.
    #[cfg(feature = "cuda")]
    Sent,
    /// Transfers of device memory that this rank receives.
    #[cfg(feature = "cuda")]
    Received,
}

impl Sequence {
    /// Returns that of a transfer of device memory.
    #[cfg(feature = "cuda")]
    pub(super) fn on_device(is_sent: bool) -> Self {
        if is_sent { Self::Sent } else { Self::Received }
    }

    /// Returns whether this rank sends, if all transfers have one direction.
    fn is_sent(self) -> Option<bool> {
        match self {
            Self::OfSlices => None,
            #[cfg(feature = "cuda")]
            Self::Sent => Some(true),
            #[cfg(feature = "cuda")]
            Self::Received => Some(false),
        }
    }
}

/// The communicators of a rank with single other ranks, by rank and sequence: each exists from its first transfer on.
#[derive(Default)]
pub(super) struct Pairs(Mutex<BTreeMap<(u32, Sequence), Communicator>>);

impl Pairs {
    /// Replaces the registry of all pairs; the ranks have compared it.
    pub(super) fn set_registry(&self, registry: &Arc<Registry>) -> Result<(), Error> {
        let registry = Registry::of_transfers(registry);
        for pair in self.0.lock().unwrap_or_else(PoisonError::into_inner).values() {
            pair.calls()?.clear();
            *pair.lock_registry() = Some(Arc::clone(&registry));
        }
        Ok(())
    }
}

impl Communicator {
    /// Sends `data` to another rank, which receives as many elements of the same type with [`recv`](Self::recv). Returns when
    /// `data` may be changed: at once for short data, otherwise when the other rank has it. Ranks that exchange data do it in a
    /// [`Group`](super::Group).
    ///
    /// Other ranks need not call anything. The transfers of slices between two ranks, in both directions, are made in the order of
    /// their calls: two ranks that both send first make different calls.
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
        self.transfer("send", peer, Sequence::OfSlices, |pair| {
            pair.serve(pair.transfer_request(T::TYPE, size_of_val(data) as u64, pair.rank()), Typed::Source(data))
        })
    }

    /// Receives `data` from another rank, which sends as many elements of the same type with [`send`](Self::send).
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[track_caller]
    pub fn recv<T: Element>(&self, data: &mut [T], peer: u32) -> Result<(), Error> {
        self.transfer("recv", peer, Sequence::OfSlices, |pair| {
            pair.serve(pair.transfer_request(T::TYPE, size_of_val(data) as u64, 1 - pair.rank()), Typed::Same(data))
        })
    }

    /// Returns whether [`send`](Self::send) of slices of these lengths, one after the other, would return without waiting for the other
    /// rank: both have transferred slices of the same lengths in this direction before, they have at most 64 KiB each, and the other
    /// rank is on this node and has received all but the last ones.
    ///
    /// No other thread may make transfers between the two ranks.
    #[doc(hidden)]
    pub fn sends_at_once<T: Element>(&self, lens: &[usize], peer: u32) -> bool {
        let pairs = self.inner.pairs.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pair) = pairs.get(&(peer, Sequence::OfSlices)) else { return false };
        let Ok(calls) = pair.try_calls() else { return false };
        let is_immediate = |(before, len): (u64, &usize)| {
            let request = pair.transfer_request(T::TYPE, (len * size_of::<T>()) as u64, pair.rank());
            calls
                .cache
                .find(&(calls.forced.variant(&request), request))
                .is_some_and(|prepared| prepared.is_immediate(before))
        };
        (0..).zip(lens).all(is_immediate)
    }

    /// Returns whether the other rank has started a transfer of slices that this rank has yet to make. What ranks of other nodes have
    /// started is not known here.
    #[doc(hidden)]
    pub fn has_started_transfer(&self, peer: u32) -> bool {
        let pairs = self.inner.pairs.0.lock().unwrap_or_else(PoisonError::into_inner);
        let executor =
            pairs.get(&(peer, Sequence::OfSlices)).and_then(|pair| pair.inner.executor.get().map(|of| (of, pair)));
        executor.is_some_and(|(executor, pair)| executor.has_started(1 - pair.rank()))
    }

    /// Makes a call of a communicator with another rank.
    #[track_caller]
    pub(super) fn transfer(
        &self,
        call: &'static str,
        peer: u32,
        sequence: Sequence,
        run: impl FnOnce(&Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.check_peer(call, peer)?;
        self.wait_for_started();
        let _place = place::enter(Location::caller());
        let pair = self.pair(peer, sequence)?;
        run(&pair).map_err(|source| self.failed_transfer(call, peer, sequence, source))
    }

    fn failed_transfer(&self, call: &'static str, peer: u32, sequence: Sequence, source: Error) -> Error {
        // The other rank may have left because a transfer of another sequence has failed, such as the other direction's.
        let is_lost = source.kind() == ErrorKind::RankLost;
        let source = if is_lost { self.failure_of_others(peer, sequence).unwrap_or(source) } else { source };
        let is_send_on_stream = sequence.is_sent() == Some(true);
        Error::Transfer { call, rank: self.rank(), peer, is_send_on_stream, source: Box::new(source) }
    }

    /// Returns why transfers of other sequences with a rank have failed, unless that rank was lost.
    fn failure_of_others(&self, peer: u32, sequence: Sequence) -> Option<Error> {
        let pairs = self.inner.pairs.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let others = pairs.into_iter().filter(|((other, of), _)| *other == peer && *of != sequence);
        let mut failures = others.filter_map(|(_, pair)| pair.bootstrap().check_alive().err().map(Error::from));
        failures.find(|failure| failure.kind() != ErrorKind::RankLost)
    }

    /// Checks that a rank is another one of the communicator.
    pub(super) fn check_peer(&self, call: &'static str, peer: u32) -> Result<(), Error> {
        let (rank, num_ranks) = (self.rank(), self.num_ranks());
        match peer == rank || peer >= num_ranks {
            true => Err(Error::Peer { call, rank, peer, num_ranks }),
            false => Ok(()),
        }
    }

    /// Calls a function for each pair, also if it fails for one; returns the first error.
    #[cfg(feature = "cuda")]
    #[track_caller]
    pub(super) fn each_pair(&self, run: impl Fn(&Self) -> Result<(), Error>) -> Result<(), Error> {
        let pairs = self.inner.pairs.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let run = |((peer, sequence), pair): ((u32, Sequence), Self)| {
            let pair = self.with_own_options(pair);
            // Which of the calls it was is not known, but the direction is.
            let call = sequence.is_sent().map_or("synchronize", |is_sent| if is_sent { "send" } else { "recv" });
            run(&pair).map_err(|source| self.failed_transfer(call, peer, sequence, source))
        };
        pairs.into_iter().map(run).fold(Ok(()), Result::and)
    }

    /// Returns a communicator with another rank, if there was a transfer of the sequence.
    #[cfg(feature = "cuda")]
    pub(super) fn known_pair(&self, peer: u32, sequence: Sequence) -> Option<Self> {
        let pairs = self.inner.pairs.0.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.get(&(peer, sequence)).map(|pair| self.with_own_options(pair.clone()))
    }

    /// Returns a communicator with another rank.
    fn pair(&self, peer: u32, sequence: Sequence) -> Result<Self, Error> {
        let mut pairs = self.inner.pairs.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = pairs.get(&(peer, sequence)) {
            return Ok(self.with_own_options(pair.clone()));
        }
        let bootstrap = self.inner.bootstrap.pair(peer, sequence.is_sent())?;
        let registry = self.lock_registry().clone().or_else(|| self.inner.inherited.clone());
        let registry = registry.as_ref().map(Registry::of_transfers);
        let pair = Self::with_inherited(bootstrap, registry, true);
        pairs.insert((peer, sequence), pair.clone());
        Ok(self.with_own_options(pair))
    }

    /// Returns a handle of another communicator with the options of this handle.
    fn with_own_options(&self, of: Self) -> Self {
        #[cfg(feature = "cuda")]
        of.inner.kernels.follow(&self.inner.kernels);
        Self { timeout: self.timeout, element_name: self.element_name, ..of }
    }

    /// Describes a request for messages.
    pub(super) fn describe(&self, request: &Request) -> String {
        match self.inner.is_pair {
            true => describe_transfer(request.message().count, request.element_type(), request.root),
            false => request.to_string(),
        }
    }

    /// Returns the request of a transfer from one of two ranks: a broadcast in place.
    pub(super) fn transfer_request(&self, dtype: DataType, bytes: u64, from: u32) -> Request {
        Request { in_place: true, root: from, ..self.request_of(CollectiveKind::Broadcast, dtype, bytes) }
    }
}

/// Describes a transfer from one of two ranks for messages.
pub(super) fn describe_transfer(len: u64, elements: ElementType, from: u32) -> String {
    format!("transfer of {len} {elements} from rank {from}")
}
