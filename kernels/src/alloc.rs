//! Memory of a simulated device: pieces of the host's, each known by its first and last byte.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::collections::BTreeMap;

/// What was allocated and not freed, by first address.
#[derive(Default)]
pub(crate) struct Memory {
    pieces: BTreeMap<u64, u64>,
}

/// As the driver aligns what it hands out.
const ALIGN: usize = 256;

/// Holds for memory that nobody wrote.
const POISON: u8 = 0xcd;

impl Memory {
    /// A new piece, zeroed or full of nonsense; `None` if there is no memory.
    pub(crate) fn alloc(&mut self, bytes: u64, zeroed: bool) -> Option<u64> {
        let layout = Layout::from_size_align(usize::try_from(bytes).ok()?.max(1), ALIGN).ok()?;
        // SAFETY: the layout has at least one byte.
        let memory = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
        if memory.is_null() {
            return None;
        }
        if !zeroed {
            // SAFETY: just allocated with so many bytes.
            unsafe { memory.write_bytes(POISON, layout.size()) };
        }
        self.pieces.insert(memory as u64, bytes.max(1));
        Some(memory as u64)
    }

    /// Frees a piece; whether it was one.
    pub(crate) fn free(&mut self, address: u64) -> bool {
        let Some(bytes) = self.pieces.remove(&address) else { return false };
        let Ok(layout) = Layout::from_size_align(bytes as usize, ALIGN) else { return false };
        // SAFETY: allocated with this layout, and no longer in the list.
        unsafe { dealloc(address as *mut u8, layout) };
        true
    }

    /// Whether bytes lie in one piece.
    pub(crate) fn holds(&self, address: u64, bytes: u64) -> bool {
        let Some((&first, &len)) = self.pieces.range(..=address).next_back() else { return false };
        address - first <= len && bytes <= len - (address - first)
    }

    /// Number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// First address and length of every piece, ascending.
    pub(crate) fn pieces(&self) -> Vec<(u64, u64)> {
        self.pieces.iter().map(|(&first, &len)| (first, len)).collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for address in self.pieces.keys().copied().collect::<Vec<_>>() {
            self.free(address);
        }
    }
}
