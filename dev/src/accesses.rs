//! A log of the accesses and synchronization of kernels.

use std::sync::{Mutex, PoisonError};

/// Kind of a logged access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    /// A plain load, also of a packet.
    Load,
    /// A plain store, also of a packet, when it was executed.
    Store,
    /// A load with acquire semantics. A wait makes any number of them.
    AcquireLoad,
    /// A relaxed store of a word.
    RelaxedStore,
    /// A store of a word with release semantics.
    ReleaseStore,
    /// A relaxed addition.
    RelaxedAdd,
    /// An addition with release semantics.
    ReleaseAdd,
    /// A successful compare-and-swap; failed ones are not recorded.
    Swap,
    /// A relaxed load of a word. Polls of clocks and abort flags make any number of them.
    RelaxedLoad,
    /// A load from a table of the plan.
    TableLoad,
    /// The first use of what a load of a word or from a table returned: later loads of the thread may depend on it.
    Use,
    /// A block sync, when the thread arrived at it.
    BlockSync,
}

impl AccessKind {
    /// The kinds that `sim/memory.cc` passes, by number: all but block syncs.
    #[cfg(simulator)]
    pub(crate) const BY_NUMBER: [Self; 11] = [
        Self::Load,
        Self::Store,
        Self::AcquireLoad,
        Self::RelaxedStore,
        Self::ReleaseStore,
        Self::RelaxedAdd,
        Self::ReleaseAdd,
        Self::Swap,
        Self::RelaxedLoad,
        Self::TableLoad,
        Self::Use,
    ];
}

/// An access, or a block sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Number of the kernel, which is valid as long as its module is loaded.
    pub kernel: usize,
    /// The device.
    pub device: u32,
    /// The block.
    pub block: u32,
    /// The thread in the block.
    pub thread: u32,
    /// Kind of the access.
    pub kind: AccessKind,
    /// Address of the first byte; 0 for a block sync and a use.
    pub address: u64,
    /// Number of bytes; 0 for a block sync and a use.
    pub bytes: u32,
    /// The value that was stored or added as a word; 0 for other kinds.
    pub value: u64,
}

/// Log of accesses: those of each thread are in its program order.
#[derive(Debug, Default)]
pub struct AccessLog {
    list: Mutex<Vec<Access>>,
}

impl AccessLog {
    /// Removes and returns the accesses that were recorded since the last call.
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
