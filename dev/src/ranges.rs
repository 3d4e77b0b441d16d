//! Reserved ranges of addresses of a simulated host, and what is mapped in them. The host's processor accesses what is mapped;
//! kernels do not, as the simulator tracks their accesses by allocation.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

/// Reserved ranges, by first address.
#[derive(Default)]
pub(crate) struct Ranges(BTreeMap<u64, Range>);

struct Range {
    bytes: u64,
    /// Number of bytes by address.
    mapped: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the range in which bytes are free.
    fn with_room(&mut self, address: u64, bytes: u64) -> Option<&mut Range> {
        let end = address.checked_add(bytes).filter(|_| bytes > 0)?;
        let (&first, range) = self.0.range_mut(..=address).next_back()?;
        let before = range.mapped.range(..end).next_back();
        let is_free = before.is_none_or(|(at, bytes)| at + bytes <= address);
        (end <= first + range.bytes && is_free).then_some(range)
    }

    /// Reserves addresses that nothing may access.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Option<u64> {
        // SAFETY: a new mapping without access rights, at an address that the system chooses.
        let first = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let len = usize::try_from(bytes).ok()?;
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), flags).ok()? as u64
        };
        self.0.insert(first, Range { bytes, mapped: BTreeMap::new() });
        Some(first)
    }

    /// Maps what is mapped at `base`, an allocation of memory in a file of this number of bytes, at another address; returns whether
    /// that is possible.
    pub(crate) fn map_again(&mut self, address: u64, base: u64, bytes: u64) -> bool {
        let Some(range) = self.with_room(address, bytes) else { return false };
        // SAFETY: an old length of 0 maps the pages of a shared mapping again, and leaves it as it is; the addresses are of a
        // reserved range, where nothing else is mapped.
        let mapped = unsafe {
            rustix::mm::mremap_fixed(base as *mut _, 0, bytes as usize, MremapFlags::MAYMOVE, address as *mut _)
        };
        mapped.is_ok_and(|_| range.mapped.insert(address, bytes).is_none())
    }

    /// Maps a file; returns whether that is possible.
    pub(crate) fn map_file(&mut self, address: u64, file: &OwnedFd, bytes: u64) -> bool {
        let has_bytes = rustix::fs::fstat(file).is_ok_and(|stat| stat.st_size as u64 == bytes);
        let Some(range) = self.with_room(address, bytes).filter(|_| has_bytes) else { return false };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the addresses are of a reserved range, where nothing else is mapped.
        let mapped = unsafe {
            rustix::mm::mmap(address as *mut _, bytes as usize, access, MapFlags::SHARED | MapFlags::FIXED, file, 0)
        };
        mapped.is_ok_and(|_| range.mapped.insert(address, bytes).is_none())
    }

    /// Unmaps what was mapped at an address; returns whether it was.
    pub(crate) fn unmap(&mut self, address: u64, bytes: u64) -> bool {
        let Some((_, range)) = self.0.range_mut(..=address).next_back() else { return false };
        if range.mapped.get(&address) != Some(&bytes) {
            return false;
        }
        range.mapped.remove(&address);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: replaces what was mapped here, which the caller no longer uses.
        unsafe { rustix::mm::mmap_anonymous(address as *mut _, bytes as usize, ProtFlags::empty(), flags) }.is_ok()
    }

    /// Frees a range; returns whether it existed and nothing was mapped there.
    pub(crate) fn free(&mut self, address: u64, bytes: u64) -> bool {
        let is_empty = |range: &Range| range.bytes == bytes && range.mapped.is_empty();
        if !self.0.get(&address).is_some_and(is_empty) {
            return false;
        }
        self.0.remove(&address);
        // SAFETY: reserved with this number of bytes, and no longer in the list.
        unsafe { rustix::mm::munmap(address as *mut _, bytes as usize) }.is_ok()
    }
}
