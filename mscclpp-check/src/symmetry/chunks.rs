//! The mapping of a rank's chunks to those of its representative.

use super::programs::{AccessShape, NO_UNORDERED_GROUP, Programs};
use crate::space::Space;

/// The chunks of one rank, by the number at its representative.
#[derive(Default)]
pub(super) struct Chunks {
    /// Per buffer and chunk, one more than its number there; 0 if it is unknown.
    names: [Vec<u32>; 4],
    /// Per buffer and number there, whether a chunk has it.
    taken: [Vec<bool>; 4],
    /// Per buffer and chunk, how many chunks from there on are known to have consecutive numbers.
    rows: [Vec<u32>; 4],
    /// Number of chunks that may still be examined.
    fuel: u64,
    mine: Vec<Option<u32>>,
    theirs: Vec<u32>,
}

/// An access to the memory of a representative rank or of a rank that it represents.
pub(super) struct IncomingAccess {
    pub(super) by: u32,
    /// Its number among the accesses of `by`.
    pub(super) number: u32,
    pub(super) access: AccessShape,
    /// The first chunk if the memory is that of the representative.
    pub(super) chunk: u32,
}

impl Chunks {
    /// Creates an empty mapping with a limit on the number of examined chunks.
    pub(super) fn new(fuel: u64) -> Self {
        Self { fuel, ..Self::default() }
    }

    /// Clears the mapping for a rank with the given number of chunks per buffer.
    fn clear(&mut self, chunks: [u32; 4]) {
        for (space, chunks) in chunks.into_iter().enumerate() {
            let chunks = chunks as usize;
            self.names[space].clear();
            self.names[space].resize(chunks, 0);
            self.taken[space].clear();
            self.taken[space].resize(chunks, false);
            self.rows[space].clear();
            self.rows[space].resize(chunks, 0);
        }
    }

    /// Finds the numbers of all chunks of the rank that is rotated this far from a representative, given the accesses
    /// to it. `None` if they contradict each other.
    pub(super) fn find(
        &mut self,
        programs: &Programs,
        done: &[IncomingAccess],
        shift: u32,
        all: u32,
        chunks: [u32; 4],
    ) -> Option<()> {
        self.clear(chunks);
        let chunk = |done: &IncomingAccess| {
            let by = (shift + all - done.access.shift) % all;
            programs.chunks(done.by, by)[done.number as usize]
        };
        for done in done.iter().filter(|done| done.access.unordered_group == NO_UNORDERED_GROUP) {
            self.name(done.access.space, chunk(done), done.chunk, done.access.size)?;
        }
        let heaps = done
            .chunk_by(|one, other| (one.by, one.access.unordered_group) == (other.by, other.access.unordered_group));
        for unordered_group in
            heaps.filter(|unordered_group| unordered_group[0].access.unordered_group != NO_UNORDERED_GROUP)
        {
            let (mut mine, mut theirs) = (std::mem::take(&mut self.mine), std::mem::take(&mut self.theirs));
            mine.clear();
            theirs.clear();
            for done in unordered_group {
                mine.push(Some(done.chunk));
                theirs.push(chunk(done));
            }
            let same = self.are_same(unordered_group, &mut mine, &theirs);
            (self.mine, self.theirs) = (mine, theirs);
            same?;
        }
        Some(())
    }

    /// Records that chunks from one on have consecutive numbers.
    fn name(&mut self, space: Space, chunk: u32, name: u32, size: u32) -> Option<()> {
        let space = space as usize;
        let known = *self.rows[space].get(chunk as usize)?;
        if known >= size && self.names[space][chunk as usize] == name + 1 {
            return Some(());
        }
        self.fuel = self.fuel.checked_sub(size.into())?;
        let (from, to) = (chunk as usize, chunk as usize + size as usize);
        let names = self.names[space].get_mut(from..to)?;
        let taken = self.taken[space].get_mut(name as usize..name as usize + size as usize)?;
        for ((known, taken), name) in names.iter_mut().zip(taken).zip(name + 1..) {
            match *known {
                0 if !*taken => (*known, *taken) = (name, true),
                known if known == name => {}
                _ => return None,
            }
        }
        let row = &mut self.rows[space][from];
        *row = size.max(*row);
        Some(())
    }

    /// Checks that the operands that an operation combines are those of the representative, in any order: those with
    /// `numbers`. Chunks without a number receive the remaining ones, in their order.
    fn are_same(
        &mut self,
        unordered_group: &[IncomingAccess],
        numbers: &mut [Option<u32>],
        chunks: &[u32],
    ) -> Option<()> {
        let AccessShape { space, size, .. } = unordered_group[0].access;
        if unordered_group.iter().any(|done| (done.access.space, done.access.size) != (space, size)) {
            return None;
        }
        let (mut next, mut unknown) = (0, 0);
        for &chunk in chunks {
            let Some(number) = self.get(space, chunk) else {
                unknown += 1;
                continue;
            };
            // Mostly they begin elsewhere and are in order otherwise.
            let place = (next..numbers.len()).chain(0..next).find(|place| numbers[*place] == Some(number))?;
            numbers[place] = None;
            next = place + 1;
            self.name(space, chunk, number, size)?;
        }
        if unknown > 0 {
            let mut left = numbers.iter().flatten();
            for &chunk in chunks {
                if self.get(space, chunk).is_none() {
                    self.name(space, chunk, *left.next()?, size)?;
                    unknown -= 1;
                }
            }
        }
        (unknown == 0).then_some(())
    }

    /// Assigns the remaining numbers to the chunks of a buffer without accesses, in their order.
    pub(super) fn fill(&mut self, space: Space) {
        let space = space as usize;
        let mut left = (1..).zip(&self.taken[space]).filter(|(_, taken)| !**taken).map(|(name, _)| name);
        self.names[space].iter_mut().filter(|name| **name == 0).for_each(|name| *name = left.next().unwrap_or(0));
    }

    /// Returns the number of a chunk.
    pub(super) fn get(&self, space: Space, chunk: u32) -> Option<u32> {
        self.names[space as usize].get(chunk as usize)?.checked_sub(1)
    }
}
