//! Symmetric memory: allocations of all ranks that calls use in place.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use mscclpp_communicator::OnStream;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{DeviceBuffer, DeviceVec, Registered};

use super::allocation::containing;
use super::lock;
use super::memory::Memory;
use crate::registered::RegisteredPart;

/// The allocations that are registered with a communicator.
#[derive(Default)]
pub(super) struct SymmetricMemory(Mutex<Vec<Registered<DeviceVec<u8>>>>);

/// Exclusive access to the allocations of a communicator.
pub(super) struct Locked<'a>(MutexGuard<'a, Vec<Registered<DeviceVec<u8>>>>);

impl SymmetricMemory {
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked(lock(&self.0))
    }
}

impl Locked<'_> {
    /// Drops what nothing else owns. All ranks free it later.
    pub(super) fn drop_unused(&mut self) {
        self.0.retain(|registered| Arc::strong_count(registered.deref().memory()) > 1);
    }

    /// Registers the allocation that contains memory, unless it is. A call of all ranks.
    ///
    /// # Errors
    /// Those of [`OnStream::register`].
    pub(super) fn register(&mut self, memory: Memory, on: &OnStream<'_>) -> Result<(), Error> {
        self.drop_unused();
        let allocation = find(memory)?;
        if self.position(&allocation).is_none() {
            let len = allocation.as_slice().bytes as usize;
            self.0.push(on.register::<u8, _>(DeviceVec::of(allocation, len, None))?);
        }
        Ok(())
    }

    /// Returns memory as a part of its allocation, which is registered.
    pub(super) fn part(&self, memory: Memory) -> Result<RegisteredPart<'_>, Error> {
        let allocation = find(memory)?;
        let begin = (memory.address - allocation.as_slice().address) as usize;
        let of = self.position(&allocation).and_then(|at| self.0.get(at)).ok_or_else(not_symmetric)?;
        Ok(RegisteredPart { of, range: begin..begin + memory.bytes as usize })
    }

    fn position(&self, allocation: &Arc<DeviceBuffer>) -> Option<usize> {
        self.0.iter().position(|registered| Arc::ptr_eq(registered.deref().memory(), allocation))
    }
}

fn find(memory: Memory) -> Result<Arc<DeviceBuffer>, Error> {
    containing(memory).ok_or_else(not_symmetric)
}

fn not_symmetric() -> Error {
    Error::Internal("memory of a call is not symmetric".into())
}
