//! What the functions of the authoring API take: one trait per kind of argument, implemented by every type that may stand
//! there, and by [`DynArg`] for the evaluator.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::rc::Rc;

use smallvec::SmallVec;

use super::buffer::{BufferMarker, Chunk, Input, Output, Scratch};
use super::group::ThreadBlockGroup;
use super::program::Program;
use super::rank::{Rank, Ranks};
use super::value::{ChunkValue, GroupValue, RangeValue, Value};
use crate::vocab::BufferKind;

/// An untyped argument that has been checked to be of the right kind.
#[derive(Clone, Copy)]
pub(super) struct DynArg<'a>(pub(super) &'a Value);

/// Where an operation runs.
#[doc(hidden)]
pub enum At {
    Block(i128),
    Group(GroupValue),
}

/// Chunks given to one call.
pub(super) type ChunkValues = SmallVec<[ChunkValue; 8]>;

/// Declares the argument traits.
macro_rules! argument {
    ($(#[$meta:meta])* $name:ident -> $out:ty) => {
        $(#[$meta])*
        pub trait $name {
            #[doc(hidden)]
            fn resolve(self, program: &Program) -> $out;
        }
    };
}

argument! {
    /// Where a data operation runs: a thread-block number, or a [`ThreadBlockGroup`] that splits the operation.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` does not say where an operation runs",
        label = "expected a thread-block number or a `&ThreadBlockGroup`",
        note = "the last argument of every data operation is the thread block that executes it, such as `0`"
    )]
    Blocks -> At
}
argument! {
    /// The one thread block that an operation runs on.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not one thread block",
        label = "expected the number of a thread block, such as `0`",
        note = "only operations that threads share out (local ones, and those of memory channels that move data) run on a `&ThreadBlockGroup`"
    )]
    BlockArg -> i128
}
argument! {
    /// Several thread blocks of one rank: an array, slice, `Vec` or range of numbers, or a [`ThreadBlockGroup`].
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a list of thread blocks",
        label = "expected thread-block numbers such as `[0, 1]` or `0..4`, or a `&ThreadBlockGroup`"
    )]
    BlockList -> Vec<i128>
}
argument! {
    /// A rank: a [`Rank`] or its number.
    #[diagnostic::on_unimplemented(message = "`{Self}` is not a rank", label = "expected a `Rank` or its number")]
    RankArg -> i128
}
argument! {
    /// Several ranks: numbers or [`Rank`]s in an array, slice, `Vec` or range, or `p.ranks()`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a list of ranks",
        label = "expected ranks such as `[0, 1]`, `0..8` or `p.ranks()`"
    )]
    RankList -> Vec<i128>
}
argument! {
    /// Which chunks of a buffer: one index or a range.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` does not select chunks",
        label = "expected an index such as `0` or a range such as `0..2`"
    )]
    ChunkRange -> RangeValue
}
argument! {
    /// A chunk of any buffer.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a chunk",
        label = "expected a `Chunk`, such as `rank.input().chunk(0)`"
    )]
    AnyChunk -> ChunkValue
}
argument! {
    /// A chunk of scratch, where packets can live.
    #[diagnostic::on_unimplemented(
        message = "packets live in scratch, `{Self}` is not a chunk of scratch",
        label = "expected a `Chunk<Scratch>`, such as `rank.scratch(1).chunk(0)`",
        note = "packets carry flags beside the data and need twice the bytes, which only scratch has; make them there with `copy_packets`, read them with `unpack_packets`"
    )]
    PacketChunk -> ChunkValue
}
argument! {
    /// One chunk or several: a `Chunk`, or an array, slice or `Vec` of them.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a list of chunks",
        label = "expected a `Chunk`, `&[Chunk]` or `Vec<Chunk>`",
        note = "chunks of different buffers go into one list with `chunk.any()`"
    )]
    ChunkList -> ChunkValues
}
argument! {
    /// One chunk of scratch or several, where packets can live.
    #[diagnostic::on_unimplemented(
        message = "packets live in scratch, `{Self}` is not a list of chunks of scratch",
        label = "expected a `Chunk<Scratch>`, `&[Chunk<Scratch>]` or `Vec<Chunk<Scratch>>`",
        note = "plain data is reduced with `reduce`"
    )]
    PacketList -> ChunkValues
}

argument! {
    /// A chunk of an output: what the caller gets back.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a chunk of an output",
        label = "expected a `Chunk<Output>`, such as `rank.output().chunk(0)`",
        note = "a collective promises something about what the caller gets back"
    )]
    OutputChunk -> ChunkValue
}
argument! {
    /// One chunk of an input or several: what the caller hands in.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a list of chunks of inputs",
        label = "expected a `Chunk<Input>`, `&[Chunk<Input>]` or `Vec<Chunk<Input>>`",
        note = "a collective promises its results in terms of what the callers hand in"
    )]
    InputList -> ChunkValues
}

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
        for_lists! { RankList, [] $int, rank => rank as i128 }
        impl BlockList for Range<$int> {
            fn resolve(self, _: &Program) -> Vec<i128> {
                range_numbers(self.start as i128, self.end as i128)
            }
        }
        impl RankList for Range<$int> {
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

/// More numbers than any program can name, so that a huge range is refused without being listed.
const MOST_NUMBERS: i128 = 1 << 20;

/// The numbers of a range; of a huge one, just enough to be refused for being out of range.
fn range_numbers(start: i128, end: i128) -> Vec<i128> {
    (start..end.min(start.saturating_add(MOST_NUMBERS))).collect()
}

for_integers! { usize u32 u64 i32 i64 }
for_lists! { RankList, ['p,] Rank<'p>, rank => i128::from(rank.number()) }

impl RankList for Ranks<'_> {
    fn resolve(self, _: &Program) -> Vec<i128> {
        self.map(|rank| i128::from(rank.number())).collect()
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

impl<S: BufferMarker> AnyChunk for Chunk<'_, S> {
    fn resolve(self, program: &Program) -> ChunkValue {
        self.value_in(program)
    }
}

impl PacketChunk for Chunk<'_, Scratch> {
    fn resolve(self, program: &Program) -> ChunkValue {
        self.value_in(program)
    }
}

impl OutputChunk for Chunk<'_, Output> {
    fn resolve(self, program: &Program) -> ChunkValue {
        self.value_in(program)
    }
}

macro_rules! for_chunk_lists {
    ($trait:ident, [$($generics:tt)*] $chunk:ty) => {
        impl<'p, $($generics)*> $trait for $chunk {
            fn resolve(self, program: &Program) -> ChunkValues {
                std::iter::once(self.value_in(program)).collect()
            }
        }
        impl<'p, $($generics)*> $trait for &[$chunk] {
            fn resolve(self, program: &Program) -> ChunkValues {
                self.iter().map(|chunk| chunk.value_in(program)).collect()
            }
        }
        impl<'p, $($generics)*> $trait for Vec<$chunk> {
            fn resolve(self, program: &Program) -> ChunkValues {
                $trait::resolve(self.as_slice(), program)
            }
        }
        impl<'p, $($generics)*> $trait for &Vec<$chunk> {
            fn resolve(self, program: &Program) -> ChunkValues {
                $trait::resolve(self.as_slice(), program)
            }
        }
        impl<'p, $($generics)* const N: usize> $trait for [$chunk; N] {
            fn resolve(self, program: &Program) -> ChunkValues {
                $trait::resolve(self.as_slice(), program)
            }
        }
        impl<'p, $($generics)* const N: usize> $trait for &[$chunk; N] {
            fn resolve(self, program: &Program) -> ChunkValues {
                $trait::resolve(self.as_slice(), program)
            }
        }
    };
}

for_chunk_lists! { ChunkList, [S: BufferMarker,] Chunk<'p, S> }
for_chunk_lists! { PacketList, [] Chunk<'p, Scratch> }
for_chunk_lists! { InputList, [] Chunk<'p, Input> }

/// Kinds of arguments: what the evaluator checks before it calls.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "variants are named as the parameter kinds are written in `dsl!`")]
pub enum Kind {
    usize,
    i64,
    BufferKind,
    Sync,
    ReduceOp,
    Blocks,
    BlockArg,
    BlockList,
    RankArg,
    RankList,
    ChunkRange,
    AnyChunk,
    PacketChunk,
    ChunkList,
    PacketList,
    OutputChunk,
    InputList,
}

impl Kind {
    /// What such an argument is, for messages and the subset table.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::usize => "a non-negative integer",
            Self::i64 => "an integer",
            Self::BufferKind => "a `BufferKind`",
            Self::Sync => "a `Sync`",
            Self::ReduceOp => "a `ReduceOp`",
            Self::Blocks => "a thread-block number or a `&ThreadBlockGroup`",
            Self::BlockArg => "a thread-block number",
            Self::BlockList => "a list of thread blocks",
            Self::RankArg => "a rank",
            Self::RankList => "a list of ranks",
            Self::ChunkRange => "an index or a range",
            Self::AnyChunk => "a `Chunk`",
            Self::PacketChunk => "a `Chunk<Scratch>`",
            Self::ChunkList => "a `Chunk` or a list of chunks",
            Self::PacketList => "a `Chunk<Scratch>` or a list of them",
            Self::OutputChunk => "a `Chunk<Output>`",
            Self::InputList => "a `Chunk<Input>` or a list of them",
        }
    }

    /// Whether a value may stand there.
    pub(super) fn accepts(self, value: &Value) -> bool {
        let chunk_in = |buffer| move |value: &Value| matches!(value, Value::Chunk(chunk) if chunk.buffer == buffer);
        let in_scratch = chunk_in(BufferKind::Scratch);
        let in_input = chunk_in(BufferKind::Input);
        match (self, value) {
            (Self::usize, Value::Int(int)) => usize::try_from(*int).is_ok(),
            (Self::i64, Value::Int(int)) => i64::try_from(*int).is_ok(),
            (Self::Blocks, Value::Int(_) | Value::Group(_))
            | (Self::BlockArg, Value::Int(_))
            | (Self::RankArg, Value::Int(_) | Value::Rank(_))
            | (Self::ChunkRange, Value::Int(_) | Value::Range(_))
            | (Self::BufferKind, Value::BufferKind(_))
            | (Self::Sync, Value::Sync(_))
            | (Self::ReduceOp, Value::ReduceOp(_))
            | (Self::BlockList, Value::Group(_))
            | (Self::AnyChunk | Self::ChunkList, Value::Chunk(_)) => true,
            (Self::BlockList | Self::RankList, Value::Range(range)) => range.start.is_some() && range.end.is_some(),
            (Self::BlockList, Value::List(list)) => list.iter().all(|value| matches!(value, Value::Int(_))),
            (Self::RankList, Value::List(list)) => {
                list.iter().all(|value| matches!(value, Value::Int(_) | Value::Rank(_)))
            }
            (Self::PacketChunk | Self::PacketList, value @ Value::Chunk(_)) => in_scratch(value),
            (Self::ChunkList, Value::List(list)) => list.iter().all(|value| matches!(value, Value::Chunk(_))),
            (Self::PacketList, Value::List(list)) => list.iter().all(in_scratch),
            (Self::OutputChunk, value @ Value::Chunk(_)) => chunk_in(BufferKind::Output)(value),
            (Self::InputList, value @ Value::Chunk(_)) => in_input(value),
            (Self::InputList, Value::List(list)) => list.iter().all(in_input),
            _ => false,
        }
    }
}

impl DynArg<'_> {
    fn int(self) -> i128 {
        match self.0 {
            Value::Int(int) => *int,
            Value::Rank(rank) => i128::from(*rank),
            _ => -1,
        }
    }

    fn chunk(self) -> ChunkValue {
        match self.0 {
            Value::Chunk(chunk) => *chunk,
            _ => ChunkValue::POISON,
        }
    }

    fn chunks(self) -> ChunkValues {
        match self.0 {
            Value::List(list) => list.iter().map(|value| DynArg(value).chunk()).collect(),
            _ => std::iter::once(self.chunk()).collect(),
        }
    }

    fn numbers(self) -> Vec<i128> {
        match self.0 {
            Value::List(list) => list.iter().map(|value| DynArg(value).int()).collect(),
            Value::Group(group) => group.iter().map(|&block| i128::from(block)).collect(),
            Value::Range(RangeValue { start: Some(start), end: Some(end) }) => range_numbers(*start, *end),
            _ => vec![-1],
        }
    }

    pub(super) fn usize(self) -> usize {
        usize::try_from(self.int()).unwrap_or(usize::MAX)
    }

    pub(super) fn i64(self) -> i64 {
        i64::try_from(self.int()).unwrap_or(i64::MAX)
    }
}

macro_rules! for_dynamic {
    ($($trait:ident -> $out:ty: $arg:ident => $value:expr;)*) => { $(
        impl $trait for DynArg<'_> {
            fn resolve(self, _: &Program) -> $out {
                let $arg = self;
                $value
            }
        }
    )* };
}

for_dynamic! {
    Blocks -> At: arg => match arg.0 {
        Value::Group(group) => At::Group(Rc::clone(group)),
        _ => At::Block(arg.int()),
    };
    BlockArg -> i128: arg => arg.int();
    BlockList -> Vec<i128>: arg => arg.numbers();
    RankArg -> i128: arg => arg.int();
    RankList -> Vec<i128>: arg => arg.numbers();
    ChunkRange -> RangeValue: arg => match arg.0 {
        Value::Range(range) => *range,
        _ => RangeValue { start: Some(arg.int()), end: Some(arg.int().saturating_add(1)) },
    };
    AnyChunk -> ChunkValue: arg => arg.chunk();
    PacketChunk -> ChunkValue: arg => arg.chunk();
    ChunkList -> ChunkValues: arg => arg.chunks();
    PacketList -> ChunkValues: arg => arg.chunks();
    OutputChunk -> ChunkValue: arg => arg.chunk();
    InputList -> ChunkValues: arg => arg.chunks();
}
