//! Operations that move data: copies, puts, gets and their packet forms.

use super::{Recorder, describe};
use crate::diag::Code;
use crate::dsl::args::At;
use crate::dsl::value::{ChannelValue, ChunkValue, POISON};
use crate::plan::{Count, Op, OpKind};
use crate::types::ChannelKind;

/// An operation that moves one chunk, within a rank or over a channel: its name in the API, what it records, and the end of its
/// destination.
pub(in crate::dsl) struct Transfer {
    call: &'static str,
    kind: OpKind,
    dst: End,
}

/// An end of a channel.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::dsl) enum End {
    Local,
    Remote,
}

impl Transfer {
    pub(in crate::dsl) const fn new(call: &'static str, kind: OpKind, dst: End) -> Self {
        Self { call, kind, dst }
    }
}

impl Recorder {
    /// The exchange of counts by one thread block.
    pub(in crate::dsl) fn exchange_counts(&mut self, rank: u32, block: i128) {
        if rank != POISON {
            let op = Op::new(OpKind::ExchangeCounts, self.origin());
            self.record_on_block(rank, block, op);
        }
    }

    /// Returns the count of what a rank sends to another one; `None` if one of them does not exist.
    pub(in crate::dsl) fn count(&mut self, sender: i128, receiver: i128) -> Option<Count> {
        let (sender, receiver) = (self.rank_number(sender), self.rank_number(receiver));
        (sender != POISON && receiver != POISON).then_some(Count { sender, receiver })
    }

    /// A copy within one rank.
    pub(in crate::dsl) fn local_move(
        &mut self,
        what: &Transfer,
        rank: u32,
        dst: ChunkValue,
        src: ChunkValue,
        count: Option<Count>,
        at: &At,
    ) {
        let call = what.call;
        let fits =
            self.chunk_of(call, (0, "its destination"), dst, rank) & self.chunk_of(call, (1, "its source"), src, rank);
        if !fits || !self.same_size(call, dst, src) {
            return;
        }
        let disjoint =
            dst.index >= src.index.saturating_add(src.size) || src.index >= dst.index.saturating_add(dst.size);
        if dst.buffer == src.buffer && !disjoint {
            self.report_error(
                Code::OverlappingCopy,
                format!("`{call}` reads {} and writes {}, which overlap", describe(src), describe(dst)),
                "use chunks that do not overlap, or copy through scratch",
            );
            return;
        }
        let mut op = Op::new(what.kind, self.origin());
        op.count = count;
        op.srcs.push(self.local(1, src));
        op.dsts.push(self.local(0, dst));
        self.record(rank, at, op);
    }

    /// A norm of the rows of a chunk, into the same chunk or another one.
    pub(in crate::dsl) fn row_norm(&mut self, rank: u32, dst: ChunkValue, src: ChunkValue, at: &At) {
        const CALL: &str = "row_norm";
        let fits =
            self.chunk_of(CALL, (0, "its destination"), dst, rank) & self.chunk_of(CALL, (1, "its source"), src, rank);
        if fits && self.same_size(CALL, dst, src) {
            let mut op = Op::new(OpKind::RowNorm, self.origin());
            op.srcs.push(self.local(1, src));
            op.dsts.push(self.local(0, dst));
            self.record(rank, at, op);
        }
    }

    /// A move over a port channel by one thread block.
    pub(in crate::dsl) fn port_move(
        &mut self,
        what: &Transfer,
        channel: ChannelValue,
        dst: ChunkValue,
        src: ChunkValue,
        block: i128,
    ) {
        self.channel_move(what, channel, dst, src, None, &At::Block(block));
    }

    /// A move over a channel.
    pub(in crate::dsl) fn channel_move(
        &mut self,
        what: &Transfer,
        channel: ChannelValue,
        dst: ChunkValue,
        src: ChunkValue,
        count: Option<Count>,
        at: &At,
    ) {
        let ChannelValue { kind, src: here, dst: peer, id } = channel;
        if here == POISON {
            return;
        }
        let to_remote = what.dst == End::Remote;
        let (dst_rank, src_rank) = if to_remote { (peer, here) } else { (here, peer) };
        if (dst.rank, src.rank) == (src_rank, dst_rank) {
            self.report_error(
                Code::WrongRank,
                format!(
                    "`{}` expects its destination on rank {dst_rank} and its source on rank {src_rank}, found {} and {}",
                    what.call,
                    describe(dst),
                    describe(src)
                ),
                "swap the two chunks: the destination is the first argument",
            );
            return;
        }
        let fits = self.chunk_of(what.call, (0, "its destination"), dst, dst_rank)
            & self.chunk_of(what.call, (1, "its source"), src, src_rank);
        if !fits || !self.same_size(what.call, dst, src) {
            return;
        }
        let mut op = Op::new(what.kind, self.origin());
        (op.channel, op.count) = (Some(kind), count);
        op.ids.push(id);
        if to_remote {
            op.srcs.push(self.local(1, src));
            let remote = self.remote(0, here, dst, kind);
            op.dsts.push(remote);
        } else {
            let remote = self.remote(1, here, src, ChannelKind::Memory);
            op.srcs.push(remote);
            op.dsts.push(self.local(0, dst));
        }
        self.record(here, at, op);
    }
}
