//! Scales a plan down: operands become ranges of cells, channels become numbers.

use std::collections::BTreeMap;

use mscclpp_core::plan::{
    self,
    raw::{BufferRef, Expectation, Flow, Function, Op, OpClass, Packets, PlanTree},
};
use mscclpp_core::types::{BufferKind, ChannelKind};

use super::program::*;
use super::scale::{Scale, VECTOR, parts};
use crate::UnsupportedPlan;

/// Maximum numbers of cells and agents. An agent's clock has an entry for every agent.
const MAX_CELLS: u64 = 1 << 24;
const MAX_AGENTS: usize = 1 << 13;

/// Scales a plan down to one size, in memory for chunks of `room` cells.
pub(super) fn scale_down(plan: &PlanTree, scale: &Scale, room: u64) -> Result<Program, UnsupportedPlan> {
    let mut lowering = ScaleDown {
        plan,
        scale,
        memories: Vec::new(),
        firsts: Vec::new(),
        semaphores: Vec::new(),
        barriers: BTreeMap::new(),
        kinds: [false; 2],
        program: Program {
            blocks: Vec::new(),
            ranks: Vec::new(),
            cells: 0,
            ends: Vec::new(),
            semaphores: Vec::new(),
            barriers: 0,
            agents: Vec::new(),
            first_caller: 0,
            mixed: false,
            padding: Vec::new(),
        },
    };
    if plan.ranks.is_empty() {
        return refuse("the whole plan", "no ranks");
    }
    lowering.expectations()?;
    lowering.memories(room)?;
    lowering.padding();
    lowering.channels()?;
    for (rank, tables) in plan.ranks.iter().enumerate() {
        for (number, block) in tables.blocks.iter().enumerate() {
            if !block.ops.is_empty() {
                lowering.block(rank, number, &block.ops)?;
            }
        }
    }
    let mut program = lowering.program;
    for (number, end) in (0..).zip(&mut program.ends) {
        if let Some(port) = &mut end.port {
            *port = program.agents.len() as u32;
            program.agents.extend([AgentKind::Port { end: number }, AgentKind::Wire { end: number }]);
        }
    }
    program.first_caller = program.agents.len() as u32;
    program.agents.extend((0..plan.ranks.len() as u32).map(|rank| AgentKind::Caller { rank }));
    program.barriers = lowering.barriers.len();
    program.mixed = lowering.kinds == [true; 2];
    if program.agents.len() > MAX_AGENTS {
        return refuse(
            "the whole plan",
            format!(
                "{} threads and ports when scaled down, expected at most {MAX_AGENTS}; use fewer ranks or thread blocks",
                program.agents.len()
            ),
        );
    }
    Ok(program)
}

fn refuse<T>(place: impl Into<String>, what: impl Into<String>) -> Result<T, UnsupportedPlan> {
    Err(UnsupportedPlan { path: place.into(), what: what.into() })
}

struct ScaleDown<'p> {
    plan: &'p PlanTree,
    scale: &'p Scale,
    /// Per rank, the begins of input, output and scratch, and the cells of half the scratch.
    memories: Vec<([u64; 3], u64)>,
    /// Per rank, the first of its memory and of its port channels.
    firsts: Vec<[usize; 2]>,
    /// Per rank, its first semaphore.
    semaphores: Vec<usize>,
    /// By rank and number.
    barriers: BTreeMap<(usize, u32), u32>,
    /// Whether scratch has plain data, and packets.
    kinds: [bool; 2],
    program: Program,
}

/// An operation and its location.
#[derive(Clone, Copy)]
struct At<'p> {
    rank: usize,
    block: usize,
    place: (u32, Option<u32>),
    op: &'p Op,
}

impl At<'_> {
    fn refuse<T>(&self, what: impl Into<String>) -> Result<T, UnsupportedPlan> {
        let (op, name) = (self.place.0, self.op.kind.name());
        refuse(format!("rank {} / thread block {} / operation {op} ({name})", self.rank, self.block), what)
    }
}

impl ScaleDown<'_> {
    fn memories(&mut self, room: u64) -> Result<(), UnsupportedPlan> {
        let mut next = 0_u64;
        let halves = if self.plan.double_scratch { 2 } else { 1 };
        for (rank, tables) in self.plan.ranks.iter().enumerate() {
            let cells = |chunks: u32| u64::from(chunks).saturating_mul(room);
            let first = next;
            let (input, output) = (next, next.saturating_add(cells(tables.input_chunks)));
            let scratch = output.saturating_add(cells(tables.output_chunks));
            // Memory for every chunk as packets; the protocol determines whether scratch is that large.
            let half = |chunk: u64| u64::from(tables.scratch_chunks).saturating_mul(chunk).saturating_mul(2);
            next = scratch.saturating_add(half(room).saturating_mul(halves));
            if next > MAX_CELLS {
                return refuse(
                    format!("rank {rank}"),
                    format!(
                        "{next} cells of memory when scaled down, expected at most {MAX_CELLS}; use fewer ranks or chunks"
                    ),
                );
            }
            // The begin of the second half depends on the size.
            self.memories.push(([input, output, scratch], half(self.scale.chunk)));
            self.program.ranks.push(Rank {
                input: 0,
                output: 0,
                inputs: tables.input_chunks,
                outputs: tables.output_chunks,
                memory: (first as u32, next as u32),
                blocks: 0,
            });
        }
        self.program.cells = next as usize;
        for rank in 0..self.plan.ranks.len() {
            let base = |buffer, chunks| if chunks == 0 { Some(0) } else { self.base(rank as u32, buffer, 0, chunks) };
            let Rank { inputs, outputs, .. } = self.program.ranks[rank];
            let (Some(input), Some(output)) = (base(BufferKind::Input, inputs), base(BufferKind::Output, outputs))
            else {
                return refuse(
                    format!("rank {rank}"),
                    "the input and output ranges cannot share one buffer".to_owned(),
                );
            };
            (self.program.ranks[rank].input, self.program.ranks[rank].output) = (input, output);
        }
        Ok(())
    }

    /// Refuses expectations of chunks that do not exist.
    fn expectations(&self) -> Result<(), UnsupportedPlan> {
        for (number, Expectation { rank, chunk, len, inputs, .. }) in self.plan.expectations.iter().enumerate() {
            let exists = |rank: u32, buffer, chunk: u32| {
                let chunks = self.plan.ranks.get(rank as usize).map_or(0, |tables| tables.chunks(buffer));
                chunk.checked_add(*len).is_some_and(|end| end <= chunks)
            };
            let are_inputs = inputs.iter().all(|(rank, chunk)| exists(*rank, BufferKind::Input, *chunk));
            if !are_inputs || !exists(*rank, BufferKind::Output, *chunk) {
                return refuse(format!("expectation {number}"), "a chunk that does not exist");
            }
        }
        Ok(())
    }

    /// Marks the cells that the message does not fill.
    fn padding(&mut self) {
        let (parts, chunks) = parts(self.plan);
        let Scale { chunk, missing, .. } = *self.scale;
        let part = u64::from(chunks) * chunk;
        if missing == 0 || part == 0 {
            return;
        }
        let mut padding = vec![false; self.program.cells];
        for (tables, (starts, _)) in self.plan.ranks.iter().zip(&self.memories) {
            for (chunks, start) in [tables.input_chunks, tables.output_chunks].into_iter().zip(starts) {
                for cell in 0..u64::from(chunks) * chunk {
                    let inside = if parts == 1 { cell } else { cell % part };
                    padding[(start + cell) as usize] = inside + missing >= part;
                }
            }
        }
        self.program.padding = padding;
    }

    /// Returns the first cell of a range of chunks; none if it is not inside its buffer.
    fn base(&self, rank: u32, buffer: BufferKind, index: u32, size: u32) -> Option<u32> {
        let tables = self.plan.ranks.get(rank as usize)?;
        if index.checked_add(size)? > tables.chunks(buffer) {
            return None;
        }
        let part = tables.input_chunks.min(tables.output_chunks);
        let (buffer, index) = self.plan.collective.canonical_chunk(rank, buffer, index, part);
        if index.checked_add(size)? > tables.chunks(buffer) {
            return None;
        }
        Some((self.memories[rank as usize].0[buffer as usize] + u64::from(index) * self.scale.chunk) as u32)
    }

    fn channels(&mut self) -> Result<(), UnsupportedPlan> {
        let mut numbers: BTreeMap<(u32, u32, bool, u32), u32> = BTreeMap::new();
        let mut keys = Vec::new();
        for (rank, tables) in (0..).zip(&self.plan.ranks) {
            let firsts = [ChannelKind::Memory, ChannelKind::Port].map(|kind| {
                let first = keys.len();
                let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
                for &peer in tables.peers(kind) {
                    let count = seen.entry(peer).or_default();
                    let key = (rank, peer, kind == ChannelKind::Port, *count);
                    *count += 1;
                    numbers.insert(key, keys.len() as u32);
                    keys.push(key);
                }
                first
            });
            self.firsts.push(firsts);
            self.semaphores.push(self.program.semaphores.len());
            self.program.semaphores.extend(&tables.semaphores);
        }
        self.program.ends = keys
            .into_iter()
            .map(|(rank, peer, port, count)| End {
                rank,
                pair: numbers.get(&(peer, rank, port, count)).copied(),
                port: port.then_some(0),
            })
            .collect();
        Ok(())
    }

    fn block(&mut self, rank: usize, number: usize, ops: &[Op]) -> Result<(), UnsupportedPlan> {
        let mut instrs = Vec::new();
        for (index, op) in (0..).zip(ops) {
            let at = At { rank, block: number, place: (index, None), op };
            let Some(body) = &op.body else {
                self.op(&at, &mut instrs)?;
                continue;
            };
            let window = self.scale.window(body.unit);
            let span = u64::from(body.num_chunks) * self.scale.chunk;
            let start = instrs.len();
            let header = Opcode::Loop { window, trips: span.div_ceil(window), end: 0 };
            instrs.push(Instr { kind: op.kind, place: (index, None), opcode: header });
            for (inner, op) in (0..).zip(&body.ops) {
                self.op(&At { place: (index, Some(inner)), op, ..at }, &mut instrs)?;
            }
            instrs.push(Instr { kind: op.kind, place: (index, None), opcode: Opcode::Again { start: start as u32 } });
            let after = instrs.len() as u32;
            if let Opcode::Loop { end, .. } = &mut instrs[start].opcode {
                *end = after;
            }
        }
        let wide = instrs.iter().map(|instr| match &instr.opcode {
            Opcode::Push(list) => list.len(),
            Opcode::Signal { ends, .. } | Opcode::Wait { ends, .. } | Opcode::Flush { ends } => ends.len(),
            Opcode::Acquire { semaphores } | Opcode::Release { semaphores } => semaphores.len(),
            _ => 0,
        });
        let threads = wide.max().unwrap_or(0).max(self.scale.threads as usize);
        let (block, first) = (self.program.blocks.len() as u32, self.program.agents.len() as u32);
        if first as usize + threads > MAX_AGENTS {
            return refuse(
                format!("rank {rank}"),
                format!("more than {MAX_AGENTS} threads when scaled down; use fewer ranks or thread blocks"),
            );
        }
        self.program.agents.extend((0..threads as u32).map(|thread| AgentKind::Thread { block, thread }));
        self.program.ranks[rank].blocks += 1;
        let (rank, number) = (rank as u32, number as u32);
        self.program.blocks.push(Block { rank, number, first, threads: threads as u32, instrs });
        Ok(())
    }

    fn op(&mut self, at: &At, out: &mut Vec<Instr>) -> Result<(), UnsupportedPlan> {
        let op = at.op;
        let port = op.channel == Some(ChannelKind::Port);
        let mut push = |opcode| out.push(Instr { kind: op.kind, place: at.place, opcode });
        match op.kind.class() {
            OpClass::BlockSync => push(Opcode::Sync),
            OpClass::Barrier if op.num_blocks <= 1 => push(Opcode::Sync),
            OpClass::Barrier => {
                let Some(&number) = op.ids.first() else { return at.refuse("a barrier without a number") };
                let next = self.barriers.len() as u32;
                let id = *self.barriers.entry((at.rank, number)).or_insert(next);
                push(Opcode::Barrier { id, blocks: op.num_blocks });
            }
            OpClass::Signal { .. } if port => {
                let trigger = |end| Trigger { end, transfer: None, signal: true, flush: false };
                push(Opcode::Push(self.ends(at)?.into_iter().map(trigger).collect()));
            }
            OpClass::Signal { relaxed } => push(Opcode::Signal { ends: self.ends(at)?, relaxed }),
            OpClass::Wait { relaxed } => {
                push(Opcode::Wait { ends: self.ends(at)?, relaxed: relaxed && !port });
            }
            OpClass::Flush => push(Opcode::Flush { ends: self.ends(at)? }),
            OpClass::Acquire => push(Opcode::Acquire { semaphores: self.semaphores(at)? }),
            OpClass::Release => push(Opcode::Release { semaphores: self.semaphores(at)? }),
            OpClass::Pipeline => return at.refuse("a pipeline inside a pipeline"),
            OpClass::ExchangeCounts => return at.refuse("counts without a table of them"),
            OpClass::Data(..) if op.kind.is_counted() => return at.refuse("a count without a table of counts"),
            OpClass::Data(flow, function) => self.data(at, flow, function)?.into_iter().for_each(push),
        }
        Ok(())
    }

    fn data(&mut self, at: &At, flow: Flow, function: Function) -> Result<Vec<Opcode>, UnsupportedPlan> {
        let (kind, port) = (at.op.kind, at.op.channel == Some(ChannelKind::Port));
        if let Some(slice) = at.op.slice.filter(|slice| slice.index >= slice.count) {
            return at.refuse(format!("slice {} of {}, which has fewer", slice.index, slice.count));
        }
        let srcs = self.operands(at, &at.op.srcs, kind.source_packets(at.op.channel))?;
        let srcs = match function {
            // An element is the sum of its sources.
            Function::Copy | Function::Reduce | Function::RowNorm => srcs,
        };
        let dsts = self.operands(at, &at.op.dsts, kind.dsts().packets)?;
        let sizes: Vec<u32> = at.op.srcs.iter().chain(&at.op.dsts).map(|range| range.size).collect();
        let pairs = flow == Flow::Pairs;
        if srcs.is_empty() || dsts.is_empty() || pairs && srcs.len() != dsts.len() {
            return at.refuse(format!("{} sources and {} destinations", srcs.len(), dsts.len()));
        }
        if (0..srcs.len()).any(|i| pairs && sizes[i] != sizes[srcs.len() + i])
            || !pairs && sizes.iter().any(|&size| size != sizes[0])
        {
            return at.refuse("operands of unequal sizes");
        }
        let packets = srcs.iter().chain(&dsts).flatten().any(|operand| operand.packets);
        let grain = match kind.grain() {
            plan::raw::Grain::Multicast if self.scale.narrow_multicast => Grain::Multicast,
            plan::raw::Grain::Row => Grain::Row,
            _ if packets => Grain::Cell,
            _ => Grain::Vector,
        };
        let all = |sides: &[Vec<Operand>]| sides.iter().flatten().copied().collect::<Vec<_>>();
        let make = |srcs: Vec<Operand>, dsts: Vec<Operand>, size: u32, raw: bool| {
            let len = u64::from(size) * self.scale.chunk;
            let (start, len) = at.op.slice.map_or((0, len), |slice| Scale::slice(len, slice.index, slice.count));
            debug_assert!(start.is_multiple_of(VECTOR));
            Move { srcs, dsts, start, len, grain, raw, norm: function == Function::RowNorm }
        };
        if !pairs && port && kind.has_packets() {
            let ends = self.ends(at)?;
            if ends.len() != dsts.len() {
                return at.refuse(format!("{} channels for {} destinations", ends.len(), dsts.len()));
            }
            let source = all(&srcs);
            let transfer = |dst: &Vec<Operand>| Some(make(source.clone(), dst.clone(), sizes[0], true));
            let triggers = ends.iter().zip(&dsts).map(|(&end, dst)| Trigger {
                end,
                transfer: transfer(dst),
                signal: false,
                flush: false,
            });
            let pushes = Opcode::Push(triggers.collect());
            let awaited = Opcode::Move(make(source.clone(), Vec::new(), sizes[0], false));
            return Ok(vec![awaited, Opcode::Sync, pushes]);
        }
        if !pairs {
            return Ok(vec![Opcode::Move(make(all(&srcs), all(&dsts), sizes[0], false))]);
        }
        let pairs = srcs.into_iter().zip(dsts).zip(sizes);
        if !port {
            return Ok(pairs.map(|((src, dst), size)| Opcode::Move(make(src, dst, size, false))).collect());
        }
        let ends = self.ends(at)?;
        if ends.len() != pairs.len() {
            return at.refuse(format!("{} channels for {} transfers", ends.len(), pairs.len()));
        }
        let triggers = ends.into_iter().zip(pairs).map(|(end, ((src, dst), size))| Trigger {
            end,
            transfer: Some(make(src, dst, size, true)),
            signal: kind.signals(),
            flush: kind.then_flushes(),
        });
        Ok(vec![Opcode::Push(triggers.collect())])
    }

    /// Returns the ranges of every operand: one, or one of each member of a switch channel.
    fn operands(
        &mut self,
        at: &At,
        list: &[plan::raw::Operand],
        packets: Packets,
    ) -> Result<Vec<Vec<Operand>>, UnsupportedPlan> {
        let plan = self.plan;
        let tables = &plan.ranks[at.rank];
        let block = &tables.blocks[at.block];
        let mut found = Vec::new();
        for (number, range) in list.iter().enumerate() {
            let packets = packets.at(number);
            let (buffer, owners) = match range.buffer {
                BufferRef::Local(buffer) => (buffer, vec![at.rank as u32]),
                BufferRef::Remote(index) => {
                    let kind = at.op.channel.unwrap_or(ChannelKind::Memory);
                    let id = block.remote_buffers(kind).get(index as usize);
                    match id.and_then(|&id| tables.remote_buffers.get(id as usize)) {
                        Some(remote) => (remote.buffer, vec![remote.rank]),
                        None => return at.refuse(format!("remote buffer {index}, which does not exist")),
                    }
                }
                BufferRef::Switch(index) => {
                    let id = block.channels(ChannelKind::Switch).get(index as usize);
                    match id.and_then(|&id| tables.switch_channels().nth(id as usize)) {
                        Some((buffer, members)) => (buffer, members.to_vec()),
                        None => return at.refuse(format!("switch channel {index}, which does not exist")),
                    }
                }
            };
            if packets && buffer != BufferKind::Scratch {
                return at.refuse(format!("packets in the {buffer} buffer"));
            }
            if buffer == BufferKind::Scratch {
                self.kinds[usize::from(packets)] = true;
            }
            let mut operands = Vec::new();
            for owner in owners {
                operands.push(self.operand(at, owner, buffer, range, packets)?);
            }
            found.push(operands);
        }
        Ok(found)
    }

    fn operand(
        &self,
        at: &At,
        owner: u32,
        buffer: BufferKind,
        range: &plan::raw::Operand,
        packets: bool,
    ) -> Result<Operand, UnsupportedPlan> {
        let plan::raw::Operand { index, size, .. } = *range;
        let Some(base) = self.base(owner, buffer, index, size) else {
            return at.refuse(format!("{size} chunks from {index} on of rank {owner}'s {buffer}, which has fewer"));
        };
        let ([_, _, scratch], half) = self.memories[owner as usize];
        let scratched = buffer == BufferKind::Scratch;
        // Packets take twice the memory, from the beginning of scratch on.
        let base = if packets { 2 * base - scratch as u32 } else { base };
        let half = if scratched && self.plan.double_scratch { half as u32 } else { 0 };
        Ok(Operand { base, packets, half })
    }

    fn ends(&self, at: &At) -> Result<Vec<u32>, UnsupportedPlan> {
        let Some(kind @ (ChannelKind::Memory | ChannelKind::Port)) = at.op.channel else {
            return at.refuse("no memory or port channel");
        };
        let tables = &self.plan.ranks[at.rank];
        let numbers = tables.blocks[at.block].channels(kind);
        let known = tables.peers(kind).len();
        let first = self.firsts[at.rank][usize::from(kind == ChannelKind::Port)];
        let end = |&id: &u32| numbers.get(id as usize).filter(|&&number| (number as usize) < known);
        match at.op.ids.iter().map(end).collect::<Option<Vec<_>>>() {
            Some(ends) => Ok(ends.into_iter().map(|&number| first as u32 + number).collect()),
            None => at.refuse(format!("a {kind} channel that does not exist")),
        }
    }

    fn semaphores(&self, at: &At) -> Result<Vec<u32>, UnsupportedPlan> {
        let known = self.plan.ranks[at.rank].semaphores.len() as u32;
        match at.op.ids.iter().find(|&&id| id >= known) {
            Some(id) => at.refuse(format!("semaphore {id} of {known}")),
            None => Ok(at.op.ids.iter().map(|&id| self.semaphores[at.rank] as u32 + id).collect()),
        }
    }
}
