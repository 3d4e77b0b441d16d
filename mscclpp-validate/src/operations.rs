//! Reads the operations of a schedule back: each must be one of the plan's, with its operands, channels and attributes,
//! and in the plan's order. Only synchronization may be missing, and only what is sent to a rank of another node may precede the wait
//! for its start. A missing handshake between nodes is read as if it were executed.

use std::collections::{BTreeMap, BTreeSet};

use mscclpp_core::plan::raw::{BufferRef, IdList, Op, OpClass, PlanTree};
use mscclpp_core::types::{BufferKind, ChannelKind};

use super::ValidationError;
use super::openings::{may_be_deferred, may_be_elided};
use super::own_packets::listed;
use mscclpp_base::error::path;
use mscclpp_base::interpret::program::Instr;
use mscclpp_base::interpret::{Block, Opcode, Operand, ResolvedPlan, Space};

/// An executed operation of the plan.
pub(super) struct Item<'p> {
    pub(super) op: &'p Op,
    /// Its instruction.
    pub(super) at: u32,
    /// The operations of the body, if it is a pipeline.
    pub(super) body: Vec<Item<'p>>,
}

/// A range of chunks of one rank's buffer, as a plan names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    pub(super) rank: u32,
    pub(super) buffer: BufferKind,
    pub(super) index: u32,
    pub(super) size: u32,
}

/// Compares the operations of a resolved plan with those of the plan.
pub(super) struct Reader<'p> {
    pub(super) plan: &'p PlanTree,
    pub(super) program: &'p ResolvedPlan,
    /// By rank: the index of its first semaphore.
    semaphores: Vec<usize>,
    /// By rank and number: the index.
    barriers: BTreeMap<(u32, u32), u32>,
    owners: BTreeMap<u32, (u32, u32)>,
    /// Node of each rank. None if connections do not hold messages back until the receiver has started.
    nodes: &'p [u32],
    /// Handshakes between nodes that are missing in the thread blocks read so far.
    pub(super) elided: Elided,
}

/// Waits and signals that are missing, by the channel of the rank that waits.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Elided {
    pub(super) waits: BTreeSet<u32>,
    pub(super) signals: BTreeSet<u32>,
}

impl<'p> Reader<'p> {
    pub(super) fn new(plan: &'p PlanTree, program: &'p ResolvedPlan) -> Self {
        let semaphores = plan.ranks.iter().scan(0, |next, rank| {
            let first = *next;
            *next += rank.semaphores.len();
            Some(first)
        });
        Self {
            plan,
            program,
            semaphores: semaphores.collect(),
            barriers: BTreeMap::new(),
            owners: BTreeMap::new(),
            nodes: &[],
            elided: Elided::default(),
        }
    }

    /// Accepts what connections between these nodes allow. `nodes`: node of each rank.
    pub(super) fn on_nodes(self, nodes: &'p [u32]) -> Self {
        Self { nodes, ..self }
    }

    /// Returns the executed operations of a thread block, in their order.
    ///
    /// # Errors
    /// [`ValidationError::Changed`].
    pub(super) fn block(&mut self, code: &Block) -> Result<Vec<Item<'p>>, ValidationError> {
        let plan = self.plan;
        let block = plan.ranks.get(code.rank as usize).and_then(|rank| rank.blocks.get(code.block as usize));
        let Some(block) = block else {
            return Err(ValidationError::changed(
                format!("rank {}", code.rank),
                format!("has no thread block {}", code.block),
            ));
        };
        let order = self.in_plan_order(code)?;
        let (mut items, mut next, mut done) = (Vec::new(), 0_u32, 0);
        for op in &block.ops {
            let inner = op.body.as_ref().map_or(&[][..], |body| &body.ops);
            let number = next;
            next += 1 + inner.len() as u32;
            let Some(at) = self.at(&order, done, number) else {
                if !is_handshake(op) {
                    let place = path(code.rank, code.block, number, op.kind);
                    return Err(ValidationError::changed(place, "is not executed"));
                }
                continue;
            };
            self.compare(code, at, op)?;
            let mut item = Item { op, at, body: Vec::new() };
            done += 1;
            for (number, op) in (number + 1..).zip(inner) {
                let Some(at) = self.at(&order, done, number) else {
                    let place = path(code.rank, code.block, number, op.kind);
                    return Err(ValidationError::changed(place, "is not executed in its loop"));
                };
                self.compare(code, at, op)?;
                item.body.push(Item { op, at, body: Vec::new() });
                done += 1;
            }
            items.push(item);
        }
        if done != order.len() {
            return Err(ValidationError::changed(
                format!("rank {} / thread block {}", code.rank, code.block),
                "executes operations that the plan does not have at this position",
            ));
        }
        Ok(items)
    }

    pub(super) fn instr(&self, at: u32) -> Option<&'p Instr> {
        self.program.instrs.get(at as usize)
    }

    /// Returns the instruction at a position if it is the operation with this number.
    fn at(&self, order: &[u32], position: usize, number: u32) -> Option<u32> {
        let &at = order.get(position)?;
        self.instr(at).filter(|instr| instr.op == number).map(|_| at)
    }

    /// Returns the instructions of a thread block in the order of the plan's operations.
    ///
    /// # Errors
    /// [`ValidationError::Changed`] for a wait after operations that it precedes in the plan, unless [`may_be_deferred`] accepts
    /// it.
    fn in_plan_order(&self, code: &Block) -> Result<Vec<u32>, ValidationError> {
        let mut order: Vec<u32> = Vec::with_capacity((code.end - code.start) as usize);
        for at in code.start..code.end {
            let Some(instr) = self.instr(at) else { return Err(ValidationError::TooLarge) };
            let is_later = |&before: &u32| self.instr(before).is_some_and(|before| before.op > instr.op);
            let first = order.iter().rposition(|before| !is_later(before)).map_or(0, |last| last + 1);
            let crossed = order[first..].iter().filter_map(|&at| self.instr(at)).map(|instr| instr.op);
            if first < order.len()
                && !may_be_deferred(self.plan, self.nodes, (code.rank, code.block, instr.op), crossed)
            {
                let place = path(code.rank, code.block, instr.op, instr.kind);
                return Err(ValidationError::changed(
                    place,
                    "is executed after operations that it precedes in the plan",
                ));
            }
            order.insert(first, at);
        }
        Ok(order)
    }

    fn compare(&mut self, code: &Block, at: u32, op: &Op) -> Result<(), ValidationError> {
        let Some(instr) = self.instr(at) else {
            return Err(ValidationError::changed("the whole plan", "an index out of range"));
        };
        let place = || path(code.rank, code.block, instr.op, op.kind);
        let differs = |what: &str| Err(ValidationError::changed(place(), format!("{what} differs from the plan's")));
        // Without channels, a signal or wait does nothing.
        let is_elided = instr.action == Opcode::Nop && instr.ids == 0 && !op.ids.is_empty();
        let action = op.kind.opcode(op.channel == Some(ChannelKind::Port));
        if instr.kind != op.kind || !is_elided && instr.action != action {
            return differs("its kind");
        }
        let body = op.body.as_ref().map_or((0, 0, 0), |body| (body.num_chunks, body.ops.len() as u32, body.unit));
        if (instr.body, instr.unit) != (body.1, body.2) || instr.count != body.0 + op.num_blocks {
            return differs("its number of repetitions or of thread blocks");
        }
        if instr.slice != op.slice.map_or((0, 1), |slice| (slice.index, slice.count)) {
            return differs("its slice");
        }
        if op.kind.is_reduce() && instr.reduce != op.reduce.unwrap_or_default() {
            return differs("its reduction");
        }
        let (read, written) = (op.kind.source_packets(op.channel), op.kind.dsts().packets);
        let srcs = listed(op.kind, self.program.srcs(instr));
        let sides = [(&op.srcs, &srcs[..], read), (&op.dsts, self.program.dsts(instr), written)];
        for (list, operands, packets) in sides {
            let mut expected = Vec::with_capacity(list.len());
            for (position, reference) in list.iter().enumerate() {
                let packets = packets.at(position);
                let Some(chunks) = resolve(self.plan, code, op, reference.buffer) else {
                    return differs("an operand's buffer");
                };
                expected.extend(chunks.into_iter().map(|(rank, buffer)| {
                    (Chunks { rank, buffer, index: reference.index, size: reference.size }, packets)
                }));
            }
            if expected.len() != operands.len() {
                return differs("the number of its operands");
            }
            for (&(chunks, packets), operand) in expected.iter().zip(operands) {
                if !is_same(chunks, packets, operand, code.rank) {
                    return differs("an operand");
                }
            }
        }
        if self.ids(code, op, instr) { Ok(()) } else { differs("a channel, semaphore or barrier") }
    }

    /// Returns whether an instruction uses the channels, semaphores or barrier of its operation.
    fn ids(&mut self, code: &Block, op: &Op, instr: &Instr) -> bool {
        let ids = self.program.ids(instr);
        let rank = &self.plan.ranks[code.rank as usize];
        let block = &rank.blocks[code.block as usize];
        match op.kind.ids() {
            IdList::Semaphores => {
                let first = self.semaphores[code.rank as usize];
                let expected = op.ids.iter().map(|&id| first + id as usize);
                op.ids.iter().all(|&id| (id as usize) < rank.semaphores.len())
                    && expected.eq(ids.iter().map(|&id| id as usize))
            }
            IdList::Barrier => {
                let (&[number], &[position]) = (&op.ids[..], ids) else { return false };
                let key = (code.rank, number);
                let known = *self.barriers.entry(key).or_insert(position) == position;
                known && *self.owners.entry(position).or_insert(key) == key
            }
            // Of transfers, only those that signal have channels.
            IdList::Channels | IdList::ChannelPerPair if !op.kind.is_data() || op.kind.signals() => {
                let Some(kind) = op.channel else { return false };
                let numbers = block.channels(kind);
                let mut ids = ids.iter().peekable();
                for &id in &op.ids {
                    let Some(&number) = numbers.get(id as usize) else { return false };
                    let is_it = |found: &u32| {
                        let channel = self.program.channels.get(*found as usize);
                        channel.is_some_and(|it| (it.rank, it.kind, it.id) == (code.rank, kind, number))
                    };
                    if ids.next_if(|found| is_it(found)).is_some() {
                        continue;
                    }
                    let Some(channel) = (0..self.program.channels.len() as u32).find(is_it) else { return false };
                    if !may_be_elided(self.plan, self.nodes, (code.rank, code.block, instr.op), id) {
                        return false;
                    }
                    match op.kind.waits() {
                        true => self.elided.waits.insert(channel),
                        false => self.elided.signals.insert(self.program.channels[channel as usize].pair),
                    };
                }
                ids.next().is_none()
            }
            IdList::Nothing | IdList::Channels | IdList::ChannelPerPair | IdList::ChannelPerPortDestination => true,
        }
    }
}

/// Returns whether an operation may be missing: it moves no data, and other operations of its rank do not wait for it.
fn is_handshake(op: &Op) -> bool {
    match op.kind.class() {
        OpClass::Signal { .. } | OpClass::Wait { .. } => op.channel == Some(ChannelKind::Memory),
        class => class == OpClass::BlockSync,
    }
}

/// Returns the buffers that an operand names: several for a switch channel.
pub(super) fn resolve(plan: &PlanTree, code: &Block, op: &Op, place: BufferRef) -> Option<Vec<(u32, BufferKind)>> {
    let rank = plan.ranks.get(code.rank as usize)?;
    let block = rank.blocks.get(code.block as usize)?;
    match place {
        BufferRef::Local(buffer) => Some(vec![(code.rank, buffer)]),
        BufferRef::Remote(index) => {
            let number = *block.remote_buffers(op.channel?).get(index as usize)?;
            let remote = rank.remote_buffers.get(number as usize)?;
            Some(vec![(remote.rank, remote.buffer)])
        }
        BufferRef::Switch(index) => {
            let number = *block.channels(ChannelKind::Switch).get(index as usize)?;
            let (buffer, members) = rank.switch_channels().nth(number as usize)?;
            Some(members.iter().map(|&member| (member, buffer)).collect())
        }
    }
}

/// Returns whether an operand is the one that the plan names: in the caller's memory, in that of which peers may access
/// a copy, or in scratch.
fn is_same(chunks: Chunks, packets: bool, operand: &Operand, rank: u32) -> bool {
    let Chunks { rank: owner, buffer, index, size } = chunks;
    let space = match (buffer, packets) {
        (BufferKind::Scratch, false) => operand.space == Space::Scratch,
        (BufferKind::Scratch, true) => operand.space == Space::Packets,
        (BufferKind::Input, _) => operand.space == Space::Input || owner == rank && operand.space == Space::OwnInput,
        (BufferKind::Output, _) => operand.space == Space::Output || owner == rank && operand.space == Space::OwnOutput,
    };
    space && (operand.rank, operand.index, operand.size) == (owner, index, size)
}
