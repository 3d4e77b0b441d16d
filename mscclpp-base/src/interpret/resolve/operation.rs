//! Resolves an operation, and checks that it can be executed.

use std::ops::Range;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::image::OpView;
use mscclpp_core::plan::raw::{Flow, Function, OpClass, Packets};
use mscclpp_core::types::ChannelKind;

use super::{At, BlockTables, Resolver};
use crate::error::Error;
use crate::interpret::program::{Instr, Opcode, Space, Transfer};
use crate::layout::Shape;

impl Resolver {
    /// Resolves any operation other than a pipeline, and returns whether it uses the proxy.
    pub(super) fn op(&mut self, at: At, of: &BlockTables<'_>, view: &OpView<'_>) -> Result<bool, Error> {
        let action = at.kind.opcode(view.channel() == Some(ChannelKind::Port));
        match at.kind.class() {
            OpClass::BlockSync => Ok(false),
            OpClass::Barrier => self.barrier(at, view),
            OpClass::Signal { .. } | OpClass::Wait { .. } | OpClass::Flush => self.sync(at, action, of, view),
            OpClass::Acquire | OpClass::Release => self.semaphore(at, action, view),
            OpClass::Pipeline => at.error("no body"),
            OpClass::ExchangeCounts => {
                self.program.is_counted = true;
                self.last().action = action;
                Ok(false)
            }
            OpClass::Data(flow, _) => self.data(at, action, flow, of, view),
        }
    }

    fn data(
        &mut self,
        at: At,
        action: Opcode,
        flow: Flow,
        of: &BlockTables<'_>,
        view: &OpView<'_>,
    ) -> Result<bool, Error> {
        let srcs = self.operands(at, of, view, view.srcs(), at.kind.source_packets(view.channel()))?;
        if at.kind.is_reduce() && at.kind.srcs().packets == Packets::Rest && srcs > 0 {
            // The order of the reference executor: packets as listed, then the plain source.
            let first = self.program.operands.len() - srcs as usize;
            self.program.operands[first..].rotate_left(1);
        }
        let dsts = self.operands(at, of, view, view.dsts(), at.kind.dsts().packets)?;
        let instr = self.last();
        (instr.action, instr.srcs, instr.dsts) = (action, srcs, dsts);
        if let Some(slice) = view.slice() {
            if slice.index >= slice.count {
                return at.error(format!("slice {} of {} slices", slice.index, slice.count));
            }
            instr.slice = (slice.index, slice.count);
        }
        if at.kind.is_counted() {
            let Some(count) = view.count() else { return at.error("no count") };
            let (most, ranks) = (count.sender.max(count.receiver), self.program.shape.ranks);
            if most >= ranks {
                return at.error(format!("a count of rank {most} of {ranks} ranks"));
            }
            let instr = self.last();
            instr.counted = Some(count);
            let sizes = (srcs, dsts);
            self.program.is_counted = true;
            if sizes != (1, 1) {
                return at.error(format!("{srcs} sources and {dsts} destinations, expected one of each"));
            }
        }
        if at.kind.function() == Some(Function::RowNorm) && !self.program.shape.collective.rows {
            return at.error("a row norm in a plan without rows");
        }
        if at.kind.function() == Some(Function::RowNorm) {
            self.check_rows(at)?;
        }
        let instr = self.last();
        if at.kind.is_reduce() {
            instr.reduce = view.reduce().unwrap_or_default();
            let bit = 1 << instr.reduce as u8;
            self.reductions |= bit;
        }
        if let Opcode::Port { signal: true, .. } = action {
            let ids = self.channel_ids(at, ChannelKind::Port, of, view)?;
            self.last().ids = ids;
            if ids != srcs {
                return at.error(format!("{ids} channels for {srcs} transfers"));
            }
        }
        self.check_sizes(at, flow)?;
        self.record_scratch_use();
        Ok(matches!(action, Opcode::Port { .. } | Opcode::PortForward))
    }

    /// Checks that a row norm writes to rows for which the rank passes operands, and reads as many as it writes.
    fn check_rows(&mut self, at: At) -> Result<(), Error> {
        let instr = *self.last();
        let program = &self.program;
        let Shape { collective, ranks, output, .. } = program.shape;
        let pairs = program.srcs(&instr).iter().zip(program.dsts(&instr));
        let part = output / ranks.max(1);
        for (src, dst) in pairs {
            let own = dst.rank * part..(dst.rank + 1) * part;
            let is_own = own.start <= dst.index && dst.index.saturating_add(dst.size) <= own.end;
            if collective.kind == CollectiveKind::AllGather && dst.space == Space::Output && !is_own {
                let (found, Range { start, end }) = (dst.index, own);
                return at.error(format!("a row norm of output chunk {found}, expected one of {start}..{end}"));
            }
            let is_custom = matches!(collective.kind, CollectiveKind::Custom { .. });
            if is_custom && src.space.is_callers() && dst.space.is_callers() && src.index > dst.index {
                let found = format!("a row norm of chunk {} into chunk {}, which is longer", src.index, dst.index);
                return at.error(found);
            }
        }
        Ok(())
    }

    /// Checks that the operands of each pair have equal sizes, and all operands of an operation that combines or
    /// forwards.
    fn check_sizes(&mut self, at: At, flow: Flow) -> Result<(), Error> {
        let instr = *self.last();
        let (srcs, dsts) = (self.program.srcs(&instr), self.program.dsts(&instr));
        if srcs.is_empty() || dsts.is_empty() {
            return at.error(format!("{} sources and {} destinations, expected both", srcs.len(), dsts.len()));
        }
        let pairs = flow == Flow::Pairs;
        if pairs && srcs.len() != dsts.len() {
            return at.error(format!("{} sources for {} destinations", srcs.len(), dsts.len()));
        }
        if matches!(instr.action, Opcode::Transfer(Transfer::Forward) | Opcode::PortForward) && srcs.len() != 1 {
            return at.error(format!("{} sources, expected 1", srcs.len()));
        }
        let differs = if pairs {
            srcs.iter().zip(dsts).find(|(src, dst)| src.size != dst.size)
        } else {
            srcs.iter().chain(dsts).find(|operand| operand.size != srcs[0].size).map(|operand| (&srcs[0], operand))
        };
        match differs {
            Some((one, other)) => {
                at.error(format!("operands of {} and {} chunks, expected equal sizes", one.size, other.size))
            }
            None => Ok(()),
        }
    }

    /// Records which memories an operation uses, and how.
    fn record_scratch_use(&mut self) {
        let Instr { operands, srcs, slice, .. } = *self.last();
        let program = &mut self.program;
        let (srcs, dsts) = program.operands[operands as usize..].split_at(srcs as usize);
        let plain = srcs.iter().chain(dsts).any(|operand| operand.space == Space::Scratch);
        let packets = srcs.iter().chain(dsts).any(|operand| operand.space == Space::Packets);
        program.writes_input |= dsts.iter().any(|operand| operand.space == Space::Input);
        for operand in dsts.iter().filter(|operand| matches!(operand.space, Space::Input | Space::Output)) {
            program.written[operand.rank as usize] = true;
        }
        program.plain_scratch |= plain;
        program.shape.packets |= packets;
        if plain || packets {
            // Only plain data in windows of whole operands can wrap.
            let whole = slice.1 <= 1 && !packets;
            program.windowed_scratch = match (program.windowed_scratch, self.window) {
                (Some(largest), Some(window)) if whole => Some(largest.max(window)),
                _ => None,
            };
        }
    }
}
