//! Files of a simulated host, which processes map as memory.

use std::os::fd::{AsFd, AsRawFd};

use rustix::mm::{MapFlags, ProtFlags};

/// Devices that can access memory, which its file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the group of devices of the host.
    pub(crate) peers: u32,
    /// The fabric.
    pub(crate) fabric: Option<u32>,
}

impl Place {
    /// Returns the name of a file of memory.
    pub(crate) fn name(self) -> String {
        let fabric = self.fabric.map_or(String::new(), |fabric| fabric.to_string());
        format!("simulated device/{}/{fabric}", self.peers)
    }

    /// Returns the place that the name of a file states; `None` for another file.
    pub(crate) fn of(file: impl AsFd) -> Option<Self> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())).ok()?;
        let name = link.to_str()?.strip_prefix("/memfd:simulated device/")?;
        let (peers, fabric) = name.split(' ').next()?.split_once('/')?;
        Some(Self { peers: peers.parse().ok()?, fabric: fabric.parse().ok() })
    }
}

/// Granularity of physical memory in bytes.
pub(crate) const ALIGN_OF_FILES: u64 = 1 << 16;

/// Maps a file and returns the address.
pub(crate) fn map(file: impl AsFd, len: u64) -> Option<u64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the system chooses replaces no other mapping.
    let mapped = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len as usize, access, MapFlags::SHARED, file, 0) };
    mapped.ok().map(|address| address as u64)
}
