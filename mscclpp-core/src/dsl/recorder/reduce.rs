//! Reductions within a rank and over memory channels.

use super::{Recorder, chunks, describe};
use crate::diag::Code;
use crate::dsl::args::At;
use crate::dsl::value::{ChannelValue, ChunkValue, OpsValue, POISON};
use crate::plan::{Op, OpKind, Operand};
use crate::types::{ChannelKind, ReduceOp};

/// The result of a rejected call.
pub(super) const NOTHING: OpsValue = OpsValue { first: 0, count: 0 };

impl Recorder {
    /// Records a reduction of chunks of one rank, plain or packets.
    pub(in crate::dsl) fn local_reduce(
        &mut self,
        call: &str,
        kind: OpKind,
        rank: u32,
        acc: ChunkValue,
        others: &[ChunkValue],
        at: &At,
    ) -> OpsValue {
        if !self.operands_fit(call, rank, acc, rank, others) {
            return NOTHING;
        }
        let mut op = self.reduction(kind, acc);
        op.srcs.extend(others.iter().map(|&other| self.local(1, other)));
        self.record(rank, at, op)
    }

    /// Records a reduction of a peer's chunks into one of this rank.
    pub(in crate::dsl) fn read_reduce(
        &mut self,
        channel: ChannelValue,
        acc: ChunkValue,
        others: &[ChunkValue],
        at: &At,
    ) -> OpsValue {
        let ChannelValue { src: here, dst: peer, id, .. } = channel;
        if here == POISON || !self.operands_fit("reduce", here, acc, peer, others) {
            return NOTHING;
        }
        let mut op = self.reduction(OpKind::ReadReduce, acc);
        op.channel = Some(ChannelKind::Memory);
        op.ids.push(id);
        for &other in others {
            let remote: Operand = self.remote(1, here, other, ChannelKind::Memory);
            op.srcs.push(remote);
        }
        self.record(here, at, op)
    }

    /// Changes the destination of a reduction that was just recorded to another chunk of the same rank.
    pub(in crate::dsl) fn reduce_to(&mut self, ops: OpsValue, dst: ChunkValue) {
        let Some(recorded) = self.trace.ops.get(ops.first as usize).filter(|_| ops.count > 0) else {
            return;
        };
        let (rank, acc) = (recorded.rank, recorded.op.srcs[0]);
        if !self.chunk_of("reduce … to", (0, "its destination"), dst, rank) {
            return;
        }
        if acc.size != dst.size {
            let message =
                format!("`to` expects {}, the size of the accumulator, found {}", chunks(acc.size), describe(dst));
            self.report_error(Code::SizeMismatch, message, "use equal numbers of chunks");
            return;
        }
        let dst = self.local(0, dst);
        self.edit(ops, |op| op.dsts[0] = dst);
    }

    fn operands_fit(
        &mut self,
        call: &str,
        acc_rank: u32,
        acc: ChunkValue,
        others_rank: u32,
        others: &[ChunkValue],
    ) -> bool {
        if others.is_empty() {
            self.report_error(
                Code::EmptyList,
                format!("`{call}` has no chunks to reduce with"),
                "pass at least one chunk, or remove the call",
            );
            return false;
        }
        let mut fit = self.chunk_of(call, (0, "its accumulator"), acc, acc_rank);
        for &other in others {
            fit =
                self.chunk_of(call, (1, "its operand"), other, others_rank) && fit && self.same_size(call, acc, other);
        }
        fit
    }

    fn reduction(&mut self, kind: OpKind, acc: ChunkValue) -> Op {
        let mut op = Op::new(kind, self.origin());
        op.reduce = Some(ReduceOp::Sum);
        op.srcs.push(self.local(0, acc));
        op.dsts.push(self.local(0, acc));
        op
    }
}
