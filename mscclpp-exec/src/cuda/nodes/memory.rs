//! Registered memory of ranks on other nodes.
//!
//! A rank cannot map memory of another node. Such memory is represented by an address that no device has and that only
//! the proxy interprets: the highest bit is set, followed by the number of the region and the offset in it. Device code
//! computes with it as with any other address. On the network the owner's number of the region is sent, so that writes
//! can only reach memory that the owner has exported and still has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mscclpp_base::error::Error;
use mscclpp_cuda::slice::DeviceSlice;

/// Bit that is set in addresses of memory on other nodes, and in no address of a device.
const REMOTE_BIT: u64 = 1 << 63;

/// Bits of the offset in a region; the bits between them and the highest one are the number of the region.
const BYTE_BITS: u32 = 44;

/// Maximum number of regions of other nodes at a time.
const MOST: usize = 1 << (63 - BYTE_BITS);

/// Returns whether an address represents memory on another node.
pub(in crate::cuda) fn is_remote_address(address: u64) -> bool {
    address & REMOTE_BIT != 0
}

/// Regions of other nodes that a rank can address, and regions that it has exported.
#[derive(Default)]
pub(in crate::cuda) struct RegionTable {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Regions of other ranks, by their number in addresses.
    windows: Vec<Option<RegionInfo>>,
    free: Vec<usize>,
    /// Exported regions of this rank, by the number under which other ranks address them.
    exported: BTreeMap<u64, (DeviceSlice, Owner)>,
    /// Number of regions exported so far.
    numbers: u64,
}

/// Owner of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cuda) enum Owner {
    /// The caller of a launch passed it, and uses it between launches.
    Caller,
    /// It belongs to a plan: scratch and counters.
    Plan,
}

/// A region of another rank.
#[derive(Clone, Copy)]
struct RegionInfo {
    rank: u32,
    number: u64,
    bytes: u64,
}

/// Bytes in a region of another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cuda) struct Target {
    pub(super) rank: u32,
    /// The owner's number of the region.
    pub(super) number: u64,
    /// Offset of the first byte.
    pub(super) at: u64,
    /// Bytes from there to the end of the region.
    pub(super) room: u64,
}

/// Memory of a rank on another node, addressable until this is dropped.
pub(in crate::cuda) struct RemoteRegion {
    memories: Arc<RegionTable>,
    at: usize,
}

/// Memory of this rank that other ranks may write to until this is dropped.
pub(in crate::cuda) struct ExportedRegion {
    memories: Arc<RegionTable>,
    number: u64,
}

impl RegionTable {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exports memory, so that other ranks may write to it.
    pub(in crate::cuda) fn export(self: &Arc<Self>, slice: DeviceSlice, owner: Owner) -> ExportedRegion {
        let mut inner = self.lock();
        inner.numbers += 1;
        let number = inner.numbers;
        inner.exported.insert(number, (slice, owner));
        ExportedRegion { memories: Arc::clone(self), number }
    }

    /// Assigns an address in this process to a region of another rank.
    ///
    /// # Errors
    /// [`Error::System`] if there are too many regions, or if it is too large.
    pub(in crate::cuda) fn add(self: &Arc<Self>, rank: u32, number: u64, bytes: u64) -> Result<RemoteRegion, Error> {
        let mut inner = self.lock();
        let refused = |reason: String| {
            let what = format!("address {bytes} bytes of rank {rank}, which is on another node");
            Err(Error::System { what, reason })
        };
        if bytes > 1 << BYTE_BITS {
            return refused(format!("expected at most {} bytes of memory", 1_u64 << BYTE_BITS));
        }
        let place = Some(RegionInfo { rank, number, bytes });
        let at = match inner.free.pop() {
            Some(at) => at,
            None if inner.windows.len() == MOST => return refused(format!("{MOST} regions are already registered")),
            None => {
                inner.windows.push(None);
                inner.windows.len() - 1
            }
        };
        inner.windows[at] = place;
        Ok(RemoteRegion { memories: Arc::clone(self), at })
    }

    /// Returns the bytes that an address represents.
    pub(super) fn find(&self, address: u64) -> Option<Target> {
        let (window, at) = ((address & !REMOTE_BIT) >> BYTE_BITS, address & ((1 << BYTE_BITS) - 1));
        let inner = self.lock();
        let &RegionInfo { rank, number, bytes } = inner.windows.get(window as usize)?.as_ref()?;
        Some(Target { rank, number, at, room: bytes.checked_sub(at)? })
    }

    /// Returns this rank's address of bytes in an exported region.
    pub(super) fn resolve(&self, number: u64, at: u64, bytes: u64) -> Option<u64> {
        let inner = self.lock();
        let (slice, _) = inner.exported.get(&number)?;
        let end = at.checked_add(bytes)?;
        (end <= slice.bytes).then_some(slice.address + at)
    }

    /// Returns the owner of an exported region.
    pub(super) fn owner(&self, number: u64) -> Option<Owner> {
        self.lock().exported.get(&number).map(|&(_, owner)| owner)
    }
}

impl RemoteRegion {
    /// Returns the address of its first byte.
    pub(in crate::cuda) fn address(&self) -> u64 {
        REMOTE_BIT | (self.at as u64) << BYTE_BITS
    }
}

impl ExportedRegion {
    /// Returns the number under which other ranks address it.
    pub(in crate::cuda) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for RemoteRegion {
    fn drop(&mut self) {
        let mut inner = self.memories.lock();
        inner.windows[self.at] = None;
        inner.free.push(self.at);
    }
}

impl Drop for ExportedRegion {
    fn drop(&mut self) {
        self.memories.lock().exported.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_address_resolves_while_region_exists() {
        let memories = Arc::new(RegionTable::default());
        let windows: Vec<RemoteRegion> =
            (0..3).map(|number| memories.add(7 + number as u32, 40 + number, 100).expect("room")).collect();
        let address = windows[1].address() + 60;
        assert!(is_remote_address(address) && !is_remote_address(0x7fff_ffff_ffff));
        assert_eq!(memories.find(address), Some(Target { rank: 8, number: 41, at: 60, room: 40 }));
        assert_eq!(memories.find(windows[1].address() + 101), None, "behind its end");
        let mut windows = windows;
        drop(windows.remove(1));
        assert_eq!(memories.find(address), None);
        let again = memories.add(9, 50, 10).expect("room");
        assert_eq!(memories.find(again.address()), Some(Target { rank: 9, number: 50, at: 0, room: 10 }));
        assert!(memories.add(1, 1, (1 << BYTE_BITS) + 1).is_err());
    }

    #[test]
    fn only_exported_regions_resolve() {
        let memories = Arc::new(RegionTable::default());
        let exported = memories.export(DeviceSlice { address: 0x1000, bytes: 64 }, Owner::Plan);
        let number = exported.number();
        assert_eq!(memories.resolve(number, 8, 56), Some(0x1008));
        assert_eq!(memories.resolve(number, 8, 57), None);
        assert_eq!(memories.resolve(number, u64::MAX, 8), None);
        assert_eq!(memories.resolve(number + 1, 0, 1), None);
        assert_eq!([number, number + 1].map(|number| memories.owner(number)), [Some(Owner::Plan), None]);
        drop(exported);
        assert_eq!(memories.resolve(number, 0, 1), None);
        assert!(memories.export(DeviceSlice::EMPTY, Owner::Caller).number() > number, "numbers are not given twice");
    }
}
