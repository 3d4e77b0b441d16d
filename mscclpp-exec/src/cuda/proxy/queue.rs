//! The trigger FIFO from a device to its proxy thread.

use std::mem::offset_of;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use mscclpp_cuda::abi;
use mscclpp_cuda::driver;
use mscclpp_cuda::driver::SharedDriver;
use mscclpp_cuda::memory::MappedMemory;

/// Number of triggers that a queue holds before a thread block must wait, as in MSCCL++.
const SLOTS: u64 = 512;

/// Bytes of a trigger.
const TRIGGER: u64 = size_of::<abi::Trigger>() as u64;

/// A queue in mapped memory: slots, then the number of positions whose work is complete.
pub(super) struct Queue {
    memory: MappedMemory,
}

impl Queue {
    pub(super) fn new(driver: &SharedDriver) -> driver::Result<Self> {
        Ok(Self { memory: MappedMemory::new(driver, SLOTS * TRIGGER + 64)? })
    }

    /// Returns the queue as the device sees it; the device counts the triggers that it pushed at `head`.
    pub(super) fn of_device(&self, head: u64) -> abi::Fifo {
        abi::Fifo { slots: self.memory.device(0), head, handled: self.memory.device(SLOTS * TRIGGER), size: SLOTS }
    }

    /// Empties the queue.
    pub(super) fn clear(&self) {
        for slot in 0..SLOTS {
            self.memory.double(slot * TRIGGER).store(0, Relaxed);
        }
        self.handled().store(0, Release);
    }

    /// Returns the number of positions whose work is complete.
    pub(super) fn handled(&self) -> &AtomicU64 {
        self.memory.double(SLOTS * TRIGGER)
    }

    /// Returns the trigger at a position, if it has been pushed.
    pub(super) fn take(&self, position: u64) -> Option<[u64; 4]> {
        let word = |field: usize| self.memory.double(position % SLOTS * TRIGGER + field as u64);
        // Pairs with the device's release store of the turn, after its words.
        if word(offset_of!(abi::Trigger, turn)).load(Acquire) != position + 1 {
            return None;
        }
        let fields = [
            offset_of!(abi::Trigger, src),
            offset_of!(abi::Trigger, dst),
            offset_of!(abi::Trigger, bytes),
            offset_of!(abi::Trigger, signal),
        ];
        Some(fields.map(|field| word(field).load(Relaxed)))
    }
}
