//! A record of what kernels read, write and synchronize with.

use std::sync::{Mutex, PoisonError};

/// What a thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    /// A plain load, also of a packet.
    Load,
    /// A plain store, also of a packet, when it was executed.
    Store,
    /// A load that acquires. Waits make any number of them.
    AcquireLoad,
    /// A store of a word that orders nothing.
    RelaxedStore,
    /// A store of a word that releases.
    ReleaseStore,
    /// An addition that orders nothing.
    RelaxedAdd,
    /// An addition that releases.
    ReleaseAdd,
    /// A compare-and-swap that took place; others are not recorded.
    Swap,
    /// A block sync, when the thread arrived there.
    BlockSync,
}

impl AccessKind {
    /// The kinds that `sim/memory.cc` passes, by number: all but block syncs.
    #[cfg(simulator)]
    pub(crate) const BY_NUMBER: [Self; 8] = [
        Self::Load,
        Self::Store,
        Self::AcquireLoad,
        Self::RelaxedStore,
        Self::ReleaseStore,
        Self::RelaxedAdd,
        Self::ReleaseAdd,
        Self::Swap,
    ];
}

/// An access, or a block sync. Loads of words that order nothing are not recorded: they look at clocks and at whether others
/// gave up, as often as the schedule has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// A number that the kernel has as long as its module is loaded.
    pub kernel: usize,
    /// The device.
    pub device: u32,
    /// The block.
    pub block: u32,
    /// The thread in the block.
    pub thread: u32,
    /// What it did.
    pub kind: AccessKind,
    /// The first byte; 0 for a block sync.
    pub address: u64,
    /// Bytes; 0 for a block sync.
    pub bytes: u32,
    /// What was stored or added as a word; 0 for others.
    pub value: u64,
}

/// Where accesses are recorded: those of each thread in its order.
#[derive(Debug, Default)]
pub struct AccessLog {
    list: Mutex<Vec<Access>>,
}

impl AccessLog {
    /// Takes what was recorded since the last call.
    pub fn take(&self) -> Vec<Access> {
        std::mem::take(&mut self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(simulator)]
    pub(crate) fn push(&self, access: Access) {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).push(access);
    }
}

impl PartialEq for AccessLog {
    /// Returns whether both are the same object.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for AccessLog {}
