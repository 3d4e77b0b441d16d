//! The state of a rank's channels, which kernels and the host share.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use mscclpp_base::error::Error;
use mscclpp_base::error::channel::ChannelError;
use mscclpp_cuda::abi::AbortFlags;
use mscclpp_cuda::driver;
use mscclpp_cuda::driver::SharedDriver;
use mscclpp_cuda::memory::MappedMemory;

/// Byte offsets in the memory: after the flags, what the first wait that expired was waiting for.
const CHANNEL: u64 = 8;
const EXPECTED: u64 = 16;
const FOUND: u64 = 24;

/// The state: two flags (`stop`, written by the host, and `expired`, written by kernels, where the proxy reads and writes them as well), and
/// a report. `ChannelStatus` on the device.
pub(super) struct Status(pub(super) Arc<MappedMemory>);

/// A channel, as a kernel reports it.
#[derive(Clone, Copy)]
pub(super) struct ChannelId {
    pub(super) kind: Kind,
    pub(super) peer: u32,
    pub(super) index: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Memory = 0,
    Port = 1,
    Barrier = 2,
}

impl ChannelId {
    pub(super) fn encode(self) -> u64 {
        (self.kind as u64) << 60 | u64::from(self.peer) << 28 | u64::from(self.index) & 0x0fff_ffff
    }

    fn decode(id: u64) -> Self {
        let kind = match id >> 60 {
            0 => Kind::Memory,
            1 => Kind::Port,
            _ => Kind::Barrier,
        };
        Self { kind, peer: (id >> 28) as u32, index: (id & 0x0fff_ffff) as u32 }
    }

    pub(super) fn describe(self) -> String {
        let Self { kind, peer, index } = self;
        match kind {
            Kind::Memory => format!("memory channel {index} with rank {peer}"),
            Kind::Port => format!("port channel {index} with rank {peer}"),
            Kind::Barrier => format!("barrier {index}"),
        }
    }
}

impl Status {
    pub(super) fn new(driver: &SharedDriver) -> driver::Result<Self> {
        Ok(Self(Arc::new(MappedMemory::new(driver, 64)?)))
    }

    pub(super) fn address(&self) -> u64 {
        self.0.device(0)
    }

    /// Makes all waits of kernels return.
    pub(super) fn stop(&self) {
        self.0.word(AbortFlags::HOST).store(1, Release);
    }

    /// Returns whether waits of kernels return: then kernels may have exited without pushing all requests that they have counted.
    pub(super) fn is_stopped(&self) -> bool {
        self.0.word(AbortFlags::HOST).load(Acquire) != 0
    }

    /// Returns what the first wait that expired was waiting for. The work that waited is complete.
    ///
    /// # Errors
    /// [`ChannelError::Stalled`], [`ChannelError::Stopped`].
    pub(super) fn check(&self, rank: u32) -> Result<(), Error> {
        let error = if self.0.word(AbortFlags::DEVICE).load(Acquire) != 0 {
            let [id, expected, found] = [CHANNEL, EXPECTED, FOUND].map(|at| self.0.double(at).load(Relaxed));
            ChannelError::Stalled { rank, channel: ChannelId::decode(id).describe(), expected, found }
        } else if self.0.word(AbortFlags::HOST).load(Relaxed) != 0 {
            ChannelError::Stopped { rank }
        } else {
            return Ok(());
        };
        Err(Error::KernelChannel(Box::new(error)))
    }
}
