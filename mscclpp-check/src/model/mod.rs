//! The model of a plan that the rules execute: loops unrolled, channels and semaphores resolved to counters, and memory
//! divided into the atoms that operations access.
//!
//! * A **step** is one operation of one thread block, in one iteration of its loop. Loops are unrolled for one size of
//!   a chunk ([`sizes`], [`slices`](super::slices)).
//! * An **access** is one read or write of a range of one buffer by a step. Every rank has four buffers: input, output,
//!   scratch for plain data, and scratch for packets. Input and output of an in-place plan are one buffer.
//! * An **atom** is a range of a buffer that every access covers fully or not at all. Atoms are numbered through all
//!   buffers, so that their state is stored in plain arrays.

mod atoms;
mod build;
mod counter_use;
mod size;

use std::ops::Range;

pub(super) use crate::space::Space;
pub(super) use atoms::{Atoms, number as memory_number};
pub(super) use counter_use::CounterUse;
pub(super) use size::{Size, empty, example, rates, sizes, too_many_atoms};

use super::pairing::Pairs;
use super::place::LocatedOp;
use super::symmetry::Symmetry;
use super::view::View;
use mscclpp_plan::raw::{LoopBody, Op, OpKind, PlanTree, Slice};
use mscclpp_plan::types::Protocol;

/// The model of a plan at one size.
pub(super) struct Model<'p> {
    pub(super) view: View<'p>,
    /// The tables of the plan.
    pub(super) plan: &'p PlanTree,
    pub(super) pairs: &'p Pairs,
    pub(super) size: Size,
    /// The number of representative ranks, which are the first ones. In this model, all ranks are representative ranks.
    pub(super) ranks: u32,
    pub(super) symmetry: Option<&'p Symmetry>,
    pub(super) agents: Vec<Block>,
    /// Per rank, its agents.
    pub(super) agents_of: Vec<Range<usize>>,
    pub(super) atoms: Atoms,
    /// The steps of all agents, one agent after the other, and one more so that every step has a successor.
    steps: Vec<Step>,
    ids: Vec<u32>,
    /// With symmetry reduction: per id, the rotation of the rank that receives the signal.
    shifts: Vec<u32>,
    effects: Vec<Access>,
    /// The first semaphore of each rank.
    semaphores: Vec<usize>,
    /// Initial values of all semaphores.
    pub(super) units: Vec<i64>,
    /// Per counter and per semaphore, the threads that use it.
    pub(super) counters: Vec<CounterUse>,
    pub(super) releases: Vec<CounterUse>,
    /// The barriers of the plan: rank and number.
    barriers: Vec<(usize, u32)>,
    has_packets: bool,
    /// Whether any operation reads or writes plain data in scratch.
    has_plain_scratch: bool,
    has_loops: bool,
    /// Number of ports, counted per thread that uses them.
    ports: usize,
    /// Whether the thread blocks of each barrier execute it the same number of times.
    barriers_agree: bool,
}

/// A thread block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) rank: usize,
    pub(super) block: usize,
    /// Its steps.
    pub(super) steps: Range<usize>,
}

/// One operation of one thread block, in one iteration of its loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) kind: OpKind,
    /// Whether it uses port channels.
    pub(super) port: bool,
    /// Position of the operation in its block.
    index: u32,
    /// Position in the pipeline, from 1; 0 outside of pipelines.
    inner: u32,
    first_id: u32,
    first_effect: u32,
}

/// The access of a step to one range of one buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// The first atom; the range is empty if the slice or window is.
    first: u32,
    end: u32,
    pub(super) owner: u32,
    /// The rotation from the owner to the rank whose buffer is accessed.
    pub(super) shift: u32,
    /// Position of the operand among the operation's sources or destinations.
    pub(super) position: u32,
    pub(super) memory: Space,
    pub(super) write: bool,
}

impl Access {
    pub(super) fn atoms(&self) -> Range<usize> {
        self.first as usize..self.end as usize
    }

    pub(super) fn packets(&self) -> bool {
        self.memory == Space::Packets
    }
}

/// The id of an object that the plan does not have.
pub(super) const NOTHING: u32 = u32::MAX;

impl<'p> Model<'p> {
    pub(super) fn step_at(&self, step: usize) -> &Step {
        &self.steps[step]
    }

    /// Returns the ids of a step: counters for operations on channels, numbers of semaphores, the number of a barrier.
    /// The position of an id is that of the thread that executes it.
    pub(super) fn ids(&self, step: usize) -> &[u32] {
        &self.ids[self.steps[step].first_id as usize..self.steps[step + 1].first_id as usize]
    }

    /// Returns the rotation of the rank to which the n-th channel of a step leads.
    pub(super) fn shift(&self, step: usize, position: usize) -> u32 {
        self.shifts.get(self.steps[step].first_id as usize + position).copied().unwrap_or(0)
    }

    /// Returns the number of ranks that each representative represents.
    pub(super) fn shifts(&self) -> u32 {
        self.plan.ranks.len() as u32 / self.ranks.max(1)
    }

    /// Returns the only agent that signals on a counter, or its representative.
    pub(super) fn signaler(&self, counter: u32) -> Option<usize> {
        Some(self.counters[counter as usize].signaler()? % self.agents.len())
    }

    /// Returns the accesses of a step, reads first, in the order of its operands.
    pub(super) fn effects(&self, step: usize) -> &[Access] {
        &self.effects[self.steps[step].first_effect as usize..self.steps[step + 1].first_effect as usize]
    }

    /// Returns the number of accesses to atoms.
    pub(super) fn piece_accesses(&self) -> usize {
        self.effects.iter().fold(0, |sum, effect| sum.saturating_add(effect.atoms().len()))
    }

    /// Returns the number of accesses of all steps.
    pub(super) fn effect_count(&self) -> usize {
        self.effects.len()
    }

    /// Returns the positions of a step's operation: in its block, and in its loop from 1; 0 outside of loops.
    pub(super) fn place_of(&self, step: usize) -> (u32, u32) {
        (self.steps[step].index, self.steps[step].inner)
    }

    /// Returns the first chunk of the range of `chunks` chunks that an access covers, or of the first window of the
    /// slice that it covers. `None` for accesses without atoms.
    pub(super) fn first_chunk(&self, slice: Option<Slice>, chunks: u32, effect: &Access) -> Option<u64> {
        let before = self.size.range(slice, None, 0, chunks).start;
        let begin = self.range(effect).start.checked_sub(before).filter(|_| !effect.atoms().is_empty())?;
        Some(begin / self.size.chunk().max(1))
    }

    /// Returns whether the plan has loops.
    pub(super) fn has_loops(&self) -> bool {
        self.has_loops
    }

    /// Returns whether a step belongs to an iteration of a loop.
    pub(super) fn in_loop(&self, step: usize) -> bool {
        self.steps[step].inner > 0
    }

    /// Returns the addresses of all iterations' windows of an access without a slice, in an execution with few
    /// iterations. `None` for steps outside of loops, and in other executions.
    pub(super) fn windows(&self, agent: usize, step: usize, effect: &Access) -> Option<Range<u64>> {
        let (index, body) = self.loop_of(agent, step).filter(|_| self.in_loop(step) && self.size.makes_few())?;
        let length = self.size.range(None, None, 0, body.num_chunks).end;
        let is_inside = |step: &usize| *step >= self.agents[agent].steps.start && self.steps[*step].index == index;
        let earlier = (1..).map_while(|n| step.checked_sub(n * body.ops.len())).take_while(is_inside);
        let before = (earlier.count() as u64).checked_mul(length.div_ceil(self.size.trips(body).max(1)))?;
        let start = self.range(effect).start.checked_sub(before)?;
        Some(start..start + length)
    }

    /// Returns whether a step is the first one of an iteration, or the first one after a loop.
    pub(super) fn begins_window(&self, agent: usize, step: usize) -> bool {
        match self.steps[step].inner {
            0 => step > self.agents[agent].steps.start && self.in_loop(step - 1),
            inner => inner == 1,
        }
    }

    /// Returns the loop that a step belongs to: its position in its block, and its body.
    pub(super) fn loop_of(&self, agent: usize, step: usize) -> Option<(u32, &'p LoopBody)> {
        let body = self.placed(agent, step).inside?.1.body.as_deref()?;
        Some((self.steps[step].index, body))
    }

    /// Returns whether a step of a loop belongs to the last iteration.
    pub(super) fn in_last_iteration(&self, agent: usize, step: usize) -> bool {
        let Some((index, body)) = self.loop_of(agent, step) else { return true };
        let later = step + body.ops.len();
        later >= self.agents[agent].steps.end || self.steps[later].index != index
    }

    /// Returns the steps of a loop's last iteration, if a step is the last one of them.
    pub(super) fn iteration_left(&self, agent: usize, step: usize) -> Option<Range<usize>> {
        if !self.in_loop(step) {
            return None;
        }
        let (_, body) = self.loop_of(agent, step)?;
        let is_last = self.steps[step].inner as usize == body.ops.len() && self.in_last_iteration(agent, step);
        is_last.then(|| step + 1 - body.ops.len()..step + 1)
    }

    /// Returns the operation of a step.
    pub(super) fn op(&self, agent: usize, step: usize) -> &'p Op {
        self.placed(agent, step).op
    }

    /// Returns the operation of a step and its location.
    pub(super) fn placed(&self, agent: usize, step: usize) -> LocatedOp<'p> {
        let Block { rank, block, .. } = self.agents[agent];
        let Step { index, inner, .. } = self.steps[step];
        let (index, instances) = (index as usize, self.view.instances());
        let op = &self.view.ops(rank, block)[index];
        let whole = LocatedOp { rank, block, index, inside: None, op, instances };
        match (&op.body, inner.checked_sub(1)) {
            (Some(body), Some(i)) => LocatedOp { inside: Some((i as usize, op)), op: &body.ops[i as usize], ..whole },
            _ => whole,
        }
    }

    /// Returns the agent that executes a step.
    pub(super) fn agent_of(&self, step: usize) -> usize {
        self.agents.partition_point(|agent| agent.steps.end <= step)
    }

    /// Returns whether all counters have equally many increments and decrements, as far as that needs no analysis of loops.
    pub(super) fn is_balanced(&self) -> bool {
        let mut traffic = self.counters.iter().chain(&self.releases);
        !self.has_loops && self.barriers_agree && traffic.all(|traffic| traffic.up == traffic.down)
    }

    /// Returns whether any operation reads or writes packets.
    pub(super) fn has_packets(&self) -> bool {
        self.has_packets
    }

    /// Returns whether the plan uses only packets in scratch, or only plain data, so that the two are separate.
    pub(super) fn keeps_scratch_apart(&self) -> bool {
        match self.has_packets {
            true => self.plan.protocol == Protocol::LL && !self.has_plain_scratch,
            false => !(self.plan.double_scratch && self.has_plain_scratch),
        }
    }

    /// Returns the number of ports, one for every thread that posts triggers to a channel end.
    pub(super) fn ports(&self) -> usize {
        self.ports
    }

    /// Returns the addresses that an access covers.
    pub(super) fn range(&self, effect: &Access) -> Range<u64> {
        self.atoms.start(effect.first as usize)..self.atoms.start(effect.end as usize)
    }

    /// Returns the number of addresses that an access covers.
    pub(super) fn length(&self, effect: &Access) -> u64 {
        self.atoms.start(effect.end as usize) - self.atoms.start(effect.first as usize)
    }

    pub(super) fn barriers(&self) -> usize {
        self.barriers.len()
    }

    /// Returns the number of a barrier on its rank.
    pub(super) fn barrier(&self, number: u32) -> u32 {
        self.barriers[number as usize].1
    }

    /// Returns the rank of a semaphore, and its number there.
    pub(super) fn semaphore(&self, number: u32) -> (usize, u32) {
        let rank = self.semaphores.partition_point(|&first| first <= number as usize) - 1;
        (rank, number - self.semaphores[rank] as u32)
    }
}
