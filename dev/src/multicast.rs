//! Multicast objects of a simulated host: tables in files, which other processes share, of the memory that each member
//! has bound.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use rustix::fs::MemfdFlags;

use crate::file::{ALIGN_OF_FILES, map};

/// Maximum number of devices of an object.
pub(crate) const MAX_MEMBERS: usize = 64;

/// Granularity in bytes of objects and of the memory bound to them.
pub(crate) const UNIT: u64 = ALIGN_OF_FILES;

/// Table of an object in its file.
#[repr(C)]
struct Table {
    devices: AtomicU64,
    bytes: AtomicU64,
    added: AtomicU64,
    /// Per member: a word that is not 0 for a device that has been added, then the handle of the memory that it has
    /// bound, or zeros.
    slots: [[AtomicU64; 9]; MAX_MEMBERS],
}

/// An object in this process.
pub(crate) struct Multicast {
    file: OwnedFd,
    table: *const Table,
}

// SAFETY: the table consists of atomics, in a mapping that lives as long as this.
unsafe impl Send for Multicast {}
// SAFETY: as above.
unsafe impl Sync for Multicast {}

/// A handle of memory, as in `alloc`.
pub(crate) type Bound = [u8; 64];

impl Multicast {
    /// Creates an object; `None` if there is no memory.
    pub(crate) fn new(devices: u64, bytes: u64) -> Option<Self> {
        let file = rustix::fs::memfd_create("simulated multicast object", MemfdFlags::CLOEXEC).ok()?;
        rustix::fs::ftruncate(&file, size_of::<Table>() as u64).ok()?;
        let object = Self::open(file)?;
        object.table().devices.store(devices, Release);
        object.table().bytes.store(bytes, Release);
        Some(object)
    }

    /// Opens the object of a file.
    pub(crate) fn open(file: OwnedFd) -> Option<Self> {
        let is_one = rustix::fs::fstat(&file).is_ok_and(|stat| stat.st_size as usize == size_of::<Table>());
        let address = if is_one { map(&file, size_of::<Table>() as u64)? } else { return None };
        Some(Self { file, table: address as *const Table })
    }

    fn table(&self) -> &Table {
        // SAFETY: mapped with this size, zeroed when it was made, and aligned to pages.
        unsafe { &*self.table }
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.table().bytes.load(Acquire)
    }

    /// Adds a device, identified by a number that is not 0; returns whether there was space for it.
    pub(crate) fn add(&self, device: u64) -> bool {
        let table = self.table();
        let known = table.slots.iter().any(|slot| slot[0].load(Acquire) == device);
        let at = table.added.fetch_add(1, AcqRel);
        if known || at >= table.devices.load(Acquire).min(MAX_MEMBERS as u64) {
            return false;
        }
        table.slots[at as usize][0].store(device, Release);
        true
    }

    /// Binds a device's memory; returns whether all devices were added and this one had bound none.
    pub(crate) fn bind(&self, device: u64, handle: &Bound) -> bool {
        let table = self.table();
        let all = table.slots.iter().filter(|slot| slot[0].load(Acquire) != 0).count() as u64;
        let Some(slot) = table.slots.iter().find(|slot| slot[0].load(Acquire) == device) else { return false };
        if all != table.devices.load(Acquire) || is_bound(slot) {
            return false;
        }
        for (word, bytes) in slot[1..].iter().zip(handle.chunks_exact(8)) {
            word.store(bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)), Release);
        }
        true
    }

    /// Unbinds a device's memory; returns whether it had bound some.
    pub(crate) fn unbind(&self, device: u64) -> bool {
        let slot = self.table().slots.iter().find(|slot| slot[0].load(Acquire) == device && is_bound(slot));
        slot.is_some_and(|slot| {
            slot[1..].iter().for_each(|word| word.store(0, Release));
            true
        })
    }

    /// Returns the handles of all members' memory; `None` unless all have bound some.
    pub(crate) fn bound(&self) -> Option<Vec<Bound>> {
        let table = self.table();
        let members = table.devices.load(Acquire) as usize;
        let handle = |slot: &[AtomicU64; 9]| {
            is_bound(slot).then(|| {
                let mut handle = [0; 64];
                for (bytes, word) in handle.chunks_exact_mut(8).zip(&slot[1..]) {
                    bytes.copy_from_slice(&word.load(Acquire).to_le_bytes());
                }
                handle
            })
        };
        table.slots.get(..members)?.iter().map(handle).collect()
    }
}

fn is_bound(slot: &[AtomicU64; 9]) -> bool {
    slot[1..].iter().any(|word| word.load(Acquire) != 0)
}

impl Drop for Multicast {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and no other code has the address.
        let _ = unsafe { rustix::mm::munmap(self.table.cast_mut().cast(), size_of::<Table>()) };
    }
}

/// A range of multicast addresses of the members' memories.
#[derive(Clone)]
pub(crate) struct MulticastRange {
    pub(crate) first: u64,
    pub(crate) len: u64,
    /// Address in this process of each member's memory, and whether it is another process's.
    pub(crate) members: Vec<(u64, bool)>,
    /// Devices that may use the range.
    pub(crate) devices: Vec<u32>,
    pub(crate) object: Arc<Multicast>,
}

impl MulticastRange {
    /// Returns the members' addresses of some bytes; `None` if they are not inside, or a member has unbound its memory.
    pub(crate) fn members(&self, address: u64, bytes: u32) -> Option<impl Iterator<Item = u64>> {
        let at = address.checked_sub(self.first)?;
        let inside = at <= self.len && u64::from(bytes) <= self.len - at && self.object.bound().is_some();
        inside.then(|| self.members.iter().map(move |(member, _)| member + at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bound_once_and_after_all_devices_are_added() {
        let object = Multicast::new(2, UNIT).expect("memory");
        let [one, other] = [[1; 64], [2; 64]];
        assert!(object.add(7) && !object.add(7));
        assert!(!object.bind(7, &one), "a device is missing");
        let object = Multicast::new(2, UNIT).expect("memory");
        assert!(object.add(7) && object.add(8) && !object.add(9));
        assert!(object.bind(7, &one) && !object.bind(7, &other) && !object.bind(9, &other));
        assert_eq!(object.bound(), None);
        assert!(object.bind(8, &other));
        assert_eq!(object.bound(), Some(vec![one, other]));
        assert!(object.unbind(8) && !object.unbind(8));
        assert_eq!(object.bound(), None);
    }
}
