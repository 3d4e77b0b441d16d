//! Memory of a simulated host: allocations in this process' memory, each identified by its address range.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::file::{Place, map};
use crate::launch::{Pieces, Reach};
use crate::multicast::{Multicast, MulticastRange};
use crate::ranges::Ranges;

/// Current allocations, by first address.
#[derive(Default)]
pub(crate) struct SimulatedMemory {
    pieces: BTreeMap<u64, Allocation>,
    /// Ranges of multicast addresses, by first address.
    windows: BTreeMap<u64, MulticastRange>,
    /// Reserved addresses.
    pub(crate) ranges: Ranges,
    /// Number of allocations and releases so far.
    pub(crate) version: u64,
}

struct Allocation {
    len: u64,
    /// `None`: host memory, which all devices can access.
    device: Option<u32>,
    /// Identifier that is unique among the allocations of a process.
    id: u64,
    place: Backing,
}

/// Origin of an allocation.
enum Backing {
    Heap,
    /// Memory in a file, which other processes can map.
    File(OwnedFd),
    /// Memory in a file that was allocated to be shared, with the other devices that can access it.
    Shared(OwnedFd, Vec<u32>),
    /// Memory of another process, and how often it was mapped.
    Foreign(Key, u32),
}

/// Identity of an allocation in other processes: process, host and id.
pub(crate) type Key = (u32, u64, u64);

/// Alignment of allocations, as the driver's.
const ALIGN: usize = 256;

/// Initial value of the bytes of device memory.
const POISON: u8 = 0xcd;

impl SimulatedMemory {
    /// Allocates device memory filled with `POISON`, or zeroed host memory; `None` if there is no memory. `shared`:
    /// other processes can map it, whose devices can access this place.
    pub(crate) fn alloc(&mut self, bytes: u64, device: Option<u32>, shared: Option<Place>) -> Option<u64> {
        let len = bytes.max(1);
        let (address, place) = match shared {
            Some(place) => {
                let file = rustix::fs::memfd_create(place.name(), MemfdFlags::CLOEXEC).ok()?;
                rustix::fs::ftruncate(&file, len).ok()?;
                (map(&file, len)?, Backing::File(file))
            }
            None => {
                let layout = Layout::from_size_align(usize::try_from(len).ok()?, ALIGN).ok()?;
                // SAFETY: the layout has at least one byte.
                let memory = unsafe { if device.is_none() { alloc_zeroed(layout) } else { alloc(layout) } };
                (memory as u64, Backing::Heap)
            }
        };
        if address == 0 {
            return None;
        }
        if device.is_some() {
            // SAFETY: just allocated with this number of bytes.
            unsafe { (address as *mut u8).write_bytes(POISON, len as usize) };
        }
        self.version += 1;
        self.pieces.insert(address, Allocation { len, device, id: self.version, place });
        Some(address)
    }

    /// Allocates memory to be shared, for a device and these others.
    pub(crate) fn alloc_shared(&mut self, bytes: u64, device: u32, place: Place, peers: &[u32]) -> Option<u64> {
        let address = self.alloc(bytes, Some(device), Some(place))?;
        let piece = self.pieces.get_mut(&address)?;
        if let Backing::File(file) = std::mem::replace(&mut piece.place, Backing::Heap) {
            piece.place = Backing::Shared(file, peers.to_vec());
        }
        Some(address)
    }

    /// Maps an allocation of another process for a device; `None` if that is not possible.
    pub(crate) fn import(&mut self, key: Key, file: BorrowedFd<'_>, len: u64, device: u32) -> Option<u64> {
        let known = self.pieces.iter_mut().find_map(|(&address, piece)| match &mut piece.place {
            Backing::Foreign(of, count) if *of == key => Some((address, count)),
            _ => None,
        });
        if let Some((address, count)) = known {
            *count += 1;
            return Some(address);
        }
        let address = map(file, len)?;
        self.version += 1;
        let place = Backing::Foreign(key, 1);
        self.pieces.insert(address, Allocation { len, device: Some(device), id: self.version, place });
        Some(address)
    }

    /// Frees or unmaps an allocation; returns whether it existed.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        if let Some(Allocation { place: Backing::Foreign(_, count @ 2..), .. }) = self.pieces.get_mut(&address) {
            *count -= 1;
            return true;
        }
        let Some(piece) = self.pieces.remove(&address) else { return false };
        self.version += 1;
        if let Backing::Heap = piece.place {
            let Ok(layout) = Layout::from_size_align(piece.len as usize, ALIGN) else { return false };
            // SAFETY: allocated with this layout, and no longer in the list.
            unsafe { dealloc(address as *mut u8, layout) };
        } else {
            // SAFETY: mapped with this length, and no longer in the list.
            let _ = unsafe { rustix::mm::munmap(address as *mut _, piece.len as usize) };
        }
        true
    }

    /// Returns whether an address is that of a mapped allocation, which is released by another call than others.
    pub(crate) fn is_mapped(&self, address: u64) -> bool {
        matches!(self.pieces.get(&address), Some(Allocation { place: Backing::Foreign(..) | Backing::Shared(..), .. }))
    }

    /// Returns whether an allocation was allocated to be shared.
    pub(crate) fn is_shared(&self, address: u64) -> bool {
        matches!(self.pieces.get(&address), Some(Allocation { place: Backing::Shared(..), .. }))
    }

    /// Returns the allocation that contains an address: its first address, its length and its id.
    pub(crate) fn piece(&self, address: u64) -> Option<(u64, u64, u64)> {
        let (&first, piece) = self.pieces.range(..=address).next_back()?;
        (address - first < piece.len).then_some((first, piece.len, piece.id))
    }

    /// Returns the file of an allocation of this process that others can map.
    pub(crate) fn file(&self, address: u64) -> Option<&OwnedFd> {
        match &self.pieces.get(&address)?.place {
            Backing::File(file) | Backing::Shared(file, _) => Some(file),
            _ => None,
        }
    }

    /// Returns whether bytes are inside one allocation.
    pub(crate) fn holds(&self, address: u64, bytes: u64) -> bool {
        let Some((&first, &Allocation { len, .. })) = self.pieces.range(..=address).next_back() else { return false };
        address - first <= len && bytes <= len - (address - first)
    }

    /// Returns the number of allocations and of ranges of addresses.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len() + self.windows.len() + self.ranges.len()
    }

    /// Maps a range of multicast addresses of an object to which all members have bound memory, for some devices of a
    /// host; `None` if some have not, or there is no memory.
    pub(crate) fn map_multicast(&mut self, object: Arc<Multicast>, machine: u64, devices: Vec<u32>) -> Option<u64> {
        let handles = object.bound()?;
        let len = object.bytes();
        // SAFETY: a new mapping without access rights, at an address that the system chooses.
        let first = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), len as usize, ProtFlags::empty(), flags).ok()? as u64
        };
        let mut window = MulticastRange { first, len, members: Vec::new(), devices, object };
        let member = |memory: &mut Self, handle| {
            let (key, file, bytes) = from_handle(handle)?;
            if key.1 == machine {
                let own = memory.pieces.iter().find(|(_, piece)| piece.id == key.2);
                return own.map(|(&address, _)| (address, false));
            }
            memory.import(key, file.as_fd(), bytes, window.devices[0]).map(|address| (address, true))
        };
        let mut members = handles.iter().map(|handle| member(self, handle));
        let complete = members.all(|member| member.map(|member| window.members.push(member)).is_some());
        self.version += 1;
        self.windows.insert(first, window);
        complete.then_some(first).or_else(|| {
            self.unmap_multicast(first);
            None
        })
    }

    /// Unmaps a range of multicast addresses; returns whether it existed.
    pub(crate) fn unmap_multicast(&mut self, first: u64) -> bool {
        let Some(window) = self.windows.remove(&first) else { return false };
        self.version += 1;
        for (member, _) in window.members.iter().filter(|(_, is_foreign)| *is_foreign) {
            self.free(*member);
        }
        // SAFETY: mapped with this length, and no longer in the list.
        let _ = unsafe { rustix::mm::munmap(first as *mut _, window.len as usize) };
        true
    }

    /// Returns the memory that a device can access. `of`: whether it can access that of another device.
    pub(crate) fn reach(&self, device: u32, of: impl Fn(u32) -> bool) -> Reach {
        let windows = self.windows.values().filter(|window| window.devices.contains(&device));
        Reach { pieces: self.pieces(device, of), windows: windows.cloned().collect() }
    }

    /// Returns first address and length of the allocations that a device can access, ascending: the host's, its own,
    /// those of devices for which `of` returns true, and of the shared allocations those that were made for it.
    fn pieces(&self, device: u32, of: impl Fn(u32) -> bool) -> Pieces {
        let is_reached = |piece: &Allocation| match (piece.device, &piece.place) {
            (None, _) => true,
            (Some(owner), _) if owner == device => true,
            (Some(_), Backing::Shared(_, peers)) => peers.contains(&device),
            (Some(owner), _) => of(owner),
        };
        let reached = self.pieces.iter().filter(|(_, piece)| is_reached(piece));
        reached.map(|(&first, piece)| (first, piece.len)).collect()
    }
}

/// Encodes the handle of an allocation: its identity, the path of its file, and its length.
pub(crate) fn to_handle((process, machine, id): Key, file: &OwnedFd, len: u64) -> [u8; 64] {
    let mut handle = [0; 64];
    for (at, word) in [u64::from(process), machine, id, file.as_raw_fd() as u64, len].into_iter().enumerate() {
        handle[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
    }
    handle
}

/// Decodes a handle: the allocation, its file and its length; `None` if it no longer exists.
pub(crate) fn from_handle(handle: &[u8; 64]) -> Option<(Key, OwnedFd, u64)> {
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| handle[8 * at + byte]));
    let path = format!("/proc/{}/fd/{}", word(0), word(3));
    let file = std::fs::File::options().read(true).write(true).open(path).ok()?;
    Some(((word(0) as u32, word(1), word(2)), file.into(), word(4)))
}

impl Drop for SimulatedMemory {
    fn drop(&mut self) {
        for first in self.windows.keys().copied().collect::<Vec<_>>() {
            self.unmap_multicast(first);
        }
        for address in self.pieces.keys().copied().collect::<Vec<_>>() {
            while self.free(address) {}
        }
    }
}
