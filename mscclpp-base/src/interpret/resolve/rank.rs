//! Resolves a rank: its tables, its thread blocks, and the loops in them.

use mscclpp_core::plan::image::{BlockView, OpView, RankView};
use mscclpp_core::plan::raw::OpKind;
use mscclpp_core::types::ChannelKind;

use super::{At, BlockTables, Resolver};
use crate::error::Error;
use crate::interpret::program::{Block, Channel, Instr, Opcode, Semaphore, UNPAIRED};

impl Resolver {
    pub(super) fn rank(&mut self, rank: u32, view: &RankView<'_>) -> Result<(), Error> {
        self.tables(rank, view)?;
        let mut uses_port = false;
        for (number, block) in view.blocks().enumerate() {
            uses_port |= self.block(rank, number as u32, &block)?;
        }
        if uses_port {
            self.program.proxies.push(rank);
        }
        Ok(())
    }

    fn tables(&mut self, rank: u32, view: &RankView<'_>) -> Result<(), Error> {
        let here = |what: String| Error::InvalidPlan { path: format!("rank {rank}"), what };
        let (program, tables, ranks) = (&mut self.program, &mut self.tables, self.chunks.len() as u32);
        tables.remote.clear();
        tables.remote.extend(view.remote_buffers());
        if let Some(number) = tables.remote.iter().position(|buffer| buffer.rank >= ranks) {
            let found = tables.remote[number].rank;
            return Err(here(format!("remote buffer {number} belongs to rank {found} of {ranks} ranks")));
        }
        for (slot, kind) in [ChannelKind::Memory, ChannelKind::Port].into_iter().enumerate() {
            let first = program.channels.len() as u32;
            for (id, peer) in view.peers(kind).enumerate() {
                if peer >= ranks || peer == rank {
                    return Err(here(format!("{kind} channel {id} connects to rank {peer} of {ranks} ranks")));
                }
                program.channels.push(Channel { rank, kind, id: id as u32, peer, pair: UNPAIRED });
            }
            tables.channels[slot] = (first, program.channels.len() as u32 - first);
        }
        tables.switches.clear();
        tables.members.clear();
        for (id, (buffer, members)) in view.switch_channels().enumerate() {
            let first = tables.members.len();
            tables.members.extend(members);
            if let Some(member) = tables.members[first..].iter().find(|&&member| member >= ranks) {
                return Err(here(format!("switch channel {id} has member {member} of {ranks} ranks")));
            }
            tables.switches.push((buffer, first as u32, (tables.members.len() - first) as u32));
        }
        let first = program.semaphores.len() as u32;
        let semaphores = view.semaphores().enumerate();
        program.semaphores.extend(semaphores.map(|(id, initial)| Semaphore { id: id as u32, initial }));
        tables.semaphores = (first, program.semaphores.len() as u32 - first);
        tables.barriers.clear();
        Ok(())
    }

    /// Adds a block's operations, and returns whether one of them uses the proxy.
    fn block(&mut self, rank: u32, block: u32, view: &BlockView<'_>) -> Result<bool, Error> {
        let start = self.program.instrs.len() as u32;
        let mut of = BlockTables { rank, channels: [const { None }; 3], remote: [const { None }; 3] };
        for (kind, numbers) in view.channel_tables() {
            of.channels[kind as usize].get_or_insert(numbers);
        }
        for (kind, numbers) in view.remote_buffer_tables() {
            of.remote[kind as usize].get_or_insert(numbers);
        }
        // Flat index at which the current loop ends.
        let mut loop_end = 0;
        let mut uses_port = false;
        let ops = view.num_ops();
        for (op, view) in view.ops().enumerate() {
            let (op, kind) = (op as u32, view.kind());
            let at = At { rank, block, op, kind };
            if op == loop_end {
                self.window = None;
            }
            // Filled in place, because it is too large to pass around.
            self.program.instrs.push(Instr {
                kind,
                op,
                operands: self.program.operands.len() as u32,
                first_id: self.program.ids.len() as u32,
                ..Instr::NOP
            });
            if kind == OpKind::Pipeline {
                if op < loop_end {
                    return at.error("a pipeline inside a pipeline");
                }
                self.pipeline(at, &view, ops)?;
                let instr = self.last();
                loop_end = op + 1 + instr.body;
                self.window = Some(instr.unit);
            } else {
                uses_port |= self.op(at, &of, &view)?;
            }
        }
        self.window = None;
        let end = u32::try_from(self.program.instrs.len()).unwrap_or(u32::MAX);
        if end == u32::MAX {
            let what = "more than 2^32 operations on all ranks".into();
            return Err(Error::InvalidPlan { path: format!("rank {rank} / thread block {block}"), what });
        }
        if end > start {
            let proxy = self.program.proxies.len() as u32;
            self.program.agents.push(Block { rank, block, start, end, proxy });
        }
        Ok(uses_port)
    }

    fn pipeline(&mut self, at: At, view: &OpView<'_>, ops: u32) -> Result<(), Error> {
        let Some(header) = view.pipeline() else {
            return at.error("no body");
        };
        if header.unit == 0 {
            return at.error("a unit of 0 bytes, expected at least 1");
        }
        let left = ops - at.op - 1;
        if header.body_len > left {
            return at.error(format!("a body of {} operations, {left} follow", header.body_len));
        }
        self.program.loops.push(self.program.instrs.len() as u32 - 1);
        let instr = self.last();
        instr.action = Opcode::Loop;
        (instr.count, instr.body, instr.unit) = (header.num_chunks, header.body_len, header.unit);
        Ok(())
    }
}
