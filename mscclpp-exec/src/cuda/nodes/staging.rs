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

/// A staging buffer that the device does not use.
pub(super) struct HostBuffer(StagingBuffer);

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

    /// Makes its bytes accessible to the host.
    ///
    /// # Safety
    /// Copies of the device into it or out of it are complete.
    pub(super) unsafe fn into_host(self) -> HostBuffer {
        HostBuffer(self)
    }
}

impl HostBuffer {
    /// Ends the host's access.
    pub(super) fn into_device(self) -> StagingBuffer {
        self.0
    }
}

impl AsRef<[u8]> for HostBuffer {
    fn as_ref(&self) -> &[u8] {
        let StagingBuffer { staging, .. } = &self.0;
        // SAFETY: no other code uses the staging buffer. Copies of the device are complete, as the caller of `into_host`
        // guarantees, and none begins as long as `self` exists, which returns no address of the device.
        unsafe { staging.memory.bytes(self.0.first(), STAGING_BYTES) }
    }
}

impl AsMut<[u8]> for HostBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        let StagingBuffer { staging, .. } = &self.0;
        // SAFETY: as in `as_ref`; `self` is borrowed exclusively.
        unsafe { staging.memory.bytes_mut(self.0.first(), STAGING_BYTES) }
    }
}

impl Drop for StagingBuffer {
    fn drop(&mut self) {
        self.staging.taken.lock().unwrap_or_else(PoisonError::into_inner)[self.at] = false;
    }
}
