//! Ranks, thread blocks and positions of chunks, as numbers, ranges and lists of them.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::{At, BlockArg, BlockList, Blocks, ChunkRange, RankArg, RankList};
use crate::dsl::group::ThreadBlockGroup;
use crate::dsl::program::Program;
use crate::dsl::rank::Rank;
use crate::dsl::value::RangeValue;

macro_rules! for_integers {
    ($($int:ty)*) => { $(
        impl Blocks for $int {
            fn resolve(self, _: &Program) -> At {
                At::Block(self as i128)
            }
        }
        impl BlockArg for $int {
            fn resolve(self, _: &Program) -> i128 {
                self as i128
            }
        }
        impl RankArg for $int {
            fn resolve(self, _: &Program) -> i128 {
                self as i128
            }
        }
        impl ChunkRange for $int {
            fn resolve(self, _: &Program) -> RangeValue {
                RangeValue { start: Some(self as i128), end: Some(self as i128 + 1) }
            }
        }
        impl ChunkRange for Range<$int> {
            fn resolve(self, _: &Program) -> RangeValue {
                RangeValue { start: Some(self.start as i128), end: Some(self.end as i128) }
            }
        }
        impl ChunkRange for RangeInclusive<$int> {
            fn resolve(self, _: &Program) -> RangeValue {
                RangeValue { start: Some(*self.start() as i128), end: Some(*self.end() as i128 + 1) }
            }
        }
        impl ChunkRange for RangeFrom<$int> {
            fn resolve(self, _: &Program) -> RangeValue {
                RangeValue { start: Some(self.start as i128), end: None }
            }
        }
        impl ChunkRange for RangeTo<$int> {
            fn resolve(self, _: &Program) -> RangeValue {
                RangeValue { start: None, end: Some(self.end as i128) }
            }
        }
        impl ChunkRange for RangeToInclusive<$int> {
            fn resolve(self, _: &Program) -> RangeValue {
                RangeValue { start: None, end: Some(self.end as i128 + 1) }
            }
        }
        for_lists! { BlockList, [] $int, block => block as i128 }
        impl BlockList for Range<$int> {
            fn resolve(self, _: &Program) -> Vec<i128> {
                range_numbers(self.start as i128, self.end as i128)
            }
        }
    )* };
}

/// Implements a list argument for arrays, slices and vectors of an element type.
macro_rules! for_lists {
    ($trait:ident, [$($generics:tt)*] $element:ty, $e:ident => $number:expr) => {
        impl<$($generics)*> $trait for &[$element] {
            fn resolve(self, _: &Program) -> Vec<i128> {
                self.iter().map(|&$e| $number).collect()
            }
        }
        impl<$($generics)*> $trait for Vec<$element> {
            fn resolve(self, program: &Program) -> Vec<i128> {
                $trait::resolve(self.as_slice(), program)
            }
        }
        impl<$($generics)*> $trait for &Vec<$element> {
            fn resolve(self, program: &Program) -> Vec<i128> {
                $trait::resolve(self.as_slice(), program)
            }
        }
        impl<$($generics)* const N: usize> $trait for [$element; N] {
            fn resolve(self, program: &Program) -> Vec<i128> {
                $trait::resolve(self.as_slice(), program)
            }
        }
        impl<$($generics)* const N: usize> $trait for &[$element; N] {
            fn resolve(self, program: &Program) -> Vec<i128> {
                $trait::resolve(self.as_slice(), program)
            }
        }
    };
}

/// More numbers than any program uses, so that a huge range is rejected without being listed.
const MAX_NUMBERS: i128 = 1 << 20;

/// Returns the numbers of a range; of a huge one, just enough for it to be rejected as out of range.
pub(super) fn range_numbers(start: i128, end: i128) -> Vec<i128> {
    (start..end.min(start.saturating_add(MAX_NUMBERS))).collect()
}

for_integers! { usize u32 u64 i32 i64 }

impl<I: IntoIterator<Item: RankArg>> RankList for I {
    fn resolve(self, program: &Program) -> Vec<i128> {
        // An iterator may call functions of the authoring API, but what it yields is an argument of this call.
        let call = program.recorder().current_call();
        let mut ranks = Vec::new();
        for rank in self.into_iter().take(MAX_NUMBERS as usize) {
            program.recorder().resume_call(call.clone());
            ranks.push(rank.resolve(program));
        }
        program.recorder().resume_call(call);
        ranks
    }
}

impl<R: RankArg + Copy> RankArg for &R {
    fn resolve(self, program: &Program) -> i128 {
        (*self).resolve(program)
    }
}

impl RankArg for Rank<'_> {
    fn resolve(self, program: &Program) -> i128 {
        if program.owns(self.program()) { i128::from(self.number()) } else { i128::from(program.foreign("rank")) }
    }
}

impl Blocks for &ThreadBlockGroup {
    fn resolve(self, _: &Program) -> At {
        At::Group(self.value())
    }
}

impl BlockList for &ThreadBlockGroup {
    fn resolve(self, _: &Program) -> Vec<i128> {
        self.value().iter().map(|&block| i128::from(block)).collect()
    }
}

impl ChunkRange for RangeFull {
    fn resolve(self, _: &Program) -> RangeValue {
        RangeValue { start: None, end: None }
    }
}
