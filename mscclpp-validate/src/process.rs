//! The plan that the process executor runs: the operations that the passes kept, on the memory that they chose, with
//! the launch protocol as operations of two additional thread blocks per rank.
//!
//! The protocol is that of `process::launch` and `process::launch_loop`. On every rank:
//!
//! 1. **start.** The launch copies the parts that peers access of slices that are not shared (`copy_in`), then
//!    announces its start, and runs the rank's thread blocks.
//! 2. **opening.** Once all `awaited` peers have announced theirs, operations with `accesses_peer_buffers` may run:
//!    each thread block waits before its first one, in a loop in every iteration.
//! 3. **finish.** Once every thread block has passed the instruction that `last_peer_access` names, and has left a loop
//!    around it, and the rank's port channels are drained, the launch announces that it has finished.
//! 4. **end.** Once all thread blocks have finished and the port channels are drained, the launch waits for the peers
//!    in `finishes`, except where they read only lasting copies; then it copies the data that peers wrote (`copy_out`).
//!
//! A connection between nodes delivers what is sent in a launch when the receiver has started the launch. A wait for the
//! start of a rank that is executed after operations that send to it is therefore written before them, and one that is not executed
//! is written too, with the signal for it (`openings`), as in the plan.
//!
//! Relaxed signals and waits publish on the CPU as others do, so they are written as those.
//!
//! A first block does 1 and 2, a second one 3 and 4: a rank can finish before the opening. Nothing else that the
//! executor does orders operations of two ranks or of two thread blocks, so nothing else is written.

use std::ops::Range;

use mscclpp_core::collective::Collective;
use mscclpp_core::plan::{
    self,
    raw::{BufferRef, Op, OpKind, PlanTree, ThreadBlock},
};
use mscclpp_core::types::{BufferKind, ChannelKind};

use super::launches::on_nodes;
use super::operations::{Elided, Item, Reader, resolve};
use super::own_packets::listed;
use super::tree::{acquire, copy, in_table, memory_channels, nop, release, remote, semaphore, sync};
use super::{ProcessLaunch, Sharing, ValidationError};
use mscclpp_base::error::path;
use mscclpp_base::interpret::{Block, Operand, Space};
use mscclpp_base::passes::RankSchedule;
use mscclpp_base::passes::place_in_caller_memory::SLOTS;

/// Operations of the launch protocol in a rank's thread blocks.
struct Protocol {
    /// Numbers of the two added thread blocks.
    first: usize,
    second: usize,
    /// By thread block that has operations: its number, and its semaphores.
    blocks: Vec<(usize, Semaphores)>,
    /// Port channels to which the rank puts.
    ports: Vec<u32>,
}

#[derive(Clone, Copy, Default)]
struct Semaphores {
    /// The copies before the launch are made.
    copied: Option<u32>,
    /// The awaited peers have started; and whether the semaphore keeps a unit at the end.
    open: Option<(u32, bool)>,
    /// No operation remains for which peers wait.
    passed: Option<u32>,
    /// No operation remains.
    done: Option<u32>,
}

pub(super) struct Writer<'p> {
    plan: &'p PlanTree,
    schedules: &'p [RankSchedule],
    nodes: &'p [u32],
    sharing: &'p [[Sharing; SLOTS]],
    tree: PlanTree,
    /// By rank and slot: first scratch chunk of the copy that peers access.
    copies: Vec<[Option<u32>; SLOTS]>,
    elided: Elided,
}

impl<'p> Writer<'p> {
    /// Returns the plan as executed.
    ///
    /// # Errors
    /// [`ValidationError::Changed`], [`ValidationError::TooLarge`].
    pub(super) fn write(
        plan: &'p PlanTree,
        schedules: &'p [RankSchedule],
        launch: &'p ProcessLaunch,
    ) -> Result<PlanTree, ValidationError> {
        let copies = vec![[None; SLOTS]; plan.ranks.len()];
        let tree = on_nodes(plan, &launch.nodes);
        let mut writer = Self {
            plan,
            schedules,
            nodes: &launch.nodes,
            sharing: &launch.sharing,
            tree,
            copies,
            elided: Elided::default(),
        };
        if !launch.waits_move_connections {
            writer.check_progress()?;
        }
        writer.add_copies()?;
        let mut protocols = Vec::with_capacity(plan.ranks.len());
        for rank in 0..plan.ranks.len() as u32 {
            protocols.push(writer.rank(rank)?);
        }
        if writer.elided.waits != writer.elided.signals {
            let what = format!("elides signals and waits that do not match: {:?}", writer.elided);
            return Err(ValidationError::changed("the whole plan", what));
        }
        writer.exchange(&protocols)?;
        Ok(writer.tree)
    }

    /// Fails where progress relies on a wait at the end of a launch that serves the connections to other nodes: a rank
    /// waits there while ranks on other nodes may have data for it. These ranks cannot send the data before it is
    /// received, nor later data to other ranks, for which the rank may wait.
    fn check_progress(&self) -> Result<(), ValidationError> {
        for (from, schedule) in self.schedules.iter().enumerate() {
            let codes = schedule.program.agents.get(schedule.agents.clone()).unwrap_or_default();
            let instrs = codes.iter().flat_map(|code| code.start..code.end);
            let instrs = instrs.filter_map(|at| schedule.program.instrs.get(at as usize));
            for to in instrs.filter(|instr| instr.action.is_port()).flat_map(|instr| schedule.program.dsts(instr)) {
                let to = to.rank as usize;
                let waits = self.schedules[to].finishes.contains(&true) && !self.lasts(to);
                if waits && self.nodes[to] != self.nodes[from] {
                    let what = format!(
                        "waits for peers at the end of a launch without polling its connections, while rank {from} \
                         may send to it"
                    );
                    return Err(ValidationError::changed(format!("rank {to}"), what));
                }
            }
        }
        Ok(())
    }

    /// Adds scratch for the copies that peers access, after the bytes of the plan's own: a chunk of packets has those of two plain
    /// chunks.
    fn add_copies(&mut self) -> Result<(), ValidationError> {
        for (rank, schedule) in self.schedules.iter().enumerate() {
            let tables = &mut self.tree.ranks[rank];
            let own = tables.scratch_chunks.checked_mul(if schedule.program.shape.packets { 2 } else { 1 });
            let mut next = own.ok_or(ValidationError::TooLarge)?;
            for slot in 0..SLOTS {
                if schedule.placement.peers_access[slot] && self.sharing[rank][slot] != Sharing::Registered {
                    let chunks = match (self.plan.collective.in_place, slot) {
                        (true, _) => tables.input_chunks.max(tables.output_chunks),
                        (false, 0) => tables.input_chunks,
                        (false, _) => tables.output_chunks,
                    };
                    self.copies[rank][slot] = Some(next);
                    next = next.checked_add(chunks).ok_or(ValidationError::TooLarge)?;
                    tables.scratch_chunks = next;
                }
            }
        }
        Ok(())
    }

    fn rank(&mut self, rank: u32) -> Result<Protocol, ValidationError> {
        let schedule = &self.schedules[rank as usize];
        let mut reader = Reader::new(self.plan, &schedule.program).on_nodes(self.nodes);
        let codes = schedule.program.agents.get(schedule.agents.clone()).unwrap_or_default();
        let blocks = &self.plan.ranks[rank as usize].blocks;
        let expected = (0..).zip(blocks).filter(|(_, block)| !block.ops.is_empty()).map(|(number, _)| (rank, number));
        if !codes.iter().map(|code| (code.rank, code.block)).eq(expected) {
            return Err(ValidationError::changed(format!("rank {rank}"), "does not execute its thread blocks"));
        }
        let mut protocol = Protocol {
            first: blocks.len(),
            second: blocks.len() + 1,
            blocks: Vec::with_capacity(codes.len()),
            ports: ports(self.plan, rank),
        };
        for (code, &last) in codes.iter().zip(&schedule.last_peer_access) {
            let items = reader.block(code)?;
            let semaphores = self.block(&reader, code, last, &items)?;
            protocol.blocks.push((code.block as usize, semaphores));
        }
        self.elided.waits.append(&mut reader.elided.waits);
        self.elided.signals.append(&mut reader.elided.signals);
        if schedule.last_peer_access.len() != codes.len() {
            return Err(ValidationError::changed(format!("rank {rank}"), "tracks another number of thread blocks"));
        }
        let added = [ThreadBlock::default(), ThreadBlock::default()];
        self.tree.ranks[rank as usize].blocks.extend(added);
        Ok(protocol)
    }

    /// Writes the operations of a thread block, with the semaphores that it acquires and releases.
    fn block(
        &mut self,
        reader: &Reader<'p>,
        code: &Block,
        last: Option<u32>,
        items: &[Item<'p>],
    ) -> Result<Semaphores, ValidationError> {
        let rank = code.rank as usize;
        let mut block = std::mem::take(&mut self.tree.ranks[rank].blocks[code.block as usize]);
        let mut ops = Vec::with_capacity(block.ops.len() + 8);
        let mut of = Semaphores::default();
        let tables = &mut self.tree.ranks[rank];
        if self.copies[rank].iter().any(Option::is_some) {
            let copied = *of.copied.insert(semaphore(tables));
            ops.extend([acquire(copied), nop()]);
        }
        let is_gated = self.schedules[rank].awaited.contains(&true);
        of.passed = last.map(|_| semaphore(tables));
        of.done = Some(semaphore(tables));
        let accesses =
            |item: &Item<'_>| is_gated && reader.instr(item.at).is_some_and(|instr| instr.accesses_peer_buffers);
        let last = last.zip(of.passed);
        let passed = |at: u32| last.filter(|(last, _)| *last == at).map(|(_, semaphore)| semaphore);
        if let Some((last, semaphore)) = last {
            if last < code.start {
                ops.push(release(semaphore));
            } else if last >= code.end {
                return Err(ValidationError::changed(format!("rank {rank}"), "never counts as finished"));
            }
        }
        let mut is_open = false;
        for item in items {
            let mut inner = Vec::new();
            let mut is_last = passed(item.at);
            if !is_open && accesses(item) {
                let open = of.open.map_or_else(|| semaphore(&mut self.tree.ranks[rank]), |open| open.0);
                of.open = Some((open, false));
                ops.extend([acquire(open), nop()]);
                is_open = true;
            }
            let mut is_open_inside = is_open;
            for item in &item.body {
                if !is_open_inside && accesses(item) {
                    // The semaphore is acquired and released, because the loop may have any number of iterations.
                    let open = of.open.map_or_else(|| semaphore(&mut self.tree.ranks[rank]), |open| open.0);
                    of.open = Some((open, true));
                    inner.extend([acquire(open), release(open), nop()]);
                    is_open_inside = true;
                }
                self.operation(reader, code, item, &mut block, &mut inner)?;
                is_last = is_last.or_else(|| passed(item.at));
            }
            match &item.op.body {
                None => self.operation(reader, code, item, &mut block, &mut ops)?,
                Some(_) => {
                    let mut op = item.op.clone();
                    if let Some(body) = &mut op.body {
                        body.ops = inner;
                    }
                    ops.push(op);
                }
            }
            if let Some(semaphore) = is_last {
                ops.extend([nop(), release(semaphore)]);
            }
        }
        if let Some(done) = of.done {
            ops.extend([nop(), release(done)]);
        }
        block.ops = ops;
        self.tree.ranks[rank].blocks[code.block as usize] = block;
        Ok(of)
    }

    /// Writes an operation, on the memory that contains its operands.
    fn operation(
        &mut self,
        reader: &Reader<'p>,
        code: &Block,
        item: &Item<'p>,
        block: &mut ThreadBlock,
        ops: &mut Vec<Op>,
    ) -> Result<(), ValidationError> {
        let Some(instr) = reader.instr(item.at) else { return Err(ValidationError::TooLarge) };
        let (srcs, dsts) = (listed(instr.kind, reader.program.srcs(instr)), reader.program.dsts(instr));
        let unseen = |operand: &&Operand| self.is_lookup_needed(code.rank, operand);
        if let Some(operand) = srcs.iter().chain(dsts).find(unseen).filter(|_| !instr.accesses_peer_buffers) {
            let place = path(code.rank, code.block, instr.op, instr.kind);
            let what = format!("does not wait until rank {} has announced its buffers", operand.rank);
            return Err(ValidationError::changed(place, what));
        }
        let mut op = item.op.clone();
        let is_copied = |operand: &Operand| {
            operand.space.is_callers() && self.copies[operand.rank as usize].iter().any(Option::is_some)
        };
        let is_switch = |reference: &plan::raw::Operand| matches!(reference.buffer, BufferRef::Switch(_));
        if op.srcs.iter().chain(&op.dsts).any(is_switch) && srcs.iter().chain(dsts).any(is_copied) {
            return self.switch(code, &op, (&srcs, dsts), block, ops);
        }
        let kind = op.channel.unwrap_or(ChannelKind::Memory);
        for (list, operands) in [(&mut op.srcs, &srcs[..]), (&mut op.dsts, dsts)] {
            let mut operands = operands.iter();
            for reference in list.iter_mut() {
                let members = resolve(self.plan, code, item.op, reference.buffer).map_or(1, |members| members.len());
                for operand in operands.by_ref().take(members) {
                    let found = self.reference(code.rank, operand, kind, block)?;
                    // Switch operands are in the memory that the plan names; the others were handled above.
                    if !is_switch(reference) {
                        *reference = found.unwrap_or(*reference);
                    }
                }
            }
        }
        op.kind = match op.kind {
            OpKind::RelaxedSignal => OpKind::Signal,
            OpKind::RelaxedWait => OpKind::Wait,
            kind => kind,
        };
        ops.push(op);
        Ok(())
    }

    /// Writes an operation on a switch channel, some of whose members' memory is copied, as the same operation on each
    /// member's memory.
    fn switch(
        &mut self,
        code: &Block,
        op: &Op,
        (srcs, dsts): (&[Operand], &[Operand]),
        block: &mut ThreadBlock,
        ops: &mut Vec<Op>,
    ) -> Result<(), ValidationError> {
        let kind = ChannelKind::Memory;
        let mut side = |writer: &mut Self, operands: &[Operand]| {
            let mut found = Vec::with_capacity(operands.len());
            for operand in operands {
                let known = match operand.rank == code.rank {
                    true => plan::raw::Operand::local(buffer(operand.space), operand.index, operand.size),
                    false => {
                        let tables = &mut writer.tree.ranks[code.rank as usize];
                        let place =
                            BufferRef::Remote(remote(tables, block, kind, (operand.rank, buffer(operand.space))));
                        plan::raw::Operand::new(place, operand.index, operand.size)
                    }
                };
                found.push(writer.reference(code.rank, operand, kind, block)?.unwrap_or(known));
            }
            // Plans list the executing rank's operands first.
            found.sort_by_key(plan::raw::Operand::is_remote);
            Ok::<_, ValidationError>(found)
        };
        let (srcs, dsts) = (side(self, srcs)?, side(self, dsts)?);
        let mut new = |kind: OpKind, srcs: &[plan::raw::Operand], dsts: &[plan::raw::Operand]| {
            let mut new = op.clone();
            new.kind = kind;
            new.channel = Some(ChannelKind::Memory).filter(|_| kind != OpKind::Copy);
            (new.srcs, new.dsts) = (srcs.into(), dsts.into());
            ops.push(new);
        };
        match op.kind {
            OpKind::SwitchReduce => new(OpKind::ReadReduce, &srcs, &dsts),
            OpKind::SwitchReduceBroadcast => new(OpKind::ReadReduceSend, &srcs, &dsts),
            OpKind::SwitchBroadcast => {
                let (own, others) = dsts.split_at(dsts.iter().filter(|to| !to.is_remote()).count());
                own.iter().for_each(|to| new(OpKind::Copy, &srcs, std::slice::from_ref(to)));
                if !others.is_empty() {
                    new(OpKind::Put, &vec![srcs[0]; others.len()], others);
                }
            }
            _ => {
                return Err(ValidationError::changed(
                    format!("rank {}", code.rank),
                    "has packets in a caller's memory",
                ));
            }
        }
        Ok(())
    }

    /// Returns the location of an operand, if it is not the one that the plan names.
    fn reference(
        &mut self,
        rank: u32,
        operand: &Operand,
        kind: ChannelKind,
        block: &mut ThreadBlock,
    ) -> Result<Option<plan::raw::Operand>, ValidationError> {
        if !matches!(operand.space, Space::Input | Space::Output) {
            return Ok(None);
        }
        let owner = operand.rank as usize;
        let (slot, first) = slot_of(self.plan, operand.rank, buffer(operand.space), operand.index);
        let own = operand.rank == rank;
        let placement = &self.schedules[owner].placement;
        if !own {
            let access = || format!("accesses the {} of rank {owner}", ["input", "output"][slot]);
            if !placement.peers_access[slot] {
                let what = format!("{}, which its launch does not share", access());
                return Err(ValidationError::changed(format!("rank {rank}"), what));
            }
            if self.is_lookup_needed(rank, operand) && !self.schedules[rank as usize].placement.accesses[owner] {
                let what = format!("{}, which it does not look up", access());
                return Err(ValidationError::changed(format!("rank {rank}"), what));
            }
        }
        let Some(copy) = self.copies[owner][slot] else { return Ok(None) };
        let place = match own {
            true => BufferRef::Local(BufferKind::Scratch),
            false => {
                let tables = &mut self.tree.ranks[rank as usize];
                BufferRef::Remote(remote(tables, block, kind, (operand.rank, BufferKind::Scratch)))
            }
        };
        let index = copy.checked_add(first).ok_or(ValidationError::TooLarge)?;
        Ok(Some(plan::raw::Operand::new(place, index, operand.size)))
    }

    /// Returns whether a rank must wait until a peer has announced an operand's location.
    fn is_lookup_needed(&self, rank: u32, operand: &Operand) -> bool {
        let is_local = self.nodes[operand.rank as usize] == self.nodes[rank as usize];
        is_local && operand.rank != rank && operand.space.is_callers()
    }

    /// Writes the two added thread blocks of every rank.
    fn exchange(&mut self, protocols: &[Protocol]) -> Result<(), ValidationError> {
        let ranks = self.plan.ranks.len() as u32;
        let (mut first, mut second) = (vec![Vec::new(); ranks as usize], vec![Vec::new(); ranks as usize]);
        let (mut opened, mut ended) = (vec![Vec::new(); ranks as usize], vec![Vec::new(); ranks as usize]);
        for (rank, schedule) in (0..ranks).zip(self.schedules) {
            let at = rank as usize;
            for peer in (0..ranks).filter(|&peer| peer != rank) {
                if schedule.awaited[peer as usize] {
                    let [to, from] = memory_channels(&mut self.tree, peer, rank);
                    first[peer as usize].push(self.on(peer, protocols[peer as usize].first, OpKind::Signal, to));
                    opened[at].push(self.on(rank, protocols[at].first, OpKind::Wait, from));
                }
                if schedule.finishes[peer as usize] && !self.lasts(at) {
                    let [to, from] = memory_channels(&mut self.tree, peer, rank);
                    second[peer as usize].push(self.on(peer, protocols[peer as usize].second, OpKind::Signal, to));
                    ended[at].push(self.on(rank, protocols[at].second, OpKind::Wait, from));
                }
            }
        }
        for (rank, protocol) in protocols.iter().enumerate() {
            let semaphores = || protocol.blocks.iter().map(|(_, semaphores)| semaphores);
            let mut flush = Vec::new();
            for &port in &protocol.ports {
                let tables = &mut self.tree.ranks[rank].blocks[protocol.second].channels;
                flush.push(sync(OpKind::Flush, Some(ChannelKind::Port), in_table(tables, ChannelKind::Port, port)));
            }
            let started = semaphore(&mut self.tree.ranks[rank]);
            let mut ops = self.copies_of(rank, |placement| &placement.copy_in, false)?;
            ops.push(nop());
            ops.extend(semaphores().filter_map(|of| of.copied).chain([started]).map(release));
            ops.append(&mut first[rank]);
            ops.append(&mut opened[rank]);
            ops.extend(semaphores().filter_map(|of| of.open).map(|(open, _)| release(open)));
            self.tree.ranks[rank].blocks[protocol.first].ops = ops;

            let mut ops = vec![acquire(started)];
            ops.extend(semaphores().filter_map(|of| of.passed).map(acquire));
            ops.extend(flush.iter().cloned());
            ops.push(nop());
            ops.append(&mut second[rank]);
            ops.extend(semaphores().filter_map(|of| of.done).map(acquire));
            ops.extend(semaphores().filter_map(|of| of.open).filter(|open| open.1).map(|(open, _)| acquire(open)));
            ops.append(&mut flush);
            ops.append(&mut ended[rank]);
            ops.push(nop());
            ops.append(&mut self.copies_of(rank, |placement| &placement.copy_out, true)?);
            self.tree.ranks[rank].blocks[protocol.second].ops = ops;
        }
        Ok(())
    }

    /// Returns a signal or wait of an added thread block on a memory channel of its rank.
    fn on(&mut self, rank: u32, block: usize, kind: OpKind, channel: u32) -> Op {
        let tables = &mut self.tree.ranks[rank as usize].blocks[block].channels;
        sync(kind, Some(ChannelKind::Memory), in_table(tables, ChannelKind::Memory, channel))
    }

    /// Returns whether a launch of a rank need not wait for peers because they read only lasting copies.
    fn lasts(&self, rank: usize) -> bool {
        let RankSchedule { is_read_only, placement, .. } = &self.schedules[rank];
        let lasting = |slot: usize| !placement.peers_access[slot] || self.sharing[rank][slot] == Sharing::Lasting;
        *is_read_only && (0..SLOTS).all(lasting)
    }

    /// Returns the copies before or after a launch.
    fn copies_of(
        &self,
        rank: usize,
        ranges: impl Fn(&'p mscclpp_base::passes::place_in_caller_memory::Placement) -> &'p [Vec<Range<u64>>; SLOTS],
        outwards: bool,
    ) -> Result<Vec<Op>, ValidationError> {
        let mut ops = Vec::new();
        for (slot, ranges) in ranges(&self.schedules[rank].placement).iter().enumerate() {
            let Some(first) = self.copies[rank][slot] else { continue };
            for range in ranges {
                let number = |number: u64| u32::try_from(number).map_err(|_| ValidationError::TooLarge);
                let (start, end) = (number(range.start)?, number(range.end)?);
                let size = end.saturating_sub(start);
                let outside =
                    || ValidationError::changed(format!("rank {rank}"), format!("copies chunks {start}..{end}"));
                let caller = caller_chunks(self.plan, rank as u32, slot, start, size).ok_or_else(outside)?;
                let copied = plan::raw::Operand::local(
                    BufferKind::Scratch,
                    first.checked_add(start).ok_or(ValidationError::TooLarge)?,
                    size,
                );
                ops.push(if outwards { copy(copied, caller) } else { copy(caller, copied) });
            }
        }
        Ok(ops)
    }
}

/// Returns the port channels to which a rank puts or on which it signals.
fn ports(plan: &PlanTree, rank: u32) -> Vec<u32> {
    let mut numbers = Vec::new();
    for block in &plan.ranks[rank as usize].blocks {
        let table = block.channels(ChannelKind::Port);
        let inner = block.ops.iter().filter_map(|op| op.body.as_ref()).flat_map(|body| &body.ops);
        let ports = block.ops.iter().chain(inner).filter(|op| op.channel == Some(ChannelKind::Port));
        let sends = ports.filter(|op| !op.kind.waits());
        numbers.extend(sends.flat_map(|op| &op.ids).filter_map(|&id| table.get(id as usize)));
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn buffer(space: Space) -> BufferKind {
    match space {
        Space::Input | Space::OwnInput => BufferKind::Input,
        Space::Output | Space::OwnOutput => BufferKind::Output,
        Space::Scratch | Space::Packets => BufferKind::Scratch,
    }
}

/// Returns the slot of a chunk of a rank's input or output, and its number there: in place, both are one buffer.
fn slot_of(plan: &PlanTree, rank: u32, buffer: BufferKind, index: u32) -> (usize, u32) {
    let collective = &plan.collective;
    if collective.in_place {
        return (0, canonical(collective, plan, rank, buffer, index).1);
    }
    ((buffer == BufferKind::Output) as usize, index)
}

fn canonical(collective: &Collective, plan: &PlanTree, rank: u32, buffer: BufferKind, index: u32) -> (BufferKind, u32) {
    let tables = &plan.ranks[rank as usize];
    collective.canonical_chunk(rank, buffer, index, tables.input_chunks.min(tables.output_chunks))
}

/// Returns chunks of a slot as the rank's caller passes them; `None` if they do not exist.
fn caller_chunks(plan: &PlanTree, rank: u32, slot: usize, start: u32, size: u32) -> Option<plan::raw::Operand> {
    let tables = &plan.ranks[rank as usize];
    let end = start.checked_add(size).filter(|_| size > 0)?;
    let buffers = match (plan.collective.in_place, slot) {
        (true, 0) => &[BufferKind::Input, BufferKind::Output][..],
        (true, _) => &[],
        (false, 0) => &[BufferKind::Input],
        (false, _) => &[BufferKind::Output],
    };
    // In place, the buffer whose chunks are numbered like the slot's.
    let is_it = |buffer: &&BufferKind| slot_of(plan, rank, **buffer, 0).1 == 0 && end <= tables.chunks(**buffer);
    buffers.iter().find(is_it).map(|&buffer| plan::raw::Operand::local(buffer, start, size))
}
