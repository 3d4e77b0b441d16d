//! Registration of callers' buffers, each allocation of which is sent once.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};

use super::memory::PeerMemory;
use super::share::Exchanged;
use super::{IpcGroup, decode, encode};
use crate::cuda::nodes::Owner;
use mscclpp_base::error::Error;
use mscclpp_cuda::driver;
use mscclpp_cuda::driver::{Allocation, Handle, SharedDriver};
use mscclpp_cuda::slice::DeviceSlice;

/// Allocations of callers that the ranks have registered with each other.
#[derive(Default)]
pub(super) struct Known {
    /// Allocations of this rank, by id.
    mine: BTreeMap<u64, Mine>,
    /// Allocations of other ranks, by rank and id.
    theirs: BTreeMap<(u32, u64), PeerMemory>,
    /// Ids of allocations of this rank that were freed, of which the other ranks do not know.
    gone: Vec<u64>,
}

/// A registered allocation of this rank.
struct Mine {
    found: Allocation,
    /// Its physical memory. The other ranks keep it anyway, until the next registration.
    physical: Option<PhysicalMemory>,
    /// What keeps it exported.
    shown: Option<PeerMemory>,
}

/// A handle of physical memory.
pub(super) struct PhysicalMemory {
    driver: SharedDriver,
    handle: Handle,
}

impl PhysicalMemory {
    /// Returns the physical memory at the first byte of an allocation; `None` for an allocation of another kind.
    pub(super) fn at(driver: &SharedDriver, base: u64) -> driver::Result<Option<Self>> {
        Ok(driver.retain(base)?.map(|handle| Self { driver: driver.clone(), handle }))
    }
}

impl Drop for PhysicalMemory {
    fn drop(&mut self) {
        // A destructor cannot report a failure.
        let _ = self.driver.release(self.handle);
    }
}

impl Mine {
    /// Returns whether the allocation still exists. Its address may be that of another one now: of another identifier,
    /// or, where a driver numbers addresses instead of mappings, of other physical memory, of which no handle equals that
    /// of the registered memory as long as this is retained.
    fn exists(&self, driver: &SharedDriver) -> bool {
        let handle = |physical: &Option<PhysicalMemory>| physical.as_ref().map(|physical| physical.handle);
        driver.allocation(self.found.base).is_ok_and(|found| found == self.found)
            && PhysicalMemory::at(driver, self.found.base).is_ok_and(|now| handle(&now) == handle(&self.physical))
    }
}

/// Registration of a caller's slices.
#[derive(Default, Serialize, Deserialize)]
struct Registration {
    /// Ids of allocations that were freed.
    gone: Vec<u64>,
    /// Id, offset of the first byte in the allocation, bytes; id 0: an empty slice.
    slices: Vec<(u64, u64, u64)>,
    /// Ids that are new, whose descriptions follow.
    new: Vec<u64>,
}

impl IpcGroup {
    /// Registers slices of every rank's device memory; a call of all ranks. Allocations that were registered before are
    /// not sent again; an allocation that was freed meanwhile is not confused with a later one at the same address.
    /// Returns, by rank, the addresses at which this rank accesses the slices, and the mappings that must be kept as
    /// long as they are used.
    ///
    /// # Errors
    /// [`Error::NotShareable`] on all ranks if one of them cannot share its memory or map that of another one; further calls are
    /// possible. Those of a call of all ranks.
    pub(in crate::cuda) fn register(
        &self,
        mine: Result<Vec<DeviceSlice>, Error>,
    ) -> Result<(Vec<Vec<DeviceSlice>>, Vec<PeerMemory>), Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let not_shareable = |error| self.of_owner(Owner::Caller, error);
        let found = mine.and_then(|mine| Ok((self.find(&mut known, &mine).map_err(not_shareable)?, mine)));
        let (registration, new, mine) = match found {
            Ok(((registration, new), mine)) => (registration, Ok(new), mine),
            Err(error) => (Registration::default(), Err(error), Vec::new()),
        };
        let ids = registration.new.clone();
        let registration = encode(&registration)?;
        let exchanged = self.exchange("registration of buffers", new, Owner::Caller, &registration);
        if exchanged.is_err() {
            // No rank has mapped any of them.
            ids.iter().for_each(|id| drop(known.mine.remove(id)));
        }
        let Exchanged { memories, others } = exchanged?;
        known.gone.clear();
        let (mut all, mut kept) = (Vec::with_capacity(others.len()), Vec::new());
        for ((peer, memories), bytes) in (0_u32..).zip(memories).zip(others) {
            if peer == self.rank {
                for (id, memory) in ids.iter().zip(memories) {
                    known.mine.entry(*id).and_modify(|mine| mine.shown = Some(memory));
                }
                all.push(mine.clone());
                continue;
            }
            let Registration { gone, slices, new } = decode(peer, bytes)?;
            for id in gone {
                known.theirs.remove(&(peer, id));
            }
            known.theirs.extend(new.into_iter().map(|id| (peer, id)).zip(memories));
            let mut theirs = Vec::with_capacity(slices.len());
            for (id, at, bytes) in slices {
                if id == 0 {
                    theirs.push(DeviceSlice::EMPTY);
                    continue;
                }
                let unknown =
                    || Error::RankLost { peer, reason: format!("it registered memory {id} that it never shared") };
                let memory = known.theirs.get(&(peer, id)).ok_or_else(unknown)?;
                theirs.push(DeviceSlice { address: memory.address() + at, bytes });
                kept.push(memory.clone());
            }
            all.push(theirs);
        }
        Ok((all, kept))
    }

    /// Returns this rank's registration of its slices, and the allocations that are new to the other ranks.
    fn find(&self, known: &mut Known, mine: &[DeviceSlice]) -> Result<(Registration, Vec<DeviceSlice>), Error> {
        let driver = self.device.driver();
        let gone: Vec<u64> = known.mine.iter().filter(|(_, mine)| !mine.exists(driver)).map(|(&id, _)| id).collect();
        for id in &gone {
            known.mine.remove(id);
        }
        known.gone.extend(gone);
        let mut registration =
            Registration { gone: known.gone.clone(), slices: Vec::with_capacity(mine.len()), new: Vec::new() };
        let mut new = Vec::new();
        for slice in mine {
            if slice.bytes == 0 {
                registration.slices.push((0, 0, 0));
                continue;
            }
            let found = driver.allocation(slice.address)?;
            let at = slice.address - found.base;
            if at + slice.bytes > found.bytes {
                return Err(Error::Tensor {
                    found: format!(
                        "of {} bytes, of which {} are in its first allocation",
                        slice.bytes,
                        found.bytes - at
                    ),
                    expected: "one within a single allocation, such as memory of `Executor::alloc`".into(),
                });
            }
            if let Entry::Vacant(entry) = known.mine.entry(found.id) {
                let physical = PhysicalMemory::at(driver, found.base)?;
                entry.insert(Mine { found, physical, shown: None });
                registration.new.push(found.id);
                new.push(DeviceSlice { address: found.base, bytes: found.bytes });
            }
            registration.slices.push((found.id, at, slice.bytes));
        }
        Ok((registration, new))
    }
}
