//! Finds the memory that peers can use too.

use std::sync::{Arc, Weak};

use super::super::buffer::Shared;
use super::super::lender::ring_entry;
use super::super::plan_memory::PlanMemory;
use super::Session;
use mscclpp_base::memory::Loan;
use mscclpp_base::shm::Segment;

impl Session {
    /// Records how much memory this rank shares with its peers, for its metrics.
    pub(in super::super) fn count_memory(&self) {
        let buffers = self.regions.iter().filter_map(Weak::upgrade).map(|region| region.own.len() as u64);
        self.history.set_memory(buffers.sum::<u64>() + self.slabs.len());
    }

    /// Returns the number of the allocation in which peers can access a slice, and the slice's offset in it. Searches
    /// `last` first, and stores the found allocation there.
    #[inline]
    pub(in super::super) fn region(&self, last: &mut Weak<Shared>, loan: &Loan<'_>) -> Option<(u64, u64)> {
        let find = |region: &Weak<Shared>| {
            let region = region.upgrade()?;
            Some((region.number, region.find(loan)?))
        };
        find(last).or_else(|| {
            let (region, found) = self.regions.iter().find_map(|region| Some((region, find(region)?)))?;
            *last = Weak::clone(region);
            Some(found)
        })
    }

    /// Returns a local rank's memory in a live allocation.
    #[cold]
    pub(in super::super) fn region_of(&self, local_rank: usize, number: u64) -> Option<Arc<Segment>> {
        let mut regions = self.regions.iter().filter_map(Weak::upgrade);
        regions.find(|region| region.number == number).and_then(|region| region.at(local_rank).cloned())
    }

    /// Returns the memory for copies with a number, and where in a part the copy of a call's slot is.
    #[inline]
    pub(in super::super) fn copies_in(&self, number: u64, call: u64, slot: usize) -> Option<(&PlanMemory, u64)> {
        let ring = self.ring.as_ref().map(|ring| (&**ring, ring_entry(call, slot)));
        let staging = self.staging[slot].as_ref().map(|staging| (&**staging, 0));
        [ring, staging].into_iter().flatten().find(|(memory, _)| memory.number == number)
    }
}
