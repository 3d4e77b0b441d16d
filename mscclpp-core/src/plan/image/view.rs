//! Views into an image: no copy, no allocation, and only the bytes of the rank that is asked for.
//!
//! A view never panics, whatever the bytes are: a number behind the end reads as 0, an unknown enum value as none, and a
//! list ends where its table ends.

use std::ops::Range;

use super::layout::*;
use crate::plan::{OpKind, Place, Ref, RemoteBuffer, Slice};
use crate::vocab::{BufferKind, ChannelKind, ReduceOp, Sync};

/// One rank's part of a plan.
#[derive(Clone, Copy, Debug)]
pub struct RankView<'a> {
    pub(super) words: Words<'a>,
    pub(super) tables: Tables,
}

/// First word and number of entries of each table of a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    pub(super) channels: Table,
    pub(super) remote: Table,
    pub(super) semaphores: Table,
    pub(super) blocks: Table,
    pub(super) block_tables: Table,
    pub(super) ops: Table,
    pub(super) refs: Table,
    pub(super) numbers: Table,
}

/// A table of a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) start: usize,
    pub(super) len: usize,
}

impl Table {
    /// The entries `first..first + len`, cut off at the end of the table.
    fn range(&self, first: usize, len: usize) -> Range<usize> {
        let end = first.saturating_add(len).min(self.len);
        first.min(end)..end
    }
}

impl<'a> RankView<'a> {
    /// The section's tables, if they lie inside it.
    pub(super) fn new(words: Words<'a>) -> Option<Self> {
        let mut start = RANK;
        let mut entry = 3;
        let mut table = |size: usize| {
            let len = words.index(entry);
            let table = Table { start, len };
            entry += 1;
            start = start.checked_add(len.checked_mul(size)?)?;
            Some(table)
        };
        let [channels, remote, semaphores] = [table(CHANNELS)?, table(REMOTE)?, table(1)?];
        let [blocks, block_tables, ops, refs] = [table(BLOCK)?, table(TABLE)?, table(OP)?, table(REF)?];
        let numbers = Table { start, len: words.len().checked_sub(start)? };
        let tables = Tables { channels, remote, semaphores, blocks, block_tables, ops, refs, numbers };
        Some(Self { words, tables })
    }

    /// Chunks of a buffer.
    pub fn chunks(&self, buffer: BufferKind) -> u32 {
        self.words.get(buffer as usize) as u32
    }

    /// Number of thread blocks.
    pub fn num_blocks(&self) -> u32 {
        self.tables.blocks.len as u32
    }

    /// A thread block, in constant time; `None` if there is no such block.
    #[inline]
    pub fn block(&self, block: u32) -> Option<BlockView<'a>> {
        let table = self.tables.blocks;
        let block = block as usize;
        (block < table.len).then(|| {
            let at = table.start + block * BLOCK;
            let word = |i| self.words.index(at + i);
            let first_table = word(2);
            BlockView {
                rank: *self,
                ops: self.tables.ops.range(word(0), word(1)).into(),
                channels: self.tables.block_tables.range(first_table, word(3)).into(),
                remote: self.tables.block_tables.range(first_table.saturating_add(word(3)), word(4)).into(),
            }
        })
    }

    /// The thread blocks in order.
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = BlockView<'a>> + use<'a> {
        let rank = *self;
        (0..rank.tables.blocks.len).map(move |block| rank.block(block as u32).unwrap_or(BlockView::empty(rank)))
    }

    /// Peers of the channels of kind memory or port, in the order of the channels' numbers; empty for switch.
    pub fn peers(&self, kind: ChannelKind) -> Numbers<'a> {
        let tag = match kind {
            ChannelKind::Memory => TAG_MEMORY,
            ChannelKind::Port => TAG_PORT,
            ChannelKind::Switch => return self.numbers(0, 0),
        };
        self.channel_tables()
            .find(|(found, ..)| *found == tag)
            .map_or(self.numbers(0, 0), |(_, first, len)| self.numbers(first, len))
    }

    /// The switch channels in the order of their numbers: buffer and member ranks of each.
    pub fn switch_channels(&self) -> impl Iterator<Item = (BufferKind, Numbers<'a>)> + use<'a> {
        let rank = *self;
        self.channel_tables()
            .filter_map(|(tag, first, groups)| Some((switch_buffer(tag)?, first, groups)))
            .flat_map(move |(buffer, first, groups)| rank.groups(first, groups).map(move |group| (buffer, group)))
    }

    /// Tag, first number and length of each channel table.
    pub(super) fn channel_tables(&self) -> impl Iterator<Item = (u64, usize, usize)> + use<'a> {
        let (words, table) = (self.words, self.tables.channels);
        (0..table.len).map(move |i| {
            let at = table.start + i * CHANNELS;
            (words.get(at), words.index(at + 1), words.index(at + 2))
        })
    }

    /// The groups of a switch channel table.
    pub(super) fn groups(&self, first: usize, groups: usize) -> impl Iterator<Item = Numbers<'a>> + use<'a> {
        let rank = *self;
        let lengths = self.numbers(first, groups);
        let mut first = first.saturating_add(groups);
        lengths.map(move |length| {
            let group = rank.numbers(first, length as usize);
            first = first.saturating_add(length as usize);
            group
        })
    }

    /// Buffers of other ranks, in the order of their numbers.
    pub fn remote_buffers(&self) -> impl ExactSizeIterator<Item = RemoteBuffer> + use<'a> {
        let (words, table) = (self.words, self.tables.remote);
        (0..table.len).map(move |i| {
            let at = table.start + i * REMOTE;
            let bits = words.get(at + 1);
            RemoteBuffer {
                rank: words.get(at) as u32,
                buffer: BufferKind::ALL[(bits & 3).min(2) as usize],
                memory: bits & ACCESS_MEMORY != 0,
                port: bits & ACCESS_PORT != 0,
            }
        })
    }

    /// Initial values of the semaphores, in the order of their numbers.
    pub fn semaphores(&self) -> impl ExactSizeIterator<Item = i64> + use<'a> {
        let (words, table) = (self.words, self.tables.semaphores);
        (0..table.len).map(move |i| {
            let zigzag = words.get(table.start + i);
            (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
        })
    }

    pub(super) fn numbers(&self, first: usize, len: usize) -> Numbers<'a> {
        Numbers { words: self.words, start: self.tables.numbers.start, range: self.tables.numbers.range(first, len) }
    }

    /// A single number of the pool.
    fn number(&self, at: usize) -> u64 {
        if at < self.tables.numbers.len { self.words.get(self.tables.numbers.start + at) } else { 0 }
    }
}

/// The buffer of a switch channel table's tag.
pub(super) fn switch_buffer(tag: u64) -> Option<BufferKind> {
    BufferKind::ALL.get(index(tag.checked_sub(TAG_SWITCH)?)).copied()
}

/// A range that can be copied.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// One thread block of a rank.
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    rank: RankView<'a>,
    ops: Span,
    channels: Span,
    remote: Span,
}

impl<'a> BlockView<'a> {
    fn empty(rank: RankView<'a>) -> Self {
        let none = Span { start: 0, end: 0 };
        Self { rank, ops: none, channels: none, remote: none }
    }

    /// Rank-level numbers of this block's channels of a kind.
    pub fn channels(&self, kind: ChannelKind) -> Numbers<'a> {
        self.table(self.channels, kind)
    }

    /// Rank-level numbers of this block's remote buffers accessed through a channel kind.
    pub fn remote_buffers(&self, kind: ChannelKind) -> Numbers<'a> {
        self.table(self.remote, kind)
    }

    /// The channel tables in their order.
    pub fn channel_tables(&self) -> impl Iterator<Item = (ChannelKind, Numbers<'a>)> + use<'a> {
        self.tables(self.channels)
    }

    /// The remote buffer tables in their order.
    pub fn remote_buffer_tables(&self) -> impl Iterator<Item = (ChannelKind, Numbers<'a>)> + use<'a> {
        self.tables(self.remote)
    }

    fn table(&self, tables: Span, kind: ChannelKind) -> Numbers<'a> {
        self.tables(tables).find(|(found, _)| *found == kind).map_or(self.rank.numbers(0, 0), |(_, numbers)| numbers)
    }

    fn tables(&self, tables: Span) -> impl Iterator<Item = (ChannelKind, Numbers<'a>)> + use<'a> {
        let rank = self.rank;
        (tables.start..tables.end).filter_map(move |i| {
            let at = rank.tables.block_tables.start + i * TABLE;
            let kind = ChannelKind::ALL.get(rank.words.index(at))?;
            Some((*kind, rank.numbers(rank.words.index(at + 1), rank.words.index(at + 2))))
        })
    }

    /// Number of operations, those of pipelines' bodies included.
    pub fn num_ops(&self) -> u32 {
        (self.ops.end - self.ops.start) as u32
    }

    /// The operation at a flat index, in constant time: a pipeline's body counts on behind its header.
    pub fn op(&self, op: u32) -> Option<OpView<'a>> {
        let at = self.ops.start.saturating_add(op as usize);
        (at < self.ops.end).then(|| OpView::new(self.rank, at))
    }

    /// The operations in flat order: a pipeline, then its [`body_len`](Loop::body_len) operations, then what follows it.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = OpView<'a>> + use<'a> {
        let rank = self.rank;
        (self.ops.start..self.ops.end).map(move |at| OpView::new(rank, at))
    }

    /// Position of the block's first operation among all of its rank.
    pub(super) fn first_op(&self) -> usize {
        self.ops.start
    }
}

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
    fn new(rank: RankView<'a>, at: usize) -> Self {
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
        RefList { words: self.rank.words, start: table.start, range: table.range(first, len) }
    }

    pub(super) fn word(&self, i: usize) -> usize {
        self.rank.words.index(self.at + i)
    }

    pub(super) fn raw(&self, i: usize) -> u64 {
        self.rank.words.get(self.at + i)
    }
}

/// A list of numbers of an image, also an iterator over them.
#[derive(Clone, Debug)]
pub struct Numbers<'a> {
    words: Words<'a>,
    start: usize,
    range: Range<usize>,
}

impl Numbers<'_> {
    /// The number at a position, in constant time; `None` behind the end.
    #[inline]
    pub fn get(&self, at: u32) -> Option<u32> {
        let at = self.range.start.saturating_add(at as usize);
        (at < self.range.end).then(|| self.words.get(self.start + at) as u32)
    }

    /// Whether there is none (left).
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl Iterator for Numbers<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.range.next().map(|at| self.words.get(self.start + at) as u32)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<u32> {
        self.range.nth(n).map(|at| self.words.get(self.start + at) as u32)
    }
}

impl ExactSizeIterator for Numbers<'_> {}

/// A list of references of an image, also an iterator over them.
#[derive(Clone, Debug)]
pub struct RefList<'a> {
    words: Words<'a>,
    start: usize,
    range: Range<usize>,
}

impl RefList<'_> {
    /// The reference at a position, in constant time; `None` behind the end.
    #[inline]
    pub fn get(&self, at: u32) -> Option<Ref> {
        let at = self.range.start.saturating_add(at as usize);
        (at < self.range.end).then(|| self.at(at))
    }

    /// Whether there is none (left).
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    #[inline]
    fn at(&self, at: usize) -> Ref {
        let at = self.start + at * REF;
        let place = self.words.get(at);
        Ref {
            place: match place.checked_sub(PLACE_REMOTE) {
                None => Place::Local(BufferKind::ALL[place as usize]),
                Some(number) if number & 1 == 0 => Place::Remote((number >> 1) as u32),
                Some(number) => Place::Switch((number >> 1) as u32),
            },
            index: self.words.get(at + 1) as u32,
            size: self.words.get(at + 2) as u32,
        }
    }
}

impl Iterator for RefList<'_> {
    type Item = Ref;

    #[inline]
    fn next(&mut self) -> Option<Ref> {
        self.range.next().map(|at| self.at(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<Ref> {
        self.range.nth(n).map(|at| self.at(at))
    }
}

impl ExactSizeIterator for RefList<'_> {}
