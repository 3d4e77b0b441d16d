//! Finds the memory that peers can use too.

use std::sync::{Arc, Weak};

use super::super::buffer::Shared;
use super::Session;
use crate::shm::{Loan, Segment};

impl Session {
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

    /// Returns the memory for copies of a slot, by its number.
    #[inline]
    pub(in super::super) fn copies_in(&self, number: u64, slot: usize) -> Option<&Arc<Shared>> {
        [&self.ring, &self.staging[slot]].into_iter().flatten().find(|shared| shared.number == number)
    }
}
