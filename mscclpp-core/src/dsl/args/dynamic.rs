//! Arguments that the evaluator passes.

use std::rc::Rc;

use super::numbers::range_numbers;
use super::{
    AnyChunk, At, BlockArg, BlockList, Blocks, ChunkList, ChunkRange, ChunkValues, InputList, OutputChunk, PacketChunk,
    PacketList, RankArg, RankList,
};
use crate::dsl::program::Program;
use crate::dsl::value::{ChunkValue, RangeValue, Value};

/// An untyped argument that has been checked to be of the right kind.
#[derive(Clone, Copy)]
pub(in crate::dsl) struct DynArg<'a>(pub(in crate::dsl) &'a Value);

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

    pub(in crate::dsl) fn usize(self) -> usize {
        usize::try_from(self.int()).unwrap_or(usize::MAX)
    }

    pub(in crate::dsl) fn i64(self) -> i64 {
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
