//! Memory divided into atoms: intervals between the bounds of accesses.

use std::ops::Range;

use super::{Size, Space};
use mscclpp_plan::raw::RankPlan;

/// The atoms of all buffers, numbered one buffer after the other.
#[derive(Default)]
pub(in super::super) struct Atoms {
    /// Per buffer, its first atom; one more entry at the end.
    first: Vec<u32>,
    /// Per atom, its begin in its buffer. The last atom of a buffer is empty and marks its end.
    starts: Vec<u64>,
    /// For small buffers, per buffer its first index in `index`.
    base: Vec<usize>,
    /// For small buffers, the atom that begins at an address.
    index: Vec<u32>,
}

/// Returns the number of a rank's buffer.
pub(in super::super) fn number(rank: u32, memory: Space) -> usize {
    rank as usize * Space::ALL.len() + memory as usize
}

impl Atoms {
    /// Divides buffers at the bounds of ranges. Empty ranges have no bounds.
    pub(super) fn cut(ranks: &[RankPlan], size: Size, ranges: &[(usize, Range<u64>)]) -> Self {
        // Buffers have their declared lengths; packets of a rank are in its scratch.
        let mut lengths = Vec::with_capacity(ranks.len() * 4);
        for tables in ranks {
            let chunks = [tables.input_chunks, tables.output_chunks, tables.scratch_chunks, tables.scratch_chunks];
            lengths.extend(chunks.map(|chunks| u64::from(chunks) * size.chunk()));
        }
        for (memory, range) in ranges {
            lengths[*memory] = lengths[*memory].max(range.end);
        }
        let small = 8 * ranges.len() as u64 + (1 << 12);
        match lengths.iter().try_fold(0u64, |sum, length| sum.checked_add(length + 1)).filter(|all| *all <= small) {
            Some(all) => Self::cut_small(&lengths, all as usize, ranges),
            None => Self::cut_large(&lengths, ranges),
        }
    }

    /// Marks the bounds in an array of all addresses.
    fn cut_small(lengths: &[u64], all: usize, ranges: &[(usize, Range<u64>)]) -> Self {
        let mut base = Vec::with_capacity(lengths.len() + 1);
        let mut index = vec![0u32; all];
        let mut next = 0;
        for length in lengths {
            base.push(next);
            index[next] = 1;
            next += *length as usize + 1;
            index[next - 1] = 1;
        }
        for (memory, range) in ranges.iter().filter(|(_, range)| !range.is_empty()) {
            index[base[*memory] + range.start as usize] = 1;
            index[base[*memory] + range.end as usize] = 1;
        }
        let (first, starts) =
            (Vec::with_capacity(lengths.len() + 1), Vec::with_capacity(ranges.len().min(all) + lengths.len()));
        let mut atoms = Self { base, first, starts, ..Self::default() };
        for (&base, length) in atoms.base.iter().zip(lengths) {
            atoms.first.push(atoms.starts.len() as u32);
            for (position, place) in index[base..base + *length as usize + 1].iter_mut().enumerate() {
                if *place == 1 {
                    *place = atoms.starts.len() as u32;
                    atoms.starts.push(position as u64);
                }
            }
        }
        atoms.first.push(atoms.starts.len() as u32);
        atoms.index = index;
        atoms
    }

    /// Sorts the bounds.
    fn cut_large(lengths: &[u64], ranges: &[(usize, Range<u64>)]) -> Self {
        let mut cuts: Vec<Vec<u64>> = lengths.iter().map(|length| vec![0, *length]).collect();
        for (memory, range) in ranges.iter().filter(|(_, range)| !range.is_empty()) {
            cuts[*memory].extend([range.start, range.end]);
        }
        let mut atoms = Self::default();
        for mut cuts in cuts {
            atoms.first.push(atoms.starts.len() as u32);
            cuts.sort_unstable();
            cuts.dedup();
            atoms.starts.extend(cuts);
        }
        atoms.first.push(atoms.starts.len() as u32);
        atoms
    }

    /// Returns the atoms of a range whose bounds were given to `cut`.
    pub(super) fn numbers(&self, (memory, range): &(usize, Range<u64>)) -> (u32, u32) {
        if range.is_empty() {
            return (0, 0);
        }
        (self.at(*memory, range.start), self.at(*memory, range.end))
    }

    fn at(&self, memory: usize, position: u64) -> u32 {
        if let Some(base) = self.base.get(memory) {
            return self.index[base + position as usize];
        }
        let first = self.first[memory];
        let starts = &self.starts[first as usize..self.first[memory + 1] as usize];
        first + starts.partition_point(|start| *start < position) as u32
    }

    /// Returns the end of the numbers of atoms.
    pub(in super::super) fn count(&self) -> usize {
        self.starts.len()
    }

    /// Returns the atoms of a buffer.
    pub(in super::super) fn of(&self, rank: u32, memory: Space) -> Range<usize> {
        let number = number(rank, memory);
        self.first[number] as usize..(self.first[number + 1] as usize).saturating_sub(1)
    }

    /// Returns the begins of the atoms of a buffer and the end of the last one, in ascending order.
    pub(in super::super) fn cuts(&self, rank: u32, memory: Space) -> &[u64] {
        let number = number(rank, memory);
        &self.starts[self.first[number] as usize..self.first[number + 1] as usize]
    }

    /// Returns the begin of an atom in its buffer.
    pub(super) fn start(&self, atom: usize) -> u64 {
        self.starts.get(atom).copied().unwrap_or(0)
    }

    /// Returns the range of an atom in its buffer.
    pub(in super::super) fn range(&self, atom: usize) -> Range<u64> {
        self.starts[atom]..self.starts.get(atom + 1).copied().unwrap_or(self.starts[atom])
    }

    /// Returns rank and buffer of an atom.
    pub(in super::super) fn memory(&self, atom: usize) -> (u32, Space) {
        let number = self.first.partition_point(|first| *first as usize <= atom) - 1;
        ((number / Space::ALL.len()) as u32, Space::ALL[number % Space::ALL.len()])
    }
}
