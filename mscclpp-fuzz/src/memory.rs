//! Memory that tells different threads different things.

use smallvec::SmallVec;

/// A write, in its cell's order of writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) value: u64,
    /// The launch of a packet; 0 on plain data.
    pub(super) flag: u32,
    /// Who wrote, in which of its epochs, of which launch, and at which step.
    pub(super) by: u32,
    pub(super) epoch: u32,
    pub(super) launch: u32,
    pub(super) time: u64,
    /// Whether it has reached the memory, so that later writes come behind it.
    pub(super) arrived: bool,
}

/// The last writes of a cell, those that matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    writes: SmallVec<[Write; 2]>,
}

/// Older writes than these are forgotten.
const MOST_WRITES: usize = 5;

impl Cell {
    /// The last write; a cell that nobody has written holds `nothing`.
    pub(super) fn last(&mut self) -> Option<&mut Write> {
        self.writes.last_mut()
    }

    /// The writes that a reader may see: from the last one on that it must have seen.
    pub(super) fn choices(&self, settled: impl Fn(&Write) -> bool) -> usize {
        let behind = self.writes.iter().rev().take_while(|write| !settled(write)).count();
        (behind + 1).min(self.writes.len().max(1))
    }

    /// The write that lies so many before the last one.
    pub(super) fn back(&mut self, number: usize) -> Option<&mut Write> {
        let index = self.writes.len().checked_sub(number + 1)?;
        self.writes.get_mut(index)
    }

    /// How many of the last writes a new one might come before.
    pub(super) fn overtakes(&self, settled: impl Fn(&Write) -> bool) -> usize {
        self.writes.iter().rev().take_while(|write| !write.arrived && !settled(write)).count()
    }

    /// Writes, before so many of the last writes.
    pub(super) fn write(&mut self, write: Write, before: usize) {
        let index = self.writes.len().saturating_sub(before);
        self.writes.insert(index, write);
        if self.writes.len() > MOST_WRITES {
            self.writes.remove(0);
        }
    }

    /// Of what was written so far, this has reached the memory.
    pub(super) fn settle(&mut self, settled: impl Fn(&Write) -> bool) {
        self.writes.iter_mut().filter(|write| settled(write)).for_each(|write| write.arrived = true);
    }
}
