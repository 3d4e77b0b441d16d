//! Buffers of all ranks of a launch.

use mscclpp_base::dtype::{DataType, Element};
use mscclpp_base::error::Error;
use mscclpp_base::memory::{check_available, no_memory};
use mscclpp_base::numeric::{LINE, Line};
use mscclpp_base::system::prefer_huge_pages;

/// Input and output of every rank, zeroed and aligned to cache lines. A launch uses them without copies.
///
/// Created by [`PreparedPlan::buffers`](super::PreparedPlan::buffers). In place, input and output of a rank share one
/// allocation: an all-gather's input is the rank's part of its output, a reduce-scatter's output the rank's part of its
/// input, else both are the same bytes.
///
/// `Send` and `Sync`: they own plain memory.
#[derive(Clone, Debug)]
pub struct Buffers {
    pub(super) dtype: DataType,
    ranks: Vec<Rank>,
}

static_assertions::assert_impl_all!(Buffers: Send, Sync);

#[derive(Clone, Debug)]
struct Rank {
    /// Input or the only buffer of an in-place plan, and output.
    lines: [Vec<Line>; 2],
    lens: [usize; 2],
    /// Slot, first byte and length of input and output.
    input: (usize, usize, usize),
    output: (usize, usize, usize),
}

/// A part of a rank's memory: slot, first byte, length.
pub(super) type Part = (usize, usize, usize);

impl Buffers {
    /// Allocates zeroed buffers. `lens`: bytes of each rank's slots; `parts`: input and output of each rank.
    pub(super) fn new(
        dtype: DataType,
        lens: [u64; 2],
        parts: impl ExactSizeIterator<Item = (Part, Part)>,
    ) -> Result<Self, Error> {
        const PURPOSE: &str = "buffers";
        check_available((lens[0].saturating_add(lens[1])).saturating_mul(parts.len() as u64), PURPOSE)?;
        let mut ranks = Vec::new();
        for (input, output) in parts {
            let lines = [zeroed_lines(lens[0], PURPOSE)?, zeroed_lines(lens[1], PURPOSE)?];
            ranks.push(Rank { lines, lens: lens.map(|len| len as usize), input, output });
        }
        Ok(Self { dtype, ranks })
    }

    /// Returns the number of ranks.
    #[doc(hidden)]
    pub fn num_ranks(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Returns the type of the elements.
    #[doc(hidden)]
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns a rank's input; empty if there is no such rank.
    pub fn input(&self, rank: u32) -> &[u8] {
        self.ranks.get(rank as usize).map_or(&[], |rank| rank.part(rank.input))
    }

    /// Returns a rank's input; empty if there is no such rank.
    pub fn input_mut(&mut self, rank: u32) -> &mut [u8] {
        self.ranks.get_mut(rank as usize).map_or(&mut [], |rank| rank.part_mut(rank.input))
    }

    /// Returns a rank's output; empty if there is no such rank.
    pub fn output(&self, rank: u32) -> &[u8] {
        self.ranks.get(rank as usize).map_or(&[], |rank| rank.part(rank.output))
    }

    /// Returns a rank's output; empty if there is no such rank.
    pub fn output_mut(&mut self, rank: u32) -> &mut [u8] {
        self.ranks.get_mut(rank as usize).map_or(&mut [], |rank| rank.part_mut(rank.output))
    }

    /// Returns a rank's input as elements.
    ///
    /// # Errors
    /// [`Error::ElementType`] if `T` is not the message's type.
    pub fn input_as<T: Element>(&mut self, rank: u32) -> Result<&mut [T], Error> {
        self.check::<T>()?;
        Ok(elements(self.input_mut(rank)))
    }

    /// Returns a rank's output as elements.
    ///
    /// # Errors
    /// [`Error::ElementType`] if `T` is not the message's type.
    pub fn output_as<T: Element>(&mut self, rank: u32) -> Result<&mut [T], Error> {
        self.check::<T>()?;
        Ok(elements(self.output_mut(rank)))
    }

    fn check<T: Element>(&self) -> Result<(), Error> {
        let (expected, found) = (self.dtype, T::TYPE);
        if expected == found { Ok(()) } else { Err(Error::ElementType { expected, found }) }
    }

    /// Returns both slots of every rank.
    pub(super) fn slots(&mut self) -> impl Iterator<Item = [&mut [u8]; 2]> {
        self.ranks.iter_mut().map(|rank| {
            let [first, second] = &mut rank.lines;
            [&mut bytes(first)[..rank.lens[0]], &mut bytes(second)[..rank.lens[1]]]
        })
    }

    pub(super) fn lens(&self) -> Option<[usize; 2]> {
        self.ranks.first().map(|rank| rank.lens)
    }
}

impl Rank {
    fn part(&self, (slot, at, len): Part) -> &[u8] {
        &bytemuck::cast_slice(&self.lines[slot])[at..at + len]
    }

    fn part_mut(&mut self, (slot, at, len): Part) -> &mut [u8] {
        &mut bytes(&mut self.lines[slot])[at..at + len]
    }
}

fn bytes(lines: &mut [Line]) -> &mut [u8] {
    bytemuck::cast_slice_mut(lines)
}

/// Casts a part that begins at an element of a line-aligned buffer, so the cast succeeds; returns no elements for an
/// invalid length.
fn elements<T: Element>(bytes: &mut [u8]) -> &mut [T] {
    bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
}

/// Allocates zeroed memory for a number of bytes.
pub(super) fn zeroed_lines(bytes: u64, purpose: &'static str) -> Result<Vec<Line>, Error> {
    let lines = usize::try_from(bytes.div_ceil(LINE as u64)).ok();
    let memory = lines.and_then(|lines| bytemuck::allocation::try_zeroed_vec(lines).ok());
    let mut memory = memory.ok_or_else(|| no_memory(bytes, purpose, true))?;
    prefer_huge_pages(&mut memory);
    Ok(memory)
}
