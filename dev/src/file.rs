//! Files of a simulated host, which processes map as memory.

use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags};

/// Granularity of physical memory in bytes.
pub(crate) const ALIGN_OF_FILES: u64 = 1 << 16;

/// Maps a file and returns the address.
pub(crate) fn map(file: impl AsFd, len: u64) -> Option<u64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the system chooses replaces no other mapping.
    let mapped = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len as usize, access, MapFlags::SHARED, file, 0) };
    mapped.ok().map(|address| address as u64)
}
