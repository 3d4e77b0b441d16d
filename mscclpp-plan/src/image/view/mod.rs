//! Views into an image: they neither copy nor allocate, and read only the bytes of the requested rank.
//!
//! A view never panics, whatever the bytes are: a number past the end reads as 0, an unknown enum value as none, and a
//! list ends where its table ends.

mod list;
mod op;

pub use list::{Numbers, OperandList};
pub use op::{Loop, OpView};

use std::ops::Range;

use super::layout::*;
use crate::RemoteBuffer;
use crate::types::{BufferKind, ChannelKind};

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
    /// Returns the entries `first..first + len`, truncated at the end of the table.
    #[inline]
    fn range(&self, first: usize, len: usize) -> Range<usize> {
        let end = first.saturating_add(len).min(self.len);
        first.min(end)..end
    }
}

impl<'a> RankView<'a> {
    /// Returns the section's tables, if they are within it.
    #[inline]
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

    /// Returns the number of chunks of a buffer.
    #[inline]
    pub fn chunks(&self, buffer: BufferKind) -> u32 {
        self.words.get(buffer as usize) as u32
    }

    /// Returns the number of thread blocks.
    #[inline]
    pub fn num_blocks(&self) -> u32 {
        self.tables.blocks.len as u32
    }

    /// Returns a thread block, in constant time; `None` if there is no such block.
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

    /// Returns the thread blocks in order.
    #[inline]
    pub fn blocks(&self) -> impl ExactSizeIterator<Item = BlockView<'a>> + use<'a> {
        let rank = *self;
        (0..rank.tables.blocks.len).map(move |block| rank.block(block as u32).unwrap_or(BlockView::empty(rank)))
    }

    /// Returns the peers of the memory or port channels, in the order of the channels' numbers; empty for switch
    /// channels.
    #[inline]
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

    /// Returns the switch channels in the order of their numbers: buffer and member ranks of each.
    #[inline]
    pub fn switch_channels(&self) -> impl Iterator<Item = (BufferKind, Numbers<'a>)> + use<'a> {
        let rank = *self;
        self.channel_tables()
            .filter_map(|(tag, first, groups)| Some((switch_buffer(tag)?, first, groups)))
            .flat_map(move |(buffer, first, groups)| rank.groups(first, groups).map(move |group| (buffer, group)))
    }

    /// Returns tag, first number and length of each channel table.
    #[inline]
    pub(super) fn channel_tables(&self) -> impl Iterator<Item = (u64, usize, usize)> + use<'a> {
        let (words, table) = (self.words, self.tables.channels);
        (0..table.len).map(move |i| {
            let at = table.start + i * CHANNELS;
            (words.get(at), words.index(at + 1), words.index(at + 2))
        })
    }

    /// Returns the groups of a switch channel table.
    #[inline]
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

    /// Returns the buffers of other ranks, in the order of their numbers.
    #[inline]
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

    /// Returns the initial values of the semaphores, in the order of their numbers.
    #[inline]
    pub fn semaphores(&self) -> impl ExactSizeIterator<Item = i64> + use<'a> {
        let (words, table) = (self.words, self.tables.semaphores);
        (0..table.len).map(move |i| {
            let zigzag = words.get(table.start + i);
            (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
        })
    }

    #[inline]
    pub(super) fn numbers(&self, first: usize, len: usize) -> Numbers<'a> {
        Numbers::new(self.words, self.tables.numbers, first, len)
    }
}

/// Returns the buffer of a switch channel table's tag.
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
    #[inline]
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

    /// Returns the rank-level numbers of this block's channels of a kind.
    #[inline]
    pub fn channels(&self, kind: ChannelKind) -> Numbers<'a> {
        self.table(self.channels, kind)
    }

    /// Returns the rank-level numbers of this block's remote buffers accessed through a channel kind.
    #[inline]
    pub fn remote_buffers(&self, kind: ChannelKind) -> Numbers<'a> {
        self.table(self.remote, kind)
    }

    /// Returns the channel tables in order.
    #[inline]
    pub fn channel_tables(&self) -> impl Iterator<Item = (ChannelKind, Numbers<'a>)> + use<'a> {
        self.tables(self.channels)
    }

    /// Returns the remote buffer tables in order.
    #[inline]
    pub fn remote_buffer_tables(&self) -> impl Iterator<Item = (ChannelKind, Numbers<'a>)> + use<'a> {
        self.tables(self.remote)
    }

    #[inline]
    fn table(&self, tables: Span, kind: ChannelKind) -> Numbers<'a> {
        self.tables(tables).find(|(found, _)| *found == kind).map_or(self.rank.numbers(0, 0), |(_, numbers)| numbers)
    }

    #[inline]
    fn tables(&self, tables: Span) -> impl Iterator<Item = (ChannelKind, Numbers<'a>)> + use<'a> {
        let rank = self.rank;
        (tables.start..tables.end).filter_map(move |i| {
            let at = rank.tables.block_tables.start + i * TABLE;
            let kind = ChannelKind::ALL.get(rank.words.index(at))?;
            Some((*kind, rank.numbers(rank.words.index(at + 1), rank.words.index(at + 2))))
        })
    }

    /// Returns the number of operations, those of pipelines' bodies included.
    #[inline]
    pub fn num_ops(&self) -> u32 {
        (self.ops.end - self.ops.start) as u32
    }

    /// Returns the operation at a flat index, in constant time. The operations of a pipeline's body follow its header.
    #[inline]
    pub fn op(&self, op: u32) -> Option<OpView<'a>> {
        let at = self.ops.start.saturating_add(op as usize);
        (at < self.ops.end).then(|| OpView::new(self.rank.words, &self.rank.tables, at))
    }

    /// Returns the operations in flat order: a pipeline, then its [`body_len`](Loop::body_len) operations, then the
    /// following ones.
    #[inline]
    pub fn ops(&self) -> impl ExactSizeIterator<Item = OpView<'a>> + use<'a> {
        let RankView { words, tables } = self.rank;
        (self.ops.start..self.ops.end).map(move |at| OpView::new(words, &tables, at))
    }

    /// Returns the position of the block's first operation among all operations of its rank.
    #[inline]
    pub(super) fn first_op(&self) -> usize {
        self.ops.start
    }
}
