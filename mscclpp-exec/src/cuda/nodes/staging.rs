//! Page-locked memory between the device and the network.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::cuda::driver::{Result, SharedDriver};
use crate::cuda::memory::MappedMemory;

/// Maximum bytes of a staging buffer.
pub(super) const STAGING_BYTES: u64 = 1 << 20;

/// Number of staging buffers for each direction: one is copied while another one is sent or filled.
const BUFFERS_PER_DIRECTION: usize = 2;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferDirection {
    Out,
    In,
}

/// Staging buffers that the plans of an executor use for the ranks on other nodes, by rank. Launches are executed one
/// after the other, so plans share them.
#[derive(Default)]
pub(in crate::cuda) struct Stagings {
    by_rank: Mutex<BTreeMap<u32, Weak<Staging>>>,
}

/// The staging buffers for a rank.
pub(super) struct Staging {
    memory: MappedMemory,
    taken: Mutex<[bool; 2 * BUFFERS_PER_DIRECTION]>,
}

/// A staging buffer that no other code uses until it is dropped.
pub(super) struct StagingBuffer {
    staging: Arc<Staging>,
    at: usize,
}

impl Stagings {
    /// Returns the staging buffers for a rank.
    pub(super) fn of(&self, rank: u32, driver: &SharedDriver) -> Result<Arc<Staging>> {
        let mut by_rank = self.by_rank.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(staging) = by_rank.get(&rank).and_then(Weak::upgrade) {
            return Ok(staging);
        }
        let memory = MappedMemory::new(driver, 2 * BUFFERS_PER_DIRECTION as u64 * STAGING_BYTES)?;
        let staging = Arc::new(Staging { memory, taken: Mutex::new([false; 2 * BUFFERS_PER_DIRECTION]) });
        by_rank.insert(rank, Arc::downgrade(&staging));
        Ok(staging)
    }
}

impl Staging {
    /// Returns a staging buffer, if one is free.
    pub(super) fn take(self: &Arc<Self>, way: TransferDirection) -> Option<StagingBuffer> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let pieces = if way == TransferDirection::Out {
            0..BUFFERS_PER_DIRECTION
        } else {
            BUFFERS_PER_DIRECTION..2 * BUFFERS_PER_DIRECTION
        };
        let at = pieces.into_iter().find(|&at| !taken[at])?;
        taken[at] = true;
        Some(StagingBuffer { staging: Arc::clone(self), at })
    }
}

impl StagingBuffer {
    fn first(&self) -> u64 {
        self.at as u64 * STAGING_BYTES
    }

    /// Returns the device's address.
    pub(super) fn device(&self) -> u64 {
        self.staging.memory.device(self.first())
    }

    /// Returns its first bytes.
    ///
    /// # Safety
    /// Copies of the device into it are complete.
    ///
    /// # Panics
    /// If it has fewer bytes.
    pub(super) unsafe fn bytes(&self, len: u64) -> &[u8] {
        assert!(len <= STAGING_BYTES, "{len} bytes of a piece");
        // SAFETY: no other code uses the staging buffer; for the device the caller guarantees it.
        unsafe { self.staging.memory.bytes(self.first(), len) }
    }

    /// Returns its first bytes, mutably.
    ///
    /// # Safety
    /// Copies of the device into it or out of it are complete.
    ///
    /// # Panics
    /// If it has fewer bytes.
    pub(super) unsafe fn bytes_mut(&mut self, len: u64) -> &mut [u8] {
        assert!(len <= STAGING_BYTES, "{len} bytes of a piece");
        // SAFETY: no other code uses the staging buffer; for the device the caller guarantees it.
        unsafe { self.staging.memory.bytes_mut(self.first(), len) }
    }
}

impl Drop for StagingBuffer {
    fn drop(&mut self) {
        self.staging.taken.lock().unwrap_or_else(PoisonError::into_inner)[self.at] = false;
    }
}
