//! A plan run in the abstract: agents (thread blocks), and what they wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use rangemap::RangeSet;

use super::effect::{Effect, effects};
use super::pairing::{Pairs, signals, waits};
use super::place::{Placed, each};
use crate::plan::{Op, OpKind, PlanTree};
use crate::vocab::ChannelKind;

/// A plan while it runs.
pub(super) struct Machine<'p> {
    pub(super) plan: &'p PlanTree,
    pub(super) pairs: &'p Pairs,
    pub(super) agents: Vec<Agent<'p>>,
    chunk_bytes: u64,
    /// Signals sent and not waited for yet.
    counters: Vec<u64>,
    /// Per rank.
    semaphores: Vec<Vec<i64>>,
    /// Per rank and barrier, the agents that have arrived.
    barriers: BTreeMap<(usize, u32), Vec<usize>>,
    /// Per rank, the packets written, in parts of a chunk.
    packets: Vec<RangeSet<u64>>,
    /// Parts of a chunk, so that slices of all groups begin and end at one.
    parts: u64,
    waiting: Waiting,
    ready: VecDeque<usize>,
}

/// A thread block at work.
pub(super) struct Agent<'p> {
    pub(super) rank: usize,
    pub(super) block: usize,
    ops: &'p [Op],
    next: usize,
    /// Iteration, and position in the body, of the pipeline that is the next operation.
    inner: (u64, usize),
    /// Which of the current operation's ids are served; on a barrier, whether it opened.
    served: Vec<bool>,
    /// What the current operation waits for.
    pub(super) need: Option<Need>,
}

/// Somebody who looks on while a plan runs.
pub(super) trait Watch<'p> {
    /// An agent has done an operation; a wait or acquire has got all that it needs. Barriers are done once
    /// [`met`](Self::met) has been called.
    fn done(&mut self, machine: &Machine<'p>, agent: usize, at: &Placed<'p>);

    /// The agents of a barrier have all arrived, and none has gone on yet.
    fn met(&mut self, agents: &[usize]);
}

/// What an agent lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// A signal on a counter.
    Signal(usize),
    /// A unit of a semaphore of its rank.
    Semaphore(u32),
    /// The other blocks of a barrier of its rank.
    Barrier(u32),
    /// Packets in its rank's scratch, in parts of a chunk.
    Packets(Range<u64>),
}

/// Agents by what they wait for.
struct Waiting {
    signal: Vec<Vec<usize>>,
    semaphore: Vec<Vec<Vec<usize>>>,
    packets: Vec<Vec<usize>>,
}

/// Iterations of the loop that has most: enough to use up semaphores that start above 0, within reason.
const MOST_TRIPS: u64 = 16;

/// What is to be known of a plan before it runs.
pub(super) struct Survey {
    /// The sizes of a chunk, in bytes, at which the plan is worth running: a few iterations of the loop that has most,
    /// and one iteration of every loop. Plans without loops run the same at every size.
    pub(super) sizes: Vec<u64>,
    /// Parts of a chunk, so that slices of all groups begin and end at one.
    parts: u64,
}

impl Survey {
    pub(super) fn of(plan: &PlanTree) -> Self {
        let highest = plan.ranks.iter().flat_map(|rank| &rank.semaphores).max().copied().unwrap_or(0);
        let trips = u64::try_from(highest).unwrap_or(0).saturating_add(2).clamp(3, MOST_TRIPS);
        let mut most = None;
        let mut groups = BTreeSet::new();
        each(plan, &mut |at| {
            if let Some(body) = &at.op.body {
                let size = trips.saturating_mul(body.unit) / u64::from(body.num_chunks.max(1));
                most = Some(most.unwrap_or(u64::MAX).min(size.max(1)));
            }
            if let Some(slice) = at.op.slice {
                groups.insert(slice.of);
            }
        });
        Self {
            sizes: most.into_iter().chain([1]).collect(),
            parts: groups.iter().fold(1, |parts, &size| least_common_multiple(parts, u64::from(size))),
        }
    }
}

/// Slices of more members than this share parts.
const MOST_PARTS: u64 = 1 << 20;

impl<'p> Machine<'p> {
    /// A plan about to run, with chunks of so many bytes.
    pub(super) fn new(plan: &'p PlanTree, pairs: &'p Pairs, survey: &Survey, chunk_bytes: u64) -> Self {
        let mut agents = Vec::new();
        for (rank, tables) in plan.ranks.iter().enumerate() {
            for (block, list) in tables.blocks.iter().enumerate() {
                let ops = list.ops.as_slice();
                agents.push(Agent { rank, block, ops, next: 0, inner: (0, 0), served: Vec::new(), need: None });
            }
        }
        Self {
            plan,
            chunk_bytes,
            counters: vec![0; pairs.counters()],
            semaphores: plan.ranks.iter().map(|tables| tables.semaphores.clone()).collect(),
            barriers: BTreeMap::new(),
            packets: vec![RangeSet::new(); plan.ranks.len()],
            parts: survey.parts,
            waiting: Waiting {
                signal: vec![Vec::new(); pairs.counters()],
                semaphore: plan.ranks.iter().map(|tables| vec![Vec::new(); tables.semaphores.len()]).collect(),
                packets: vec![Vec::new(); plan.ranks.len()],
            },
            ready: (0..agents.len()).collect(),
            pairs,
            agents,
        }
    }

    /// Runs until every agent is at its end or waits, under somebody's eyes.
    pub(super) fn run(&mut self, watch: &mut impl Watch<'p>) {
        while let Some(agent) = self.ready.pop_front() {
            self.agents[agent].need = None;
            while let Some(at) = self.current(agent) {
                if let Err(need) = self.perform(agent, &at, watch) {
                    self.wait(agent, need);
                    break;
                }
                watch.done(self, agent, &at);
                self.move_on(agent);
            }
        }
    }

    /// The operation at which an agent is; steps into pipelines and over finished ones.
    fn current(&mut self, agent: usize) -> Option<Placed<'p>> {
        let agent = &mut self.agents[agent];
        loop {
            let op = agent.ops.get(agent.next)?;
            let whole = Placed { rank: agent.rank, block: agent.block, index: agent.next, inside: None, op };
            let Some(body) = &op.body else { return Some(whole) };
            let trips =
                (u128::from(body.num_chunks) * u128::from(self.chunk_bytes)).div_ceil(u128::from(body.unit.max(1)));
            let (iteration, position) = agent.inner;
            match body.ops.get(position) {
                Some(inner) if u128::from(iteration) < trips => {
                    return Some(Placed { inside: Some((position, op)), op: inner, ..whole });
                }
                _ => {
                    agent.inner = (0, 0);
                    agent.next += 1;
                }
            }
        }
    }

    fn move_on(&mut self, agent: usize) {
        let agent = &mut self.agents[agent];
        agent.served.clear();
        match agent.ops.get(agent.next).and_then(|op| op.body.as_ref()) {
            None => agent.next += 1,
            Some(body) if agent.inner.1 + 1 < body.ops.len() => agent.inner.1 += 1,
            Some(_) => agent.inner = (agent.inner.0 + 1, 0),
        }
    }

    /// Does what an operation does, unless it must wait for something.
    fn perform(&mut self, agent: usize, at: &Placed<'p>, watch: &mut impl Watch<'p>) -> Result<(), Need> {
        let kind = at.op.kind;
        if waits(kind) {
            return self.take_all(agent, at, |machine, id| {
                let Some(counter) = machine.pairs.incoming(machine.plan, at, id) else { return Ok(()) };
                let signals = &mut machine.counters[counter];
                *signals = signals.checked_sub(1).ok_or(Need::Signal(counter))?;
                Ok(())
            });
        }
        match kind {
            OpKind::SemaphoreAcquire => self.take_all(agent, at, |machine, id| {
                let value = &mut machine.semaphores[at.rank][id as usize];
                if *value <= 0 {
                    return Err(Need::Semaphore(id));
                }
                *value -= 1;
                Ok(())
            }),
            OpKind::SemaphoreRelease => {
                for &id in &at.op.ids {
                    self.semaphores[at.rank][id as usize] += 1;
                    self.ready.extend(self.waiting.semaphore[at.rank][id as usize].drain(..));
                }
                Ok(())
            }
            OpKind::Barrier => self.arrive(agent, at, watch),
            _ if handles_packets(kind) => self.move_packets(at),
            _ => Ok(()),
        }?;
        if signals(kind) {
            for &id in &at.op.ids {
                if let Some(counter) = self.pairs.outgoing(self.plan, at, id) {
                    self.counters[counter] += 1;
                    self.ready.extend(self.waiting.signal[counter].drain(..));
                }
            }
        }
        Ok(())
    }

    /// Serves an operation's ids, each once; every id is served by a thread of its own.
    fn take_all(
        &mut self,
        agent: usize,
        at: &Placed,
        take: impl Fn(&mut Self, u32) -> Result<(), Need>,
    ) -> Result<(), Need> {
        self.agents[agent].served.resize(at.op.ids.len(), false);
        let mut missing = None;
        for (i, &id) in at.op.ids.iter().enumerate() {
            if self.agents[agent].served[i] {
                continue;
            }
            match take(self, id) {
                Ok(()) => self.agents[agent].served[i] = true,
                Err(need) => missing = missing.or(Some(need)),
            }
        }
        missing.map_or(Ok(()), Err)
    }

    fn arrive(&mut self, agent: usize, at: &Placed, watch: &mut impl Watch<'p>) -> Result<(), Need> {
        if !self.agents[agent].served.is_empty() {
            return Ok(());
        }
        let id = at.op.ids[0];
        let arrived = self.barriers.entry((at.rank, id)).or_default();
        arrived.push(agent);
        if arrived.len() < at.op.blocks as usize {
            return Err(Need::Barrier(id));
        }
        let arrived = std::mem::take(arrived);
        watch.met(&arrived);
        for other in arrived {
            if other != agent {
                self.agents[other].served.push(true);
                self.ready.push_back(other);
            }
        }
        Ok(())
    }

    fn move_packets(&mut self, at: &Placed) -> Result<(), Need> {
        let mut touched = Vec::new();
        effects(self.plan, at, &mut |effect| touched.push(effect));
        // A port moves whatever is there; others wait for what they read.
        let unseen = at.op.kind == OpKind::PutPackets && at.op.channel == Some(ChannelKind::Port);
        for effect in touched.iter().filter(|effect| effect.packets && !effect.write) {
            let range = self.parts_of(at, effect);
            let gap = self.packets[effect.owner as usize].gaps(&range).next();
            match gap {
                Some(_) if unseen => return Ok(()),
                Some(gap) => return Err(Need::Packets(gap)),
                None => {}
            }
        }
        for effect in touched.iter().filter(|effect| effect.packets && effect.write) {
            let range = self.parts_of(at, effect);
            if !range.is_empty() {
                self.packets[effect.owner as usize].insert(range);
                self.ready.extend(self.waiting.packets[effect.owner as usize].drain(..));
            }
        }
        Ok(())
    }

    fn wait(&mut self, agent: usize, need: Need) {
        let rank = self.agents[agent].rank;
        match &need {
            Need::Signal(counter) => self.waiting.signal[*counter].push(agent),
            Need::Semaphore(id) => self.waiting.semaphore[rank][*id as usize].push(agent),
            Need::Barrier(_) => {}
            Need::Packets(_) => self.waiting.packets[rank].push(agent),
        }
        self.agents[agent].need = Some(need);
    }

    /// The iteration and the unit of the loop that an agent is in.
    pub(super) fn window(&self, agent: usize) -> Option<(u64, u64)> {
        let Agent { ops, next, inner, .. } = &self.agents[agent];
        ops.get(*next)?.body.as_ref().map(|body| (inner.0, body.unit))
    }

    /// Bytes of a chunk in this run.
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// The parts of scratch that an effect touches: the slice of its operation in its range.
    fn parts_of(&self, at: &Placed, effect: &Effect) -> Range<u64> {
        let (index, size) = (u64::from(effect.range.index), u64::from(effect.range.size) * self.parts);
        let cut = |number: u32, of: u32| {
            let part = u128::from(size) * u128::from(number) / u128::from(of.max(1));
            index * self.parts + part as u64
        };
        match at.op.slice {
            None => cut(0, 1)..cut(1, 1),
            Some(slice) => cut(slice.index, slice.of)..cut(slice.index + 1, slice.of),
        }
    }

    /// Parts of a chunk (or of a byte), so that slices of all groups begin and end at one.
    pub(super) fn parts(&self) -> u64 {
        self.parts
    }

    /// Where an agent is.
    pub(super) fn position(&self, agent: usize) -> Option<Placed<'p>> {
        self.ahead(agent).next()
    }

    /// The operations that an agent has not done, the current one first, bodies of loops once.
    fn ahead(&self, agent: usize) -> impl Iterator<Item = Placed<'p>> + use<'p> {
        let Agent { rank, block, ops, next, inner, .. } = self.agents[agent];
        ops.iter().enumerate().skip(next).flat_map(move |(index, op)| {
            let whole = Placed { rank, block, index, inside: None, op };
            let body = op.body.as_ref().map_or(&[][..], |body| body.ops.as_slice());
            let begun = if index == next { inner.1.min(body.len()) } else { 0 };
            let order = (begun..body.len()).chain(0..begun);
            let inner = order.map(move |i| Placed { inside: Some((i, op)), op: &body[i], ..whole });
            let itself = op.body.is_none().then_some(whole);
            itself.into_iter().chain(inner)
        })
    }

    /// An operation that an agent has yet to do and that would serve what another one on `rank` needs.
    pub(super) fn server(&self, agent: usize, rank: usize, need: &Need) -> Option<Placed<'p>> {
        let local = self.agents[agent].rank == rank;
        self.ahead(agent).find(|at| match need {
            Need::Signal(counter) => {
                signals(at.op.kind)
                    && at.op.ids.iter().any(|&id| self.pairs.outgoing(self.plan, at, id) == Some(*counter))
            }
            Need::Semaphore(id) => local && at.op.kind == OpKind::SemaphoreRelease && at.op.ids.contains(id),
            Need::Barrier(id) => local && at.op.kind == OpKind::Barrier && at.op.ids.contains(id),
            Need::Packets(range) => {
                handles_packets(at.op.kind) && {
                    let mut serves = false;
                    effects(self.plan, at, &mut |effect| {
                        let parts = self.parts_of(at, &effect);
                        let overlap = parts.start < range.end && range.start < parts.end;
                        serves |= effect.write && effect.packets && effect.owner as usize == rank && overlap;
                    });
                    serves
                }
            }
        })
    }
}

/// Whether an operation reads or writes packets.
fn handles_packets(kind: OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::CopyPackets
            | K::UnpackPackets
            | K::PutPackets
            | K::ReadPutPackets
            | K::ReducePackets
            | K::ReduceSendPackets
            | K::ReduceCopyPackets
            | K::ReduceCopySendPackets
            | K::SwitchBroadcastPackets
    )
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b.max(1));
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b.max(1)).min(MOST_PARTS)
}
