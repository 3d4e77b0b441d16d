//! Memory of a simulated machine: pieces of the host's, each known by its first and last byte.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::collections::BTreeMap;

use crate::launch::Pieces;

/// What was allocated and not freed, by first address.
#[derive(Default)]
pub(crate) struct Memory {
    pieces: BTreeMap<u64, Piece>,
    /// Counts allocations and releases.
    pub(crate) version: u64,
}

#[derive(Clone, Copy)]
struct Piece {
    len: u64,
    /// `None`: the host's, which all devices see.
    device: Option<u32>,
}

/// As the driver aligns what it hands out.
const ALIGN: usize = 256;

/// Holds for memory that nobody wrote.
const POISON: u8 = 0xcd;

impl Memory {
    /// A new piece of a device's memory full of nonsense, or of the host's, zeroed; `None` if there is no memory.
    pub(crate) fn alloc(&mut self, bytes: u64, device: Option<u32>) -> Option<u64> {
        let layout = Layout::from_size_align(usize::try_from(bytes).ok()?.max(1), ALIGN).ok()?;
        let zeroed = device.is_none();
        // SAFETY: the layout has at least one byte.
        let memory = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        if memory.is_null() {
            return None;
        }
        if !zeroed {
            // SAFETY: just allocated with so many bytes.
            unsafe { memory.write_bytes(POISON, layout.size()) };
        }
        self.pieces.insert(memory as u64, Piece { len: bytes.max(1), device });
        self.version += 1;
        Some(memory as u64)
    }

    /// Frees a piece; whether it was one.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        let Some(piece) = self.pieces.remove(&address) else { return false };
        self.version += 1;
        let Ok(layout) = Layout::from_size_align(piece.len as usize, ALIGN) else { return false };
        // SAFETY: allocated with this layout, and no longer in the list.
        unsafe { dealloc(address as *mut u8, layout) };
        true
    }

    /// Whether bytes lie in one piece.
    pub(crate) fn holds(&self, address: u64, bytes: u64) -> bool {
        let Some((&first, &Piece { len, .. })) = self.pieces.range(..=address).next_back() else { return false };
        address - first <= len && bytes <= len - (address - first)
    }

    /// Number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// First address and length of the host's pieces and those of these devices, ascending.
    pub(crate) fn pieces(&self, of: impl Fn(u32) -> bool) -> Pieces {
        let reached = self.pieces.iter().filter(|(_, piece)| piece.device.is_none_or(&of));
        reached.map(|(&first, piece)| (first, piece.len)).collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for address in self.pieces.keys().copied().collect::<Vec<_>>() {
            self.free(address);
        }
    }
}
