//! Operations on switch channels.

use super::Recorder;
use super::reduce::NOTHING;
use crate::diag::Code;
use crate::dsl::value::{ChunkValue, OpsValue, POISON, RangeValue, SwitchValue};
use crate::plan::{BufferRef, Op, OpKind, Operand};
use crate::types::{BufferKind, ChannelKind, ReduceOp};

impl Recorder {
    /// Binds a switch channel to one rank.
    pub(in crate::dsl) fn switch_at(&mut self, switch: SwitchValue, rank: i128) -> SwitchValue {
        let number = u32::try_from(rank).ok();
        let is_rejected = number.is_some_and(|number| self.is_rejected(number));
        // No rank is a member if the specification is rejected.
        let Some(known) = self.switches.get(switch.channel as usize).filter(|_| !self.trace.ranks.is_empty()) else {
            return SwitchValue { member: None, ..switch };
        };
        let is_member = |number: &u32| known.members.iter().any(|(member, _)| member == number);
        if let Some(number) = number.filter(|number| is_rejected || is_member(number)) {
            return SwitchValue { member: Some(number), ..switch };
        }
        let members: Vec<_> = known.members.iter().map(|(member, _)| *member).collect();
        self.report_error(
            Code::NotAMember,
            format!("rank {rank} is not a member of the switch channel over ranks {members:?}"),
            format!("add rank {rank} to the channel, or use one of its members"),
        );
        SwitchValue { member: None, ..switch }
    }

    /// Records a multicast load-reduce into a local chunk.
    pub(in crate::dsl) fn switch_reduce(
        &mut self,
        switch: SwitchValue,
        dst: ChunkValue,
        range: RangeValue,
        block: i128,
    ) -> OpsValue {
        let call = "reduce";
        let Some((rank, window)) = self.window(call, switch, range, (0, dst)) else {
            return NOTHING;
        };
        let mut op = self.switch_op(OpKind::SwitchReduce, window);
        op.reduce = Some(ReduceOp::Sum);
        op.srcs.push(window);
        op.dsts.push(self.local(0, dst));
        self.record_on_block(rank, block, op)
    }

    /// Records a multicast store of a local chunk.
    pub(in crate::dsl) fn switch_broadcast(
        &mut self,
        switch: SwitchValue,
        range: RangeValue,
        src: ChunkValue,
        block: i128,
    ) {
        self.store("broadcast", OpKind::SwitchBroadcast, switch, range, src, block);
    }

    /// Records a multicast store of packets.
    pub(in crate::dsl) fn switch_broadcast_packets(
        &mut self,
        switch: SwitchValue,
        range: RangeValue,
        src: ChunkValue,
        block: i128,
    ) {
        let buffer = self.switches.get(switch.channel as usize).map(|known| known.buffer);
        if let Some(buffer) = buffer.filter(|buffer| *buffer != BufferKind::Scratch) {
            self.report_error(
                Code::NotScratch,
                format!("`broadcast_packets` expects a switch channel over scratch, found one over {buffer}"),
                "create the channel with `BufferKind::Scratch`",
            );
            return;
        }
        self.store("broadcast_packets", OpKind::SwitchBroadcastPackets, switch, range, src, block);
    }

    fn store(
        &mut self,
        call: &str,
        kind: OpKind,
        switch: SwitchValue,
        range: RangeValue,
        src: ChunkValue,
        block: i128,
    ) {
        let Some((rank, window)) = self.window(call, switch, range, (1, src)) else {
            return;
        };
        let mut op = self.switch_op(kind, window);
        op.srcs.push(self.local(1, src));
        op.dsts.push(window);
        self.record_on_block(rank, block, op);
    }

    fn switch_op(&mut self, kind: OpKind, window: Operand) -> Op {
        let mut op = Op::new(kind, self.origin());
        op.channel = Some(ChannelKind::Switch);
        if let BufferRef::Switch(number) = window.buffer {
            op.ids.push(number);
        }
        op
    }

    /// Returns the executing rank and its operand for the channel's window, if the window is inside every member's
    /// buffer and as long as the local chunk.
    fn window(
        &mut self,
        call: &str,
        switch: SwitchValue,
        range: RangeValue,
        (position, local): (u8, ChunkValue),
    ) -> Option<(u32, Operand)> {
        let rank = switch.member.filter(|&rank| rank != POISON)?;
        if !self.chunk_of(call, (position.into(), "its local chunk"), local, rank) {
            return None;
        }
        let known = self.switches.get(switch.channel as usize)?;
        let buffer = known.buffer;
        let number = known.members.iter().find(|(member, _)| *member == rank)?.1;
        let shortest =
            known.members.iter().map(|&(member, _)| member).min_by_key(|&member| self.len(member, buffer))?;
        let len = self.len(shortest, buffer);
        let what = || format!("the switch channel's {buffer} of rank {shortest}, the smallest among its members");
        let (index, size) = self.range(what, len, range, "make that buffer larger")?;
        if size != local.size {
            let message = format!(
                "`{call}` expects equal numbers of local chunks and of chunks of the switch channel, found {} and \
                 {size}",
                local.size
            );
            self.report_error(Code::SizeMismatch, message, "use equal numbers of chunks");
            return None;
        }
        // The window is the other one of the first two arguments.
        Some((rank, self.operand(1 - position, BufferRef::Switch(number), index, size)))
    }

    fn len(&self, rank: u32, buffer: BufferKind) -> u32 {
        self.trace.ranks.get(rank as usize).map_or(0, |table| match buffer {
            BufferKind::Input => table.input_chunks,
            BufferKind::Output => table.output_chunks,
            BufferKind::Scratch => table.scratch_chunks,
        })
    }
}
