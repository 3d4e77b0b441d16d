//! Views of operations.

use super::super::layout::*;
use super::{Numbers, RankView, RefList};
use crate::plan::{OpKind, Slice};
use crate::vocab::{ChannelKind, ReduceOp, Sync};

/// One operation.
///
/// Fields mean what those of [`Op`](crate::plan::Op) mean.
#[derive(Clone, Copy, Debug)]
pub struct OpView<'a> {
    rank: RankView<'a>,
    /// First word of the entry.
    at: usize,
    kind: OpKind,
    attributes: u64,
}

/// The header of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Window per iteration, in bytes.
    pub unit: u64,
    /// Chunks that the loop covers.
    pub num_chunks: u32,
    /// Operations of one iteration: this many of those behind the header in flat order.
    pub body_len: u32,
}

impl<'a> OpView<'a> {
    /// `at` counts the rank's operations and lies inside the table.
    #[inline]
    pub(super) fn new(rank: RankView<'a>, at: usize) -> Self {
        let at = rank.tables.ops.start + at * OP;
        let kind = OpKind::ALL.get(rank.words.index(at + OP_KIND)).copied().unwrap_or(OpKind::Nop);
        Self { rank, at, kind, attributes: rank.words.get(at + OP_ATTRIBUTES) }
    }

    /// What it does.
    #[inline]
    pub fn kind(&self) -> OpKind {
        self.kind
    }

    /// Kind of the channels or remote buffers it uses; `None` if it uses none.
    #[inline]
    pub fn channel(&self) -> Option<ChannelKind> {
        let number = (self.attributes & CHANNEL_MASK) as usize;
        number.checked_sub(1).map(|number| ChannelKind::ALL[number])
    }

    /// The reduction, on reducing operations.
    #[inline]
    pub fn reduce(&self) -> Option<ReduceOp> {
        let number = (self.attributes >> REDUCE_SHIFT & REDUCE_MASK) as usize;
        ReduceOp::ALL.get(number.checked_sub(1)?).copied()
    }

    /// Where the block is also synchronised; [`Sync::None`] in a lowered plan.
    pub fn sync(&self) -> Sync {
        [Sync::None, Sync::Before, Sync::After, Sync::Both][(self.attributes >> SYNC_SHIFT & SYNC_MASK) as usize]
    }

    /// The part of every reference that the block works on; the whole if `None`.
    #[inline]
    pub fn slice(&self) -> Option<Slice> {
        (self.attributes & HAS_SLICE != 0).then(|| Slice { index: self.extra(0) as u32, of: self.extra(1) as u32 })
    }

    /// Number of thread blocks that meet, on barriers; 0 otherwise.
    #[inline]
    pub fn blocks(&self) -> u32 {
        if self.attributes & HAS_BLOCKS == 0 {
            return 0;
        }
        self.extra(self.after_slice()) as u32
    }

    /// Unit, chunks and length of a pipeline; `None` for any other operation.
    #[inline]
    pub fn pipeline(&self) -> Option<Loop> {
        let first = self.after_slice() + usize::from(self.attributes & HAS_BLOCKS != 0);
        (self.attributes & HAS_BODY != 0).then(|| Loop {
            unit: self.extra(first),
            num_chunks: self.extra(first + 1) as u32,
            body_len: self.extra(first + 2) as u32,
        })
    }

    fn after_slice(&self) -> usize {
        if self.attributes & HAS_SLICE == 0 { 0 } else { 2 }
    }

    /// A number behind the ids.
    fn extra(&self, i: usize) -> u64 {
        let ids = self.word(OP_IDS);
        self.rank.number(self.word(OP_FIRST_NUMBER).saturating_add(ids).saturating_add(i))
    }

    /// Sources, in the order of [`Op::srcs`](crate::plan::Op::srcs).
    #[inline]
    pub fn srcs(&self) -> RefList<'a> {
        self.refs(self.word(OP_FIRST_REF), self.word(OP_SRCS))
    }

    /// Destinations, in the order of [`Op::dsts`](crate::plan::Op::dsts).
    #[inline]
    pub fn dsts(&self) -> RefList<'a> {
        self.refs(self.word(OP_FIRST_REF).saturating_add(self.word(OP_SRCS)), self.word(OP_DSTS))
    }

    /// Channel indexes, semaphore numbers or the barrier's number, as [`Op::ids`](crate::plan::Op::ids).
    #[inline]
    pub fn ids(&self) -> Numbers<'a> {
        self.rank.numbers(self.word(OP_FIRST_NUMBER), self.word(OP_IDS))
    }

    fn refs(&self, first: usize, len: usize) -> RefList<'a> {
        let table = self.rank.tables.refs;
        RefList::new(self.rank.words, table, first, len)
    }

    pub(in super::super) fn word(&self, i: usize) -> usize {
        self.rank.words.index(self.at + i)
    }

    pub(in super::super) fn raw(&self, i: usize) -> u64 {
        self.rank.words.get(self.at + i)
    }
}
