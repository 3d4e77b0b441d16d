//! Signals, waits, flushes, semaphores and barriers.

use super::Recorder;
use super::reduce::NOTHING;
use crate::diag::Code;
use crate::dsl::value::{ChannelValue, OpsValue, POISON};
use crate::plan::{Op, OpKind};
use crate::types::BlockSync;

impl Recorder {
    /// Records a signal, wait or flush.
    pub(in crate::dsl) fn channel_sync(&mut self, kind: OpKind, channel: ChannelValue, block: i128) -> OpsValue {
        if channel.src == POISON {
            return NOTHING;
        }
        let mut op = Op::new(kind, self.origin());
        op.channel = Some(channel.kind);
        op.ids.push(channel.id);
        op.sync = BlockSync::Both;
        self.record_on_block(channel.src, block, op)
    }

    /// Records a signal on each channel, in order, and then a wait on each. All channels are of one kind.
    pub(in crate::dsl) fn handshake(&mut self, channels: &[ChannelValue], block: i128) -> OpsValue {
        let known = channels.iter().filter(|channel| channel.src != POISON);
        let Some(first) = known.clone().next() else { return NOTHING };
        if let Some(other) = known.clone().find(|channel| channel.src != first.src) {
            let kind = first.kind;
            self.report_error(
                Code::WrongRank,
                format!(
                    "`handshake` expects channels of one rank, found a {kind} channel of rank {} to rank {} and a {kind} \
                     channel of rank {} to rank {}",
                    first.src, first.dst, other.src, other.dst
                ),
                format!("call `handshake` once for each rank, on the channels that `rank.{kind}_channels(peers)` returns"),
            );
            return NOTHING;
        }
        let Some(block) = self.block(block) else { return NOTHING };
        let (begin, origin) = (self.trace.ops.len() as u32, self.origin());
        // `Both` of the waits also synchronizes the block between signals and waits.
        for (kind, sync) in [(OpKind::Signal, BlockSync::Before), (OpKind::Wait, BlockSync::Both)] {
            for channel in known.clone() {
                let mut op = Op::new(kind, origin);
                op.channel = Some(channel.kind);
                op.ids.push(channel.id);
                op.sync = sync;
                self.push(channel.src, block, op);
            }
        }
        OpsValue { first: begin, count: self.trace.ops.len() as u32 - begin }
    }

    /// Records an acquire or release.
    pub(in crate::dsl) fn semaphore_op(&mut self, kind: OpKind, rank: u32, id: u32, block: i128) -> OpsValue {
        if rank == POISON {
            return NOTHING;
        }
        let mut op = Op::new(kind, self.origin());
        op.ids.push(id);
        op.sync = BlockSync::Both;
        self.record_on_block(rank, block, op)
    }

    /// Records a barrier of several thread blocks, or of the threads of one.
    pub(in crate::dsl) fn barrier(&mut self, rank: u32, blocks: &[i128]) {
        // That of a rejected rank, or of a program whose specification is.
        if rank as usize >= self.trace.ranks.len() {
            return;
        }
        let mut members = Vec::new();
        for &block in blocks {
            let Some(block) = self.block(block) else {
                return;
            };
            members.push(block);
        }
        let order = members.clone();
        members.sort_unstable();
        if let Some(pair) = members.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("thread block {} is named twice in a barrier of rank {rank}", pair[0]);
            self.report_error(Code::BadBarrier, message, "name every thread block once");
            return;
        }
        let count = members.len() as u32;
        if count == 0 {
            self.report_error(
                Code::EmptyList,
                format!("a barrier of rank {rank} has no thread blocks"),
                "name the thread blocks that take part",
            );
            return;
        }
        let origin = self.origin();
        if count == 1 {
            self.record_on_block(rank, i128::from(members[0]), Op::new(OpKind::Nop, origin));
            return;
        }
        let barriers = &mut self.trace.ranks[rank as usize].barriers;
        let number = barriers.iter().position(|known| *known == members).unwrap_or_else(|| {
            barriers.push(members);
            barriers.len() - 1
        });
        for block in order {
            let mut op = Op::new(OpKind::Barrier, origin);
            op.ids.push(number as u32);
            op.num_blocks = count;
            self.record_on_block(rank, i128::from(block), op);
        }
    }
}
