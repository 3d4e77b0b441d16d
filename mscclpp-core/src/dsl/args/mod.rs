//! Arguments of the authoring API: one trait per kind of argument, implemented by every type that is accepted, and by
//! `DynArg` for the evaluator.

mod chunks;
mod dynamic;
mod kind;
mod numbers;

use smallvec::SmallVec;

pub(super) use self::dynamic::DynArg;
#[doc(hidden)]
pub use self::kind::Kind;
use super::program::Program;
use super::value::{ChunkValue, GroupValue, RangeValue};

/// The thread blocks that execute an operation.
#[doc(hidden)]
pub enum At {
    Block(i128),
    Group(GroupValue),
}

/// The chunks of one call.
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
    /// The thread blocks that execute a data operation: a thread-block number, or a
    /// [`ThreadBlockGroup`](super::ThreadBlockGroup) that divides the operation.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` does not select the thread blocks of an operation",
        label = "expected a thread-block number or a `&ThreadBlockGroup`",
        note = "the last argument of every data operation is the thread block that executes it, such as `0`"
    )]
    Blocks -> At
}
argument! {
    /// The one thread block that executes an operation.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not one thread block",
        label = "expected the number of a thread block, such as `0`",
        note = "only local operations and data operations of memory channels run on a `&ThreadBlockGroup`"
    )]
    BlockArg -> i128
}
argument! {
    /// Several thread blocks of one rank: an array, slice, `Vec` or range of numbers, or a
    /// [`ThreadBlockGroup`](super::ThreadBlockGroup).
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a list of thread blocks",
        label = "expected thread-block numbers such as `[0, 1]` or `0..4`, or a `&ThreadBlockGroup`"
    )]
    BlockList -> Vec<i128>
}
argument! {
    /// A rank: a [`Rank`](super::Rank) or its number.
    #[diagnostic::on_unimplemented(message = "`{Self}` is not a rank", label = "expected a `Rank` or its number")]
    RankArg -> i128
}
argument! {
    /// Several ranks: [`Rank`](super::Rank)s or their numbers in an array, slice, `Vec` or range, or from any iterator,
    /// such as `p.ranks()`.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a list of ranks",
        label = "expected ranks such as `[0, 1]`, `0..8` or `p.ranks()`"
    )]
    RankList -> Vec<i128>
}
argument! {
    /// The chunks of a buffer: one index or a range.
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
    /// A chunk of scratch, which can hold packets.
    #[diagnostic::on_unimplemented(
        message = "packets are stored only in scratch, but `{Self}` is not a chunk of scratch",
        label = "expected a `Chunk<Scratch>`, such as `rank.scratch(1).chunk(0)`",
        note = "a packet stores a flag with its data and takes twice the bytes, which only scratch has; write \
            packets there with `copy_packets`, and read them with `unpack_packets`"
    )]
    PacketChunk -> ChunkValue
}
argument! {
    /// One chunk or several: a `Chunk`, or an array, slice or `Vec` of them.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a list of chunks",
        label = "expected a `Chunk`, `&[Chunk]` or `Vec<Chunk>`",
        note = "to put chunks of different buffers into one list, convert each with `chunk.to_any()`"
    )]
    ChunkList -> ChunkValues
}
argument! {
    /// One chunk of scratch or several, which can hold packets.
    #[diagnostic::on_unimplemented(
        message = "packets are stored only in scratch, but `{Self}` is not a list of chunks of scratch",
        label = "expected a `Chunk<Scratch>`, `&[Chunk<Scratch>]` or `Vec<Chunk<Scratch>>`",
        note = "to reduce plain data, use `reduce`"
    )]
    PacketList -> ChunkValues
}

argument! {
    /// A chunk of an output, which receives results.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a chunk of an output",
        label = "expected a `Chunk<Output>`, such as `rank.output().chunk(0)`",
        note = "an expectation states the contents of an output"
    )]
    OutputChunk -> ChunkValue
}
argument! {
    /// One chunk of an input or several, which the caller passes for reading.
    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a list of chunks of inputs",
        label = "expected a `Chunk<Input>`, `&[Chunk<Input>]` or `Vec<Chunk<Input>>`",
        note = "an expectation states an output in terms of inputs"
    )]
    InputList -> ChunkValues
}
