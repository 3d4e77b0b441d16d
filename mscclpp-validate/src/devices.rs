//! The plan that the CUDA executor runs on several devices: the plan's operations, and the launch barriers around them.
//!
//! A device barrier synchronizes thread blocks of all ranks on a device, which no barrier of a plan does. It is written
//! as a barrier of each rank's blocks, signals between the first block of each rank, and a second barrier of each
//! rank's blocks.
//!
//! All ranks on a device run in one kernel: they start and end together, which is written as a device barrier before
//! and after all other operations.
//!
//! Where devices start without a barrier, their signals at the start are relaxed and waited for at the end.
//!
//! On several nodes, the devices of one node synchronize. Data from other nodes passes through the host's proxies, to
//! which the device marks the start and the end of a launch: those marks must be the first and the last operations of a
//! device.

use std::collections::BTreeMap;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::origin::Origin;
use mscclpp_core::plan::raw::{BufferRef, Op, OpKind, Operand, PlanTree, ThreadBlock};
use mscclpp_core::types::{BufferKind, ChannelKind, Protocol, ReduceOp};

use super::launches::on_nodes;
use super::operations::{Item, Reader};
use super::tree::{copy, in_table, memory_channels, remote, sync};
use super::{DeviceLaunch, ValidationError};
use mscclpp_base::interpret::program::{Channel, Instr};
use mscclpp_base::interpret::{Block, Opcode, ResolvedPlan};

/// Operations between the launch barriers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// The plan's operations.
    Plan,
    /// Accesses of every thread block to the buffers of all other ranks of its node.
    Probes,
    /// Such accesses after a barrier of all thread blocks of the node, which no pass has added.
    ProbesAfterBarrier,
    /// One access to scratch of one rank of its node by every thread block whose number, divided by [`GROUP`], is one
    /// of the two; each accesses another chunk.
    Scratch([u32; 2]),
    /// The same with packets in double scratch.
    DoubleScratch([u32; 2]),
}

/// Number of thread blocks whose accesses to scratch are compared at a time with those of as many others: the checker
/// limits the number of pairs of accesses that it compares.
pub(super) const GROUP: u32 = 256;

pub(super) struct Writer<'p> {
    plan: &'p PlanTree,
    program: &'p ResolvedPlan,
    launch: &'p DeviceLaunch,
    tree: PlanTree,
    body: Body,
    /// By channel that the pass has added: its number on its rank.
    channels: BTreeMap<u32, u32>,
    /// By barrier that the pass has added.
    barriers: BTreeMap<u32, DeviceBarrier>,
    /// The first number that no barrier of the plan has.
    first_barrier: u32,
}

/// A barrier of thread blocks of several ranks.
#[derive(Default)]
struct DeviceBarrier {
    /// By rank: its thread blocks, in ascending order.
    blocks: BTreeMap<u32, Vec<u32>>,
    /// By pair of ranks: the number of the first one's channel to the second.
    channels: BTreeMap<(u32, u32), u32>,
}

impl<'p> Writer<'p> {
    /// Returns the plan as executed, or with another body.
    ///
    /// # Errors
    /// [`ValidationError::Changed`], [`ValidationError::TooLarge`].
    pub(super) fn write(
        plan: &'p PlanTree,
        program: &'p ResolvedPlan,
        launch: &'p DeviceLaunch,
        body: Body,
    ) -> Result<PlanTree, ValidationError> {
        let node_of: Vec<u32> = launch.devices.iter().map(|&device| launch.nodes[device as usize]).collect();
        let mut writer = Self {
            plan,
            program,
            launch,
            tree: on_nodes(plan, &node_of),
            body,
            channels: BTreeMap::new(),
            barriers: BTreeMap::new(),
            first_barrier: next_barrier(plan)?,
        };
        writer.read_barriers()?;
        if body != Body::Plan {
            writer.prepare_probes()?;
        }
        let mut reader = Reader::new(plan, program);
        let mut seen = vec![0; plan.ranks.len()];
        for code in &program.agents {
            let rank = code.rank as usize;
            let tables = writer.tree.ranks.get_mut(rank).ok_or_else(|| place(code, "is of no rank"))?;
            while tables.blocks.len() <= code.block as usize {
                tables.blocks.push(ThreadBlock::default());
            }
            seen[rank] += 1;
            writer.block(&mut reader, code)?;
        }
        for rank in (0..).zip(&seen).filter(|(_, seen)| **seen == 0).map(|(rank, _)| rank) {
            writer.idle(rank);
        }
        // A device whose ranks have no operations gets a thread block for its barriers.
        let expected = plan.ranks.iter().map(|rank| rank.blocks.iter().filter(|block| !block.ops.is_empty()).count());
        if let Some((rank, _)) = expected.zip(seen).enumerate().find(|(_, (expected, seen))| seen < expected) {
            return Err(ValidationError::changed(format!("rank {rank}"), "does not execute its thread blocks"));
        }
        Ok(writer.tree)
    }

    /// Returns the number of operations of a block in the plan, including those of loops.
    fn len(&self, code: &Block) -> u32 {
        let rank = self.plan.ranks.get(code.rank as usize);
        let ops = rank.and_then(|rank| rank.blocks.get(code.block as usize)).map_or(&[][..], |block| &block.ops);
        ops.iter().map(|op| 1 + op.body.as_ref().map_or(0, |body| body.ops.len() as u32)).sum()
    }

    /// Returns the instructions of a block that the pass has added before and after the plan's.
    fn added(&self, code: &Block) -> Result<[std::ops::Range<u32>; 2], ValidationError> {
        let len = self.len(code);
        let is_added = |at: &u32| self.program.instrs.get(*at as usize).is_some_and(|instr| instr.op >= len);
        let before = code.start + (code.start..code.end).take_while(is_added).count() as u32;
        let after = code.end - (before..code.end).rev().take_while(is_added).count() as u32;
        if after - before != len {
            return Err(place(code, "does not execute the plan's operations and nothing else"));
        }
        if len > 0 {
            return Ok([code.start..before, after..code.end]);
        }
        // The operations added at the end begin with a barrier, the last one. Without one, it does not matter to which end they
        // belong.
        let mut barriers = (code.start..code.end).rev();
        let last = barriers.find(|&at| self.program.instrs[at as usize].action == Opcode::Barrier);
        let middle = last.unwrap_or(code.end);
        Ok([code.start..middle, middle..code.end])
    }

    fn read_barriers(&mut self) -> Result<(), ValidationError> {
        let mut counts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for code in &self.program.agents {
            let mut own = Vec::new();
            for at in self.added(code)?.into_iter().flatten() {
                let instr = &self.program.instrs[at as usize];
                if instr.action != Opcode::Barrier {
                    continue;
                }
                let &[id] = self.program.ids(instr) else { return Err(place(code, "has a barrier without a number")) };
                let (count, blocks) = counts.entry(id).or_insert((instr.count, 0));
                if *count != instr.count {
                    return Err(place(code, "has a barrier with other thread blocks than the operations next to it"));
                }
                if !own.contains(&id) {
                    own.push(id);
                    *blocks += 1;
                    self.barriers.entry(id).or_default().blocks.entry(code.rank).or_default().push(code.block);
                }
            }
        }
        if let Some((id, (count, blocks))) = counts.iter().find(|(_, (count, blocks))| count != blocks) {
            return Err(ValidationError::changed(
                format!("barrier {id}"),
                format!("expects {count} thread blocks, but {blocks} use it"),
            ));
        }
        self.read_kernels();
        for barrier_ranks in self.barriers.values_mut() {
            let ranks: Vec<u32> = barrier_ranks.blocks.keys().copied().collect();
            for (number, &one) in ranks.iter().enumerate() {
                for &other in &ranks[number + 1..] {
                    let [to, from] = memory_channels(&mut self.tree, one, other);
                    barrier_ranks.channels.insert((one, other), to);
                    barrier_ranks.channels.insert((other, one), from);
                }
            }
        }
        Ok(())
    }

    /// Adds further barriers for the start and end of kernels of several ranks, and for all thread blocks of a node.
    fn read_kernels(&mut self) {
        for (rank, &device) in (0..).zip(&self.launch.devices) {
            let own = self.program.agents.iter().filter(|code| code.rank == rank).map(|code| code.block);
            let mut own: Vec<u32> = own.collect();
            if own.is_empty() {
                own.push(0);
            }
            if self.launch.devices.iter().filter(|other| **other == device).count() > 1 {
                let kernel = self.kernel(rank);
                self.barriers.entry(kernel).or_default().blocks.insert(rank, own.clone());
            }
            if self.body == Body::ProbesAfterBarrier {
                let node = self.node(rank);
                self.barriers.entry(node).or_default().blocks.insert(rank, own);
            }
        }
    }

    /// Returns the barrier that represents the start and the end of a rank's kernel.
    fn kernel(&self, rank: u32) -> u32 {
        self.program.barriers.len() as u32 + self.launch.devices[rank as usize]
    }

    /// Returns the barrier of all thread blocks of a rank's node, if there is one.
    fn node(&self, rank: u32) -> u32 {
        (self.program.barriers.len() + self.launch.nodes.len()) as u32 + self.node_of(rank)
    }

    fn node_of(&self, rank: u32) -> u32 {
        self.launch.nodes[self.launch.devices[rank as usize] as usize]
    }

    fn block(&mut self, reader: &mut Reader<'p>, code: &Block) -> Result<(), ValidationError> {
        let [before, after] = self.added(code)?;
        let mut ops = Vec::new();
        self.device_barrier(code, self.kernel(code.rank), &mut ops);
        self.launch_barrier(code, before.clone(), false, &mut ops)?;
        match self.body {
            Body::Plan if self.len(code) == 0 => {}
            Body::Plan => {
                let body = Block { start: before.end, end: after.start, ..*code };
                let items = reader.block(&body)?;
                if items.iter().map(|item: &Item<'_>| 1 + item.body.len() as u32).sum::<u32>() != self.len(code) {
                    return Err(place(code, "does not execute all operations of the plan"));
                }
                ops.extend(items.iter().map(|item| item.op.clone()));
            }
            Body::Probes => self.probes(code, &mut ops),
            Body::ProbesAfterBarrier => {
                self.device_barrier(code, self.node(code.rank), &mut ops);
                self.probes(code, &mut ops);
            }
            Body::Scratch(groups) | Body::DoubleScratch(groups) => self.scratch_probe(code, groups, &mut ops),
        }
        self.launch_barrier(code, after, true, &mut ops)?;
        self.device_barrier(code, self.kernel(code.rank), &mut ops);
        self.tree.ranks[code.rank as usize].blocks[code.block as usize].ops = ops;
        Ok(())
    }

    /// Writes a rank without operations, which starts and ends with its kernel.
    fn idle(&mut self, rank: u32) {
        let code = Block { rank, block: 0, start: 0, end: 0, proxy: 0 };
        if self.tree.ranks[rank as usize].blocks.is_empty() {
            self.tree.ranks[rank as usize].blocks.push(ThreadBlock::default());
        }
        let mut ops = Vec::new();
        for barrier in [self.kernel(rank), self.node(rank), self.kernel(rank)] {
            self.device_barrier(&code, barrier, &mut ops);
        }
        self.tree.ranks[rank as usize].blocks[0].ops = ops;
    }

    /// Writes the operations that the pass has added at one end of a thread block.
    fn launch_barrier(
        &mut self,
        code: &Block,
        range: std::ops::Range<u32>,
        is_end: bool,
        ops: &mut Vec<Op>,
    ) -> Result<(), ValidationError> {
        for at in range.clone() {
            let instr = self.program.instrs[at as usize];
            match instr.action {
                Opcode::Signal { relaxed: false } => self.channel_ops(code, &instr, OpKind::Signal, ops)?,
                Opcode::Signal { relaxed: true } => self.channel_ops(code, &instr, OpKind::RelaxedSignal, ops)?,
                Opcode::Wait { relaxed: false } => self.channel_ops(code, &instr, OpKind::Wait, ops)?,
                Opcode::Barrier => self.device_barrier(code, self.program.ids(&instr)[0], ops),
                // The mark at the start precedes all else; the one at the end, and a flush for it, follow all else.
                Opcode::PortSignal | Opcode::Flush => {
                    let own = |channel: &Channel| channel.rank == code.rank && channel.peer == code.rank;
                    let ids = self.program.ids(&instr);
                    let is_mark = ids.iter().all(|&id| self.program.channels.get(id as usize).is_some_and(own));
                    let is_outermost = if is_end { at + 2 >= range.end } else { at == range.start };
                    if !is_mark || !is_outermost || instr.action == Opcode::Flush && !is_end {
                        return Err(place(code, "does not mark the start and end of a launch for the proxy"));
                    }
                }
                _ => return Err(place(code, "executes operations that are neither the plan's nor a launch barrier's")),
            }
        }
        Ok(())
    }

    fn channel_ops(
        &mut self,
        code: &Block,
        instr: &Instr,
        kind: OpKind,
        ops: &mut Vec<Op>,
    ) -> Result<(), ValidationError> {
        let program = self.program;
        for &id in program.ids(instr) {
            let channel = program.channels.get(id as usize);
            let pair = channel.and_then(|channel| program.channels.get(channel.pair as usize));
            let (Some(channel), Some(pair)) = (channel, pair) else {
                return Err(place(code, "signals on a channel without a peer"));
            };
            let ends = (channel.rank, channel.peer, pair.pair) == (code.rank, pair.rank, id);
            if !ends || channel.kind != ChannelKind::Memory {
                return Err(place(code, "signals on a channel of other ranks"));
            }
            let number = match self.channels.get(&id) {
                Some(&number) => number,
                None => {
                    let [own, other] = memory_channels(&mut self.tree, channel.rank, channel.peer);
                    self.channels.extend([(id, own), (channel.pair, other)]);
                    own
                }
            };
            self.push(code, kind, number, ops);
        }
        Ok(())
    }

    fn push(&mut self, code: &Block, kind: OpKind, channel: u32, ops: &mut Vec<Op>) {
        let tables = &mut self.tree.ranks[code.rank as usize].blocks[code.block as usize].channels;
        ops.push(sync(kind, Some(ChannelKind::Memory), in_table(tables, ChannelKind::Memory, channel)));
    }

    fn device_barrier(&mut self, code: &Block, id: u32, ops: &mut Vec<Op>) {
        let Some(barrier_ranks) = self.barriers.get(&id) else { return };
        let blocks = &barrier_ranks.blocks[&code.rank];
        let mut barrier = sync(OpKind::Barrier, None, self.first_barrier + id);
        barrier.num_blocks = blocks.len() as u32;
        let channels =
            barrier_ranks.channels.iter().filter(|((from, _), _)| *from == code.rank).map(|(_, &channel)| channel);
        let channels: Vec<u32> = channels.collect();
        let is_leader = blocks.first() == Some(&code.block);
        ops.push(barrier.clone());
        if barrier_ranks.blocks.len() > 1 {
            for kind in [OpKind::Signal, OpKind::Wait] {
                channels.iter().filter(|_| is_leader).for_each(|&channel| self.push(code, kind, channel, ops));
            }
            ops.push(barrier);
        }
    }

    /// Reduces the plan to its ranks, thread blocks and channels.
    fn prepare_probes(&mut self) -> Result<(), ValidationError> {
        let blocks = u32::try_from(self.program.agents.len()).map_err(|_| ValidationError::TooLarge)?;
        let ranks = self.tree.ranks.len() as u32;
        let tree = &mut self.tree;
        tree.collective.kind = CollectiveKind::Test { input: 1, output: blocks };
        (tree.collective.in_place, tree.collective.rows) = (false, false);
        (tree.double_scratch, tree.reuse_resources) = (matches!(self.body, Body::DoubleScratch(_)), false);
        if tree.double_scratch {
            tree.protocol = Protocol::LL;
        }
        tree.expectations.clear();
        for tables in &mut tree.ranks {
            (tables.input_chunks, tables.output_chunks) = (1, blocks);
            tables.scratch_chunks = blocks.checked_mul(ranks).ok_or(ValidationError::TooLarge)?;
            tables.blocks.iter_mut().for_each(|block| block.ops.clear());
        }
        Ok(())
    }

    /// Reads the input of every other rank of the node, and writes to its output.
    fn probes(&mut self, code: &Block, ops: &mut Vec<Op>) {
        let ranks = self.tree.ranks.len() as u32;
        let node = self.node_of(code.rank);
        let others: Vec<u32> = (0..ranks).filter(|&rank| rank != code.rank && self.node_of(rank) == node).collect();
        let number = self.number(code);
        let tables = &mut self.tree.ranks[code.rank as usize];
        let mut block = std::mem::take(&mut tables.blocks[code.block as usize]);
        for other in others {
            let mut at = |buffer, index| {
                let place = remote(tables, &mut block, ChannelKind::Memory, (other, buffer));
                Operand::new(BufferRef::Remote(place), index, 1)
            };
            let own = Operand::local(BufferKind::Input, 0, 1);
            let mut read = Op::new(OpKind::ReadReduce, Origin::UNKNOWN);
            (read.channel, read.reduce) = (Some(ChannelKind::Memory), Some(ReduceOp::Sum));
            read.srcs.extend([own, at(BufferKind::Input, 0)]);
            read.dsts.push(Operand::local(BufferKind::Scratch, number * ranks + other, 1));
            let mut write = Op::new(OpKind::Put, Origin::UNKNOWN);
            write.channel = Some(ChannelKind::Memory);
            write.srcs.push(own);
            write.dsts.push(at(BufferKind::Output, number));
            ops.extend([read, write]);
        }
        tables.blocks[code.block as usize] = block;
    }

    /// Writes to scratch of the first rank of the node.
    fn scratch_probe(&mut self, code: &Block, groups: [u32; 2], ops: &mut Vec<Op>) {
        let number = self.number(code);
        if !groups.contains(&(number / GROUP)) {
            return;
        }
        let (node, ranks) = (self.node_of(code.rank), self.tree.ranks.len() as u32);
        let owner = (0..ranks).find(|&rank| self.node_of(rank) == node).unwrap_or(code.rank);
        let own = Operand::local(BufferKind::Input, 0, 1);
        let is_double = self.tree.double_scratch;
        if owner == code.rank {
            let copy = copy(own, Operand::local(BufferKind::Scratch, number, 1));
            ops.push(if is_double { Op { kind: OpKind::CopyPackets, ..copy } } else { copy });
            return;
        }
        let tables = &mut self.tree.ranks[code.rank as usize];
        let mut block = std::mem::take(&mut tables.blocks[code.block as usize]);
        let place = remote(tables, &mut block, ChannelKind::Memory, (owner, BufferKind::Scratch));
        tables.blocks[code.block as usize] = block;
        let mut write = Op::new(if is_double { OpKind::PutPackets } else { OpKind::Put }, Origin::UNKNOWN);
        write.channel = Some(ChannelKind::Memory);
        write.srcs.push(own);
        write.dsts.push(Operand::new(BufferRef::Remote(place), number, 1));
        ops.push(write);
    }

    /// Returns the index of a thread block in the resolved plan.
    fn number(&self, code: &Block) -> u32 {
        let key = (code.rank, code.block);
        self.program.agents.iter().take_while(|other| (other.rank, other.block) != key).count() as u32
    }
}

fn place(code: &Block, what: &str) -> ValidationError {
    ValidationError::changed(format!("rank {} / thread block {}", code.rank, code.block), what)
}

/// Returns a number above those of all barriers, which the pass's barriers may follow.
fn next_barrier(plan: &PlanTree) -> Result<u32, ValidationError> {
    let blocks = plan.ranks.iter().flat_map(|rank| &rank.blocks);
    let ops = blocks.flat_map(|block| &block.ops);
    let all = ops.flat_map(|op| std::iter::once(op).chain(op.body.iter().flat_map(|body| &body.ops)));
    let barriers = all.filter(|op| op.kind == OpKind::Barrier).flat_map(|op| &op.ids);
    let next = barriers.max().map_or(0, |&id| u64::from(id) + 1);
    u32::try_from(next).ok().filter(|next| *next < 1 << 31).ok_or(ValidationError::TooLarge)
}
