//! Memory of plans: counters, scratch, copies of slices that are not shared.
//!
//! All plans of the ranks of a node share a few slabs, each of which the first rank of the node creates and every process
//! maps once. An allocation is a place in one of them with a part for each rank, whose pages the rank itself allocates,
//! on its own memory node. All slabs together at least double with each new one, so a process has as many mappings as the
//! logarithm of the bytes, however many plans and ranks there are, and one more for each allocation of which UCX gets regions.
//!
//! # Agreement
//!
//! Allocations are calls of all ranks, and every rank decides alone where one is, from the calls so far: all get the
//! same result, and compare it in the call. A rank drops its handle when it likes, and reports that when it prepares a plan.
//! When all have, each frees the pages of its part, so that the part is zero when it is used again, and the place can be
//! taken from the end of the next call on: then all ranks have freed their pages.
//!
//! # Why this is sound
//!
//! Ranks of one process access a slab at the same addresses, whichever of them has the part. They do so through
//! [`SharedCacheLines`] and [`Views`] only (a [`Region`] has other addresses), which is to say in atomic units, and no
//! reference to the elements exists. Where a unit is depends on the bounds of a view: those of a part, and in a part for
//! copies those of the copy, which ranks compute instead of accepting them from each other. A place becomes another
//! allocation's only after all ranks have dropped their handles and reported that in a call, which orders all accesses
//! before it. Ranks of other processes may break these rules; they access other mappings, and what they write is only a
//! value.
//!
//! Buffers of callers are not allocated here, because their owners access them as slices: see
//! [`SharedBuffer`](super::SharedBuffer).

mod allocate;
mod place;
mod pool;
mod ranges;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

pub(super) use self::allocate::Parts;
use self::place::Place;
use self::pool::Dropped;
pub(super) use self::pool::SlabPool;
use mscclpp_base::error::Error;
use mscclpp_base::shm::{Region, SecondMapping, SharedCacheLines, Slab, Views};

/// An allocation of the ranks of a node. While a rank has this handle, no other allocation gets the memory.
pub(super) struct PlanMemory {
    /// Its number among the allocations of the communicator; 0 for none.
    pub(super) number: u64,
    purpose: &'static str,
    place: Place,
    slab: Arc<Slab>,
    own_local_rank: usize,
    /// Bytes of this rank's part whose pages are allocated, from its beginning on.
    reserved: AtomicU64,
    dropped: Arc<Dropped>,
    second: SecondMapping,
}

impl PlanMemory {
    /// Allocates the pages of the first bytes of this rank's part, if there is one and it lacks them.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    #[inline]
    pub(super) fn reserve(&self, bytes: u64) -> Result<(), Error> {
        if bytes <= self.reserved.load(Relaxed) { Ok(()) } else { self.reserve_pages(bytes) }
    }

    #[cold]
    fn reserve_pages(&self, bytes: u64) -> Result<(), Error> {
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes).min(self.len());
        if let Some(part) = self.place.part(self.own_local_rank) {
            let begin = part.start + self.reserved.load(Relaxed);
            self.slab.reserve(&(begin..part.start + bytes), self.purpose)?;
        }
        self.reserved.store(bytes, Relaxed);
        Ok(())
    }

    /// Returns bytes of this rank's part as a region; `None` if they are not in it.
    pub(super) fn region(&self, addresses: &Range<usize>) -> Option<Region> {
        let part = self.place.part(self.own_local_rank)?;
        self.second.region(self.slab.segment(), &part, addresses)
    }

    /// Returns the bytes of a part.
    pub(super) fn len(&self) -> u64 {
        self.place.len()
    }

    /// Makes bytes of a local rank's part a slice of `views`, and returns whether the rank has them.
    pub(super) fn set_view(&self, views: &mut Views, number: usize, local_rank: usize, bytes: Range<u64>) -> bool {
        let inside = bytes.start <= bytes.end && bytes.end <= self.len();
        match self.place.part(local_rank).filter(|_| inside) {
            Some(part) => views.set(number, self.slab.segment(), part.start + bytes.start..part.start + bytes.end),
            None => false,
        }
    }

    /// Returns the part of a local rank as lines; none if it has no part.
    pub(super) fn lines(&self, local_rank: usize) -> SharedCacheLines {
        SharedCacheLines::new(Arc::clone(self.slab.segment()), self.place.part(local_rank).unwrap_or(0..0))
    }
}

impl Drop for PlanMemory {
    fn drop(&mut self) {
        self.dropped.lock().push(self.number);
    }
}
