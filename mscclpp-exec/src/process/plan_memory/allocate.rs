//! The calls in which ranks allocate memory for plans.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::PlanMemory;
use super::place::{Place, Size};
use crate::process::session::{Session, lost_descriptor};
use mscclpp_base::error::Error;
use mscclpp_base::memory::check_available;
use mscclpp_base::shm::{Sent, Slab};

/// Which local ranks have a part of an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Parts {
    /// The first one.
    First,
    /// Each.
    All,
}

/// What a rank reports in a call.
#[derive(Default, Serialize, Deserialize)]
struct Report {
    /// Whether the rank lacks memory.
    failed: bool,
    /// Where the allocation is.
    place: Option<Place>,
    /// Allocations that the rank has dropped.
    dropped: Vec<u64>,
}

/// What the peers of a rank report in a call.
struct Reported {
    /// Local rank of the first peer that lacks memory.
    failed: Option<usize>,
    /// Message of the first rank of the node.
    first: Option<Sent>,
}

impl Session {
    /// Allocates zeroed memory for a plan, in calls of all ranks of the node. `len`: bytes of each part, the same on all
    /// ranks; `now`: allocates its pages at once, otherwise [`PlanMemory::reserve`] does.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] on a rank that lacks memory, [`Error::PeerOutOfMemory`] on the others; otherwise as
    /// [`exchange`](Self::exchange).
    pub(in super::super) fn allocate(
        &mut self,
        len: u64,
        parts: Parts,
        text: &str,
        purpose: &'static str,
        now: bool,
    ) -> Result<Arc<PlanMemory>, Error> {
        let parts = if parts == Parts::All { self.locals.len() } else { 1 };
        let place = self.find_place(Size { parts, len }, text, purpose)?;
        self.allocations += 1;
        let memory = self.slabs.insert(self.allocations, purpose, place);
        let own = if now { memory.reserve(len) } else { check_available(len, purpose) };
        // A rank without memory takes part in the call as well, or the others would wait for it.
        let report = Report { failed: own.is_err(), place: Some(place), ..Report::default() };
        let reported = self.exchange_reports(report, None, text)?;
        own.map_err(|error| self.fail_allocation(error))?;
        self.check_reported(&reported, text)?;
        self.count_memory();
        Ok(Arc::new(memory))
    }

    /// Takes memory from the slabs, or from a new one.
    fn find_place(&mut self, size: Size, text: &str, purpose: &'static str) -> Result<Place, Error> {
        // What ranks have dropped may suffice. They report it in the first call, and have freed it after the second.
        for _ in 0..2 {
            if let Some(place) = self.slabs.take(size) {
                return Ok(place);
            }
            self.exchange_drops(text)?;
        }
        if let Some(place) = self.slabs.take(size) {
            return Ok(place);
        }
        let len = self.slabs.next_slab_bytes(size);
        let own = check_available(size.len, purpose).and_then(|()| match self.own_local_rank {
            0 => Slab::new(len, purpose).map(|slab| Some(Arc::new(slab))),
            _ => Ok(None),
        });
        let report = Report { failed: own.is_err(), ..Report::default() };
        let reported = self.exchange_reports(report, own.as_ref().ok().cloned().flatten(), text)?;
        let own = own.map_err(|error| self.fail_allocation(error))?;
        self.check_reported(&reported, text)?;
        let slab = match own {
            Some(slab) => slab,
            None => {
                let sent = reported.first.unwrap_or_default().into_slab(len);
                let slab = sent.and_then(|slab| slab.ok_or_else(|| lost_descriptor(self.locals[0])));
                // No peer has noticed this failure.
                slab.map_err(|error| self.abort(error))?
            }
        };
        self.slabs.add(slab);
        self.slabs.take(size).ok_or_else(|| self.abort(Error::Internal("a slab without room".into())))
    }

    /// Exchanges which allocations ranks have dropped, in a call of all ranks of the node.
    pub(in super::super) fn exchange_drops(&mut self, text: &str) -> Result<(), Error> {
        self.exchange_reports(Report::default(), None, text).map(drop)
    }

    fn check_reported(&self, reported: &Reported, text: &str) -> Result<(), Error> {
        match reported.failed {
            Some(peer) => Err(self.peer_out_of_memory(peer, text)),
            None => Ok(()),
        }
    }

    /// Announces that an allocation has failed, of which the ranks of the node learn in the same call, and returns the error. The communicator
    /// can be used, but ranks may wait for those that end because of this.
    #[cold]
    pub(in super::super) fn fail_allocation(&self, error: Error) -> Error {
        self.bootstrap.announce_failure(self.cause_of(&error));
        error
    }

    /// Does what [`fail_allocation`](Self::fail_allocation) does for one that failed on a peer.
    #[cold]
    pub(in super::super) fn peer_out_of_memory(&self, local_rank: usize, text: &str) -> Error {
        self.fail_allocation(Error::PeerOutOfMemory { peer: self.locals[local_rank], call: text.to_owned() })
    }

    /// Exchanges reports, compares where the ranks have placed the allocation, and frees the pages of allocations that all
    /// ranks have dropped.
    fn exchange_reports(&mut self, report: Report, slab: Option<Arc<Slab>>, text: &str) -> Result<Reported, Error> {
        let own = Report { dropped: self.slabs.take_dropped(), ..report };
        let bytes = postcard::to_allocvec(&own).map_err(|error| Error::Internal(error.to_string()))?;
        let mut sent = self.exchange(text, &Sent { bytes, slab, ..Sent::default() })?;
        // All ranks have freed the pages before they entered this call.
        self.slabs.free_retired();
        let mut failed = None;
        for (local_rank, sent) in sent.iter().enumerate() {
            if local_rank == self.own_local_rank {
                self.free_dropped(local_rank, &own.dropped)?;
                continue;
            }
            let report: Report = postcard::from_bytes(&sent.bytes).map_err(|error| {
                self.abort_because_of(local_rank, format!("it sent data that this rank cannot decode: {error}"))
            })?;
            if report.place != own.place {
                let (expected, found) = (own.place, report.place);
                let reason = format!("it allocated memory at {found:?}, expected {expected:?}, in {text}");
                return Err(self.abort_because_of(local_rank, reason));
            }
            self.free_dropped(local_rank, &report.dropped)?;
            failed = failed.or(report.failed.then_some(local_rank));
        }
        Ok(Reported { failed, first: (self.own_local_rank != 0).then(|| sent.swap_remove(0)) })
    }

    /// Records allocations that a rank has dropped, and frees the pages of those that no rank uses any more.
    fn free_dropped(&mut self, local_rank: usize, dropped: &[u64]) -> Result<(), Error> {
        for &number in dropped {
            let unused = self.slabs.record_drop(local_rank, number).map_err(|_| {
                self.abort_because_of(local_rank, format!("it freed allocation {number}, which it does not have"))
            })?;
            if let Some(place) = unused {
                self.slabs.release(&place).map_err(|error| self.abort(error))?;
            }
        }
        Ok(())
    }

    #[cold]
    fn abort_because_of(&mut self, local_rank: usize, reason: String) -> Error {
        let peer = self.locals[local_rank];
        self.abort(Error::RankLost { peer, reason })
    }
}
