//! Weakly ordered memory: different threads may read different values.

use smallvec::SmallVec;

/// A write, in its cell's order of writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) value: u64,
    /// The launch of a packet; 0 for plain data.
    pub(super) flag: u32,
    /// The writing agent, its epoch, its launch, and the step of the write.
    pub(super) by: u32,
    pub(super) epoch: u32,
    pub(super) launch: u32,
    pub(super) time: u64,
    /// Whether it has reached memory, so that later writes are ordered after it.
    pub(super) arrived: bool,
}

/// The last writes of a cell, as far as a read may return them.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    writes: SmallVec<[Write; 2]>,
    /// The rank that has freed it.
    pub(super) freed_by: Option<u32>,
}

/// Maximum number of writes that are kept; older ones are discarded.
const MAX_WRITES: usize = 5;

impl Cell {
    /// Returns the last write, if there is one.
    pub(super) fn last(&mut self) -> Option<&mut Write> {
        self.writes.last_mut()
    }

    /// Returns the number of writes that a read may return: those from the last one that must be visible to the reader.
    pub(super) fn choices(&self, settled: impl Fn(&Write) -> bool) -> usize {
        let unsettled = self.writes.iter().rev().take_while(|write| !settled(write)).count();
        (unsettled + 1).min(self.writes.len().max(1))
    }

    /// Returns the write that is `number` writes before the last one.
    pub(super) fn back(&mut self, number: usize) -> Option<&mut Write> {
        let index = self.writes.len().checked_sub(number + 1)?;
        self.writes.get_mut(index)
    }

    /// Returns how many of the last writes a new one may be ordered before.
    pub(super) fn overtakes(&self, settled: impl Fn(&Write) -> bool) -> usize {
        self.writes.iter().rev().take_while(|write| !write.arrived && !settled(write)).count()
    }

    /// Inserts a write before the given number of the last writes.
    pub(super) fn write(&mut self, write: Write, before: usize) {
        let index = self.writes.len().saturating_sub(before);
        self.writes.insert(index, write);
        if self.writes.len() > MAX_WRITES {
            self.writes.remove(0);
        }
    }

    /// Marks the given writes as having reached memory.
    pub(super) fn settle(&mut self, settled: impl Fn(&Write) -> bool) {
        self.writes.iter_mut().filter(|write| settled(write)).for_each(|write| write.arrived = true);
    }
}
