//! Memory between the device's buffers and the network: page-locked memory of the host, and memory of the device where the transport
//! accesses that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mscclpp_cuda::driver::{Result, SharedDriver};
use mscclpp_cuda::memory::{DeviceMemory, MappedMemory};
use mscclpp_transport::Buffer;

/// Maximum bytes of a staging buffer.
pub(super) const STAGING_BYTES: u64 = 1 << 20;

/// Number of staging buffers for each place and direction: one is copied while another one is sent or filled.
const BUFFERS_PER_DIRECTION: usize = 2;
const BUFFERS_PER_PLACE: usize = 2 * BUFFERS_PER_DIRECTION;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferDirection {
    Out,
    In,
}

/// Where a staging buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Host,
    Device,
}

/// Staging buffers that the plans of an executor use for the ranks on other nodes, by rank. Launches are executed one
/// after the other, so plans share them.
#[derive(Default)]
pub(in crate::cuda) struct Stagings {
    by_rank: Mutex<BTreeMap<u32, Weak<Staging>>>,
}

/// The staging buffers for a rank.
pub(super) struct Staging {
    host: MappedMemory,
    device: Option<DeviceMemory>,
    taken: Mutex<[bool; 2 * BUFFERS_PER_PLACE]>,
}

/// A staging buffer that no other code uses until it is dropped.
pub(super) struct StagingBuffer {
    staging: Arc<Staging>,
    at: usize,
}

/// A staging buffer that no copy of the device uses, for the transport.
pub(super) struct MessageBuffer(StagingBuffer);

impl Stagings {
    /// Returns the staging buffers for a rank. `has_device`: whether there are buffers in memory of the device.
    pub(super) fn of(&self, rank: u32, driver: &SharedDriver, has_device: bool) -> Result<Arc<Staging>> {
        let mut by_rank = self.by_rank.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(staging) = by_rank.get(&rank).and_then(Weak::upgrade) {
            return Ok(staging);
        }
        const BYTES: u64 = BUFFERS_PER_PLACE as u64 * STAGING_BYTES;
        let host = MappedMemory::new(driver, BYTES)?;
        let device = has_device.then(|| DeviceMemory::new(driver, BYTES)).transpose()?;
        let staging = Arc::new(Staging { host, device, taken: Mutex::new([false; 2 * BUFFERS_PER_PLACE]) });
        by_rank.insert(rank, Arc::downgrade(&staging));
        Ok(staging)
    }
}

impl Staging {
    /// Returns where the buffer of a message of `len` bytes is. `min_device_put`: the minimum length of messages that the transport
    /// accesses in memory of the device.
    pub(super) fn place(&self, len: u64, min_device_put: Option<u64>) -> Place {
        let is_long = min_device_put.is_some_and(|min| len >= min);
        if is_long && self.device.is_some() { Place::Device } else { Place::Host }
    }

    /// Returns a staging buffer, if one is free.
    pub(super) fn take(self: &Arc<Self>, way: TransferDirection, place: Place) -> Option<StagingBuffer> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let first = if place == Place::Device { BUFFERS_PER_PLACE } else { 0 };
        let first = first + if way == TransferDirection::In { BUFFERS_PER_DIRECTION } else { 0 };
        let at = (first..first + BUFFERS_PER_DIRECTION).find(|&at| !taken[at])?;
        taken[at] = true;
        Some(StagingBuffer { staging: Arc::clone(self), at })
    }
}

impl StagingBuffer {
    fn place(&self) -> Place {
        if self.at < BUFFERS_PER_PLACE { Place::Host } else { Place::Device }
    }

    /// Returns the first byte in the memory of its place.
    fn first(&self) -> u64 {
        (self.at % BUFFERS_PER_PLACE) as u64 * STAGING_BYTES
    }

    /// Returns the device's address.
    pub(super) fn device(&self) -> u64 {
        let Staging { host, device, .. } = &*self.staging;
        match (self.place(), device) {
            (Place::Device, Some(device)) => device.address() + self.first(),
            _ => host.device(self.first()),
        }
    }

    /// Lets the transport access its bytes.
    ///
    /// # Safety
    /// Copies of the device into it or out of it are complete.
    pub(super) unsafe fn into_message(self) -> MessageBuffer {
        MessageBuffer(self)
    }
}

impl MessageBuffer {
    /// Ends the transport's access.
    pub(super) fn into_staging(self) -> StagingBuffer {
        self.0
    }
}

impl Buffer for MessageBuffer {
    fn device_bytes(&self) -> Option<(u64, usize)> {
        (self.0.place() == Place::Device).then(|| (self.0.device(), STAGING_BYTES as usize))
    }
}

impl AsRef<[u8]> for MessageBuffer {
    fn as_ref(&self) -> &[u8] {
        let StagingBuffer { staging, .. } = &self.0;
        match self.0.place() {
            Place::Device => &[],
            // SAFETY: no other code uses the staging buffer. Copies of the device are complete, as the caller of `into_message`
            // guarantees, and none begins as long as `self` exists, which does not return this buffer's address of the device.
            Place::Host => unsafe { staging.host.bytes(self.0.first(), STAGING_BYTES) },
        }
    }
}

impl AsMut<[u8]> for MessageBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        let StagingBuffer { staging, .. } = &self.0;
        match self.0.place() {
            Place::Device => &mut [],
            // SAFETY: as in `as_ref`; `self` is borrowed exclusively.
            Place::Host => unsafe { staging.host.bytes_mut(self.0.first(), STAGING_BYTES) },
        }
    }
}

impl Drop for StagingBuffer {
    fn drop(&mut self) {
        self.staging.taken.lock().unwrap_or_else(PoisonError::into_inner)[self.at] = false;
    }
}
