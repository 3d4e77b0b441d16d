//! The slabs of a node, and which of their bytes are in use.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::PlanMemory;
use super::place::{Place, Size};
use super::ranges::FreeRanges;
use mscclpp_base::error::Error;
use mscclpp_base::shm::{SecondMapping, Slab};

/// Bytes of the first slab, unless the call log needs more.
const MIN_SLAB_BYTES: u64 = 1 << 22;

/// Maximum number of dropped allocations that a rank reports in one call, so that they fit into a message.
const MAX_REPORTED: usize = 4096;

/// A rank's view of the slabs of its node. Depends only on the calls so far and on what ranks have reported in them, so
/// it is the same on all ranks.
pub(in super::super) struct SlabPool {
    own_local_rank: usize,
    ranks: usize,
    slabs: Vec<(Arc<Slab>, FreeRanges)>,
    /// Allocations that some rank may still use, by number.
    live: BTreeMap<u64, Live>,
    /// Places that are free from the end of the next call on: not before all ranks have freed their pages.
    retired: Vec<Place>,
    /// Numbers of the allocations that this rank has dropped, and not reported yet.
    dropped: Arc<Dropped>,
}

/// An allocation that some rank may still use.
struct Live {
    place: Place,
    /// By local rank.
    is_used: Box<[bool]>,
}

/// Numbers of allocations that a rank has dropped.
#[derive(Default)]
pub(super) struct Dropped(Mutex<Vec<u64>>);

impl Dropped {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlabPool {
    /// Returns the bytes of a node's first slab, which has room for `used` bytes.
    pub(in super::super) fn first_slab_bytes(used: u64) -> u64 {
        used.max(MIN_SLAB_BYTES).next_multiple_of(rustix::param::page_size() as u64)
    }

    /// Creates the view of the first slab, whose first `used` bytes are never freed.
    pub(in super::super) fn new(slab: Arc<Slab>, used: u64, own_local_rank: usize, ranks: usize) -> Self {
        let (live, retired, dropped) = (BTreeMap::new(), Vec::new(), Arc::default());
        let mut pool = Self { own_local_rank, ranks, slabs: Vec::new(), live, retired, dropped };
        pool.push(slab, used);
        pool
    }

    /// Adds a slab.
    pub(super) fn add(&mut self, slab: Arc<Slab>) {
        self.push(slab, 0);
    }

    fn push(&mut self, slab: Arc<Slab>, used: u64) {
        let free = FreeRanges::new(used..slab.len());
        self.slabs.push((slab, free));
    }

    /// Returns the length of a new slab for an allocation: so long that all slabs together are at least twice as long as
    /// before, which limits their number to the logarithm of the bytes.
    pub(super) fn next_slab_bytes(&self, size: Size) -> u64 {
        let all: u64 = self.slabs.iter().map(|(slab, _)| slab.len()).sum();
        size.total().max(all)
    }

    /// Takes memory; `None` if no slab has enough.
    pub(super) fn take(&mut self, size: Size) -> Option<Place> {
        let mut slabs = self.slabs.iter_mut().enumerate();
        slabs.find_map(|(slab, (_, free))| Some(Place::new(slab, free.take(size.total(), size.align())?, size)))
    }

    /// Creates this rank's handle to an allocation. Its place is in use until all ranks have dropped their handles.
    pub(super) fn insert(&mut self, number: u64, purpose: &'static str, place: Place) -> PlanMemory {
        self.live.insert(number, Live { place, is_used: vec![true; self.ranks].into() });
        PlanMemory {
            number,
            purpose,
            place,
            slab: Arc::clone(&self.slabs[place.slab].0),
            own_local_rank: self.own_local_rank,
            reserved: AtomicU64::new(0),
            dropped: Arc::clone(&self.dropped),
            second: SecondMapping::default(),
        }
    }

    /// Returns the bytes of this rank's parts of all allocations that some rank may still use.
    pub(in super::super) fn len(&self) -> u64 {
        let parts = self.live.values().filter_map(|live| live.place.part(self.own_local_rank));
        parts.map(|part| part.end - part.start).sum()
    }

    /// Returns the numbers of allocations that this rank has dropped, to be reported to all ranks.
    pub(super) fn take_dropped(&self) -> Vec<u64> {
        let mut dropped = self.dropped.lock();
        let reported = dropped.len().min(MAX_REPORTED);
        dropped.drain(..reported).collect()
    }

    /// Frees the places of allocations whose pages all ranks have freed before this call.
    pub(super) fn free_retired(&mut self) {
        for place in self.retired.drain(..) {
            self.slabs[place.slab].1.give(place.range());
        }
    }

    /// Records that a rank has dropped an allocation. Returns its place if no rank uses it any more: the caller
    /// [frees](Self::release) this rank's pages in this call.
    ///
    /// # Errors
    /// If the rank has no such allocation.
    pub(super) fn record_drop(&mut self, local_rank: usize, number: u64) -> Result<Option<Place>, UnknownAllocation> {
        let live = self.live.get_mut(&number).ok_or(UnknownAllocation)?;
        if !std::mem::replace(&mut live.is_used[local_rank], false) {
            return Err(UnknownAllocation);
        }
        if live.is_used.contains(&true) {
            return Ok(None);
        }
        let place = live.place;
        self.live.remove(&number);
        self.retired.push(place);
        Ok(Some(place))
    }

    /// Frees the pages of this rank's part of a place.
    ///
    /// # Errors
    /// As [`Slab::release`].
    pub(super) fn release(&self, place: &Place) -> Result<(), Error> {
        place.pages(self.own_local_rank).map_or(Ok(()), |pages| self.slabs[place.slab].0.release(&pages))
    }
}

/// A rank has reported an allocation that it does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnknownAllocation;

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(ranks: usize) -> SlabPool {
        let bytes = SlabPool::first_slab_bytes(64);
        SlabPool::new(Arc::new(Slab::new(bytes, "a test").unwrap()), 64, 0, ranks)
    }

    #[test]
    fn place_is_reused_in_the_second_call_after_the_last_rank_has_dropped_it() {
        let mut pool = pool(3);
        let size = Size { parts: 1, len: MIN_SLAB_BYTES / 2 };
        let place = pool.take(size).unwrap();
        assert_eq!((place, pool.take(size)), (Place::new(0, 1 << 21, size), None));
        drop(pool.insert(7, "a test", place));
        assert_eq!(pool.take_dropped(), [7]);
        assert_eq!([0, 2].map(|rank| pool.record_drop(rank, 7)), [Ok(None), Ok(None)]);
        pool.free_retired();
        assert_eq!(pool.take(size), None, "rank 1 uses it");
        assert_eq!(pool.record_drop(1, 7), Ok(Some(place)));
        assert_eq!(pool.take(size), None, "other ranks may not have freed their pages");
        pool.free_retired();
        assert_eq!(pool.take(size), Some(place));
    }

    #[test]
    fn reports_of_allocations_that_a_rank_does_not_have_are_errors() {
        let mut pool = pool(2);
        let place = pool.take(Size { parts: 2, len: 1 }).unwrap();
        let _memory = pool.insert(1, "a test", place);
        assert_eq!(pool.record_drop(1, 2), Err(UnknownAllocation));
        assert_eq!(pool.record_drop(1, 1), Ok(None));
        assert_eq!(pool.record_drop(1, 1), Err(UnknownAllocation));
    }

    #[test]
    fn number_of_slabs_is_logarithmic() {
        let mut pool = pool(1);
        let mut total = 0;
        for len in (1..3000).map(|n| n * 1000) {
            let size = Size { parts: 1, len };
            if pool.take(size).is_none() {
                let bytes = pool.next_slab_bytes(size);
                pool.add(Arc::new(Slab::new(bytes, "a test").unwrap()));
                pool.take(size).expect("it has room");
            }
            total += len;
        }
        let bytes: u64 = pool.slabs.iter().map(|(slab, _)| slab.len()).sum();
        assert!(bytes <= 4 * total, "{bytes} bytes of slabs for {total}");
        assert!(pool.slabs.len() <= 2 + (total / MIN_SLAB_BYTES).ilog2() as usize, "{} slabs", pool.slabs.len());
    }
}
