//! Views of operations.

use super::super::layout::*;
use super::{Numbers, OperandList, Table, Tables};
use crate::types::{BlockSync, ChannelKind, ReduceOp};
use crate::{Count, OpKind, Slice};

/// One operation.
///
/// Fields have the meaning of those of [`Op`](crate::Op).
#[derive(Clone, Copy, Debug)]
pub struct OpView<'a> {
    words: Words<'a>,
    refs: Table,
    numbers: Table,
    kind: OpKind,
    pub(in super::super) entry: Entry,
}

/// The words of an operation.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Entry {
    pub(in super::super) kind: u64,
    pub(in super::super) attributes: u64,
    pub(in super::super) srcs: usize,
    pub(in super::super) dsts: usize,
    pub(in super::super) ids: usize,
    pub(in super::super) first_ref: usize,
    pub(in super::super) first_number: usize,
}

/// The header of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Window per iteration, in bytes.
    pub unit: u64,
    /// Chunks that the loop covers.
    pub num_chunks: u32,
    /// Number of operations of one iteration; they follow the header in flat order.
    pub body_len: u32,
}

impl<'a> OpView<'a> {
    /// Reads an operation. `at` is its index among the rank's operations and within the table.
    #[inline]
    pub(super) fn new(words: Words<'a>, tables: &Tables, at: usize) -> Self {
        let at = tables.ops.start + at * OP;
        let [kind, attributes, srcs, dsts] = words.several(at);
        let [ids, first_ref, first_number] = words.several(at + 4);
        let entry = Entry {
            kind,
            attributes,
            srcs: index(srcs),
            dsts: index(dsts),
            ids: index(ids),
            first_ref: index(first_ref),
            first_number: index(first_number),
        };
        let kind = OpKind::ALL.get(index(kind)).copied().unwrap_or(OpKind::Nop);
        Self { words, refs: tables.refs, numbers: tables.numbers, kind, entry }
    }

    /// Returns the kind of the operation.
    #[inline]
    pub fn kind(&self) -> OpKind {
        self.kind
    }

    /// Returns the kind of the channels or remote buffers it uses; `None` if it uses none.
    #[inline]
    pub fn channel(&self) -> Option<ChannelKind> {
        let number = (self.entry.attributes & CHANNEL_MASK) as usize;
        number.checked_sub(1).map(|number| ChannelKind::ALL[number])
    }

    /// Returns the reduction of a reducing operation.
    #[inline]
    pub fn reduce(&self) -> Option<ReduceOp> {
        let number = (self.entry.attributes >> REDUCE_SHIFT & REDUCE_MASK) as usize;
        ReduceOp::ALL.get(number.checked_sub(1)?).copied()
    }

    /// Returns where the block is additionally synchronized; [`BlockSync::None`] in a lowered plan.
    #[inline]
    pub fn sync(&self) -> BlockSync {
        [BlockSync::None, BlockSync::Before, BlockSync::After, BlockSync::Both]
            [(self.entry.attributes >> SYNC_SHIFT & SYNC_MASK) as usize]
    }

    /// Returns the slice of every operand that the block processes; `None` for whole operands.
    #[inline]
    pub fn slice(&self) -> Option<Slice> {
        (self.entry.attributes & HAS_SLICE != 0)
            .then(|| Slice { index: self.extra(0) as u32, count: self.extra(1) as u32 })
    }

    /// Returns the number of elements that a counted data operation processes, as an entry of the launch's counts.
    #[inline]
    pub fn count(&self) -> Option<Count> {
        let first = self.after_slice();
        (self.entry.attributes & HAS_COUNT != 0)
            .then(|| Count { sender: self.extra(first) as u32, receiver: self.extra(first + 1) as u32 })
    }

    /// Returns the number of thread blocks of a barrier; 0 for other operations.
    #[inline]
    pub fn num_blocks(&self) -> u32 {
        if self.entry.attributes & HAS_BLOCKS == 0 {
            return 0;
        }
        self.extra(self.after_count()) as u32
    }

    /// Returns unit, chunks and length of a pipeline; `None` for any other operation.
    #[inline]
    pub fn pipeline(&self) -> Option<Loop> {
        let first = self.after_count() + usize::from(self.entry.attributes & HAS_BLOCKS != 0);
        (self.entry.attributes & HAS_BODY != 0).then(|| Loop {
            unit: self.extra(first),
            num_chunks: self.extra(first + 1) as u32,
            body_len: self.extra(first + 2) as u32,
        })
    }

    #[inline]
    fn after_slice(&self) -> usize {
        if self.entry.attributes & HAS_SLICE == 0 { 0 } else { 2 }
    }

    #[inline]
    fn after_count(&self) -> usize {
        self.after_slice() + if self.entry.attributes & HAS_COUNT == 0 { 0 } else { 2 }
    }

    /// Returns a number after the ids.
    #[inline]
    fn extra(&self, i: usize) -> u64 {
        let at = self.entry.first_number.saturating_add(self.entry.ids).saturating_add(i);
        if at < self.numbers.len { self.words.get(self.numbers.start + at) } else { 0 }
    }

    /// Returns the sources, in the order of [`Op::srcs`](crate::Op::srcs).
    #[inline]
    pub fn srcs(&self) -> OperandList<'a> {
        OperandList::new(self.words, self.refs, self.entry.first_ref, self.entry.srcs)
    }

    /// Returns the destinations, in the order of [`Op::dsts`](crate::Op::dsts).
    #[inline]
    pub fn dsts(&self) -> OperandList<'a> {
        let first = self.entry.first_ref.saturating_add(self.entry.srcs);
        OperandList::new(self.words, self.refs, first, self.entry.dsts)
    }

    /// Returns channel indexes, semaphore numbers or the barrier's number, as [`Op::ids`](crate::Op::ids).
    #[inline]
    pub fn ids(&self) -> Numbers<'a> {
        Numbers::new(self.words, self.numbers, self.entry.first_number, self.entry.ids)
    }
}
