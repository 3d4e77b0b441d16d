//! A plan spelled out for the rules that run it: loops unrolled, channels and semaphores resolved to counters, and memory
//! cut into the pieces that operations touch.
//!
//! * A **step** is one operation of one thread block, in one iteration of its loop. Loops are unrolled for one size of a
//!   chunk ([`sizes`], [`slices`](super::slices)).
//! * An **effect** is what a step does to one range of one memory. Every rank has four memories: input, output, scratch as
//!   plain data, and scratch as packets. Input and output of an in-place plan are one.
//! * An **atom** is a range of a memory that every effect touches wholly or not at all. Atoms are numbered through all
//!   memories, so that what is known of them lies in plain arrays.

mod atoms;
mod build;
mod counter_use;
mod size;
mod space;

use std::ops::Range;

pub(super) use atoms::{Atoms, number as memory_number};
pub(super) use counter_use::CounterUse;
pub(super) use size::{Size, empty, example, rates, sizes, too_many_atoms};
pub(super) use space::Space;

use super::pairing::Pairs;
use super::place::LocatedOp;
use super::symmetry::Symmetry;
use super::view::View;
use crate::plan::{LoopBody, Op, OpKind, PlanTree, Slice};
use crate::types::Protocol;

/// A plan spelled out.
pub(super) struct Model<'p> {
    pub(super) view: View<'p>,
    /// Its tables.
    pub(super) plan: &'p PlanTree,
    pub(super) pairs: &'p Pairs,
    pub(super) size: Size,
    /// How many ranks are looked at, the first ones. Where they stand for all, whatever is said of ranks here is said of these.
    pub(super) ranks: u32,
    pub(super) symmetry: Option<&'p Symmetry>,
    pub(super) agents: Vec<Block>,
    /// Per rank, its agents.
    pub(super) agents_of: Vec<Range<usize>>,
    pub(super) atoms: Atoms,
    /// The steps of all agents, one agent after the other, and one more so that every step has a next one.
    steps: Vec<Step>,
    ids: Vec<u32>,
    /// Where ranks stand for others: per id, by how much the rank is shifted that the signal goes to.
    shifts: Vec<u32>,
    effects: Vec<Access>,
    /// The first semaphore of each rank.
    semaphores: Vec<usize>,
    /// Initial values of all semaphores.
    pub(super) units: Vec<i64>,
    /// Per counter and per semaphore, who uses it.
    pub(super) counters: Vec<CounterUse>,
    pub(super) releases: Vec<CounterUse>,
    /// Barriers in use: rank and number.
    barriers: Vec<(usize, u32)>,
    has_packets: bool,
    /// Whether anything reads or writes plain data in scratch.
    has_plain_scratch: bool,
    has_loops: bool,
    /// Ports as threads see them.
    ports: usize,
    /// Whether the thread blocks of each barrier come to it equally often.
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
    /// Whether it goes through port channels.
    pub(super) port: bool,
    /// Position of the operation in its block.
    index: u32,
    /// Position in the pipeline, from 1; 0 outside of pipelines.
    inner: u32,
    first_id: u32,
    first_effect: u32,
}

/// What a step does to one range of one memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// The atoms, none if the slice or window is empty.
    first: u32,
    end: u32,
    pub(super) owner: u32,
    /// By how much the rank whose memory it really is is shifted from the owner.
    pub(super) shift: u32,
    /// Position of the reference on its side of the operation.
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

/// The id of something that the plan does not have.
pub(super) const NOTHING: u32 = u32::MAX;

impl<'p> Model<'p> {
    pub(super) fn step_at(&self, step: usize) -> &Step {
        &self.steps[step]
    }

    /// What a step's ids stand for: counters for whatever uses channels, numbers of semaphores, the number of a barrier.
    /// The position of an id is that of the thread that serves it.
    pub(super) fn ids(&self, step: usize) -> &[u32] {
        &self.ids[self.steps[step].first_id as usize..self.steps[step + 1].first_id as usize]
    }

    /// By how much the rank is shifted to which the n-th channel of a step leads.
    pub(super) fn shift(&self, step: usize, position: usize) -> u32 {
        self.shifts.get(self.steps[step].first_id as usize + position).copied().unwrap_or(0)
    }

    /// Ranks that each rank stands for.
    pub(super) fn shifts(&self) -> u32 {
        self.plan.ranks.len() as u32 / self.ranks.max(1)
    }

    /// The agent that alone signals on a counter, or one that stands for it.
    pub(super) fn signaller(&self, counter: u32) -> Option<usize> {
        Some(self.counters[counter as usize].signaller()? % self.agents.len())
    }

    /// What a step does to memory, reads first, in the order of its references.
    pub(super) fn effects(&self, step: usize) -> &[Access] {
        &self.effects[self.steps[step].first_effect as usize..self.steps[step + 1].first_effect as usize]
    }

    /// Atoms of all effects: accesses to pieces of memory.
    pub(super) fn piece_accesses(&self) -> usize {
        self.effects.iter().fold(0, |sum, effect| sum.saturating_add(effect.atoms().len()))
    }

    /// Effects of all steps.
    pub(super) fn effect_count(&self) -> usize {
        self.effects.len()
    }

    /// Positions of a step's operation: in its block, and in its loop from 1 on; 0 outside of loops.
    pub(super) fn place_of(&self, step: usize) -> (u32, u32) {
        (self.steps[step].index, self.steps[step].inner)
    }

    /// The chunk at which a range of so many begins that an effect covers, or the first window of the slice that it covers.
    /// Nothing of effects without atoms.
    pub(super) fn first_chunk(&self, slice: Option<Slice>, chunks: u32, effect: &Access) -> Option<u64> {
        let before = self.size.range(slice, None, 0, chunks).start;
        let begin = self.range(effect).start.checked_sub(before).filter(|_| !effect.atoms().is_empty())?;
        Some(begin / self.size.chunk().max(1))
    }

    /// Whether the plan has loops.
    pub(super) fn has_loops(&self) -> bool {
        self.has_loops
    }

    /// Whether a step belongs to an iteration of a loop.
    pub(super) fn in_loop(&self, step: usize) -> bool {
        self.steps[step].inner > 0
    }

    /// The positions of all iterations' windows of an effect that no slice cuts, in a run that makes few of them. Nothing of steps
    /// outside of loops, and of other runs.
    pub(super) fn windows(&self, agent: usize, step: usize, effect: &Access) -> Option<Range<u64>> {
        let (index, body) = self.loop_of(agent, step).filter(|_| self.in_loop(step) && self.size.makes_few())?;
        let length = self.size.range(None, None, 0, body.num_chunks).end;
        let is_inside = |step: &usize| *step >= self.agents[agent].steps.start && self.steps[*step].index == index;
        let earlier = (1..).map_while(|n| step.checked_sub(n * body.ops.len())).take_while(is_inside);
        let before = (earlier.count() as u64).checked_mul(length.div_ceil(self.size.trips(body).max(1)))?;
        let start = self.range(effect).start.checked_sub(before)?;
        Some(start..start + length)
    }

    /// Whether a step is the first one of an iteration, or the first one behind a loop.
    pub(super) fn begins_window(&self, agent: usize, step: usize) -> bool {
        match self.steps[step].inner {
            0 => step > self.agents[agent].steps.start && self.in_loop(step - 1),
            inner => inner == 1,
        }
    }

    /// The loop that a step belongs to: its position in its block, and what it repeats.
    pub(super) fn loop_of(&self, agent: usize, step: usize) -> Option<(u32, &'p LoopBody)> {
        let body = self.placed(agent, step).inside?.1.body.as_deref()?;
        Some((self.steps[step].index, body))
    }

    /// Whether a step of a loop belongs to its last iteration.
    pub(super) fn in_last_iteration(&self, agent: usize, step: usize) -> bool {
        let Some((index, body)) = self.loop_of(agent, step) else { return true };
        let later = step + body.ops.len();
        later >= self.agents[agent].steps.end || self.steps[later].index != index
    }

    /// The steps of a loop's last iteration, if a step is the last one of them.
    pub(super) fn iteration_left(&self, agent: usize, step: usize) -> Option<Range<usize>> {
        if !self.in_loop(step) {
            return None;
        }
        let (_, body) = self.loop_of(agent, step)?;
        let is_last = self.steps[step].inner as usize == body.ops.len() && self.in_last_iteration(agent, step);
        is_last.then(|| step + 1 - body.ops.len()..step + 1)
    }

    /// The operation of a step.
    pub(super) fn op(&self, agent: usize, step: usize) -> &'p Op {
        self.placed(agent, step).op
    }

    /// The operation of a step and where it stands.
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

    /// The agent whose step this is.
    pub(super) fn agent_of(&self, step: usize) -> usize {
        self.agents.partition_point(|agent| agent.steps.end <= step)
    }

    /// Whether all that is counted is seen to be done equally often on both sides, without a closer look at loops.
    pub(super) fn is_balanced(&self) -> bool {
        let mut traffic = self.counters.iter().chain(&self.releases);
        !self.has_loops && self.barriers_agree && traffic.all(|traffic| traffic.up == traffic.down)
    }

    /// Whether anything reads or writes packets.
    pub(super) fn has_packets(&self) -> bool {
        self.has_packets
    }

    /// Whether it is seen at a glance that packets and plain data keep apart in scratch: there are not both.
    pub(super) fn keeps_scratch_apart(&self) -> bool {
        match self.has_packets {
            true => self.plan.protocol == Protocol::LL && !self.has_plain_scratch,
            false => !(self.plan.double_scratch && self.has_plain_scratch),
        }
    }

    /// How many ports there are as threads see them: one for every thread that gives something to a channel end.
    pub(super) fn ports(&self) -> usize {
        self.ports
    }

    /// The positions that an effect covers.
    pub(super) fn range(&self, effect: &Access) -> Range<u64> {
        self.atoms.start(effect.first as usize)..self.atoms.start(effect.end as usize)
    }

    /// How many positions an effect covers.
    pub(super) fn length(&self, effect: &Access) -> u64 {
        self.atoms.start(effect.end as usize) - self.atoms.start(effect.first as usize)
    }

    pub(super) fn barriers(&self) -> usize {
        self.barriers.len()
    }

    /// The number of a barrier on its rank.
    pub(super) fn barrier(&self, number: u32) -> u32 {
        self.barriers[number as usize].1
    }

    /// Rank of a semaphore, and its number there.
    pub(super) fn semaphore(&self, number: u32) -> (usize, u32) {
        let rank = self.semaphores.partition_point(|&first| first <= number as usize) - 1;
        (rank, number - self.semaphores[rank] as u32)
    }
}
