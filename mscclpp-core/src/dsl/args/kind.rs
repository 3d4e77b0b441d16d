//! Kinds of arguments, by which the evaluator checks calls.

use crate::dsl::value::Value;
use crate::types::BufferKind;

/// Kinds of arguments: what the evaluator checks before it calls.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "variants are named as the parameter kinds are written in `dsl!`")]
pub enum Kind {
    usize,
    i64,
    BufferKind,
    BlockSync,
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
    /// Returns the description of the kind, for messages and the subset table.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::usize => "a non-negative integer",
            Self::i64 => "an integer",
            Self::BufferKind => "a `BufferKind`",
            Self::BlockSync => "a `BlockSync`",
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

    /// Returns whether a value is of the kind.
    pub(in crate::dsl) fn accepts(self, value: &Value) -> bool {
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
            | (Self::BlockSync, Value::BlockSync(_))
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
