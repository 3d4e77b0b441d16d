//! Rule 5: no two accesses collide that nothing orders.
//!
//! Two accesses collide if they touch the same bytes and one of them writes. The plan runs once in the abstract, and
//! every agent keeps what it knows to be over, and what of it it can see ([`clock::Knowledge`]):
//!
//! * Operations of one block between two block syncs (`nop`, barrier) are in no order, since threads run ahead of each
//!   other, unless both give the colliding elements to the same threads.
//! * A signal, wait, acquire or release is executed by single threads, one for each of its channels or semaphores. A
//!   signal tells what its block had done before the last block sync, and what its own thread has waited for since; a
//!   wait tells one thread, and the block from the next block sync on.
//! * Relaxed signals and waits tell what is over, but make nothing visible. Overwriting what is over is fine; reading it,
//!   or overwriting a write that is not visible, is not.
//! * A port channel is an agent of its own. It does one thing after the other, later than it was told to: puts read and
//!   write when it likes, its signals come behind its puts, and a flush waits until it has read its sources.
//! * Packets carry their own flags. Reading one waits for its write, so those two need no order, and the reader knows
//!   what the writer's thread had done to be over.
//!
//! Where several agents signal or release to one counter, the order of this run decides whose word a wait gets. A packet
//! speaks for the whole operation that wrote it, though strictly each speaks for one thread.

mod clock;
mod memory;
mod story;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use smallvec::SmallVec;

use super::MOST_FINDINGS;
use super::effect::{Effect, effects};
use super::machine::{Machine, Watch};
use super::pairing::{signals, waits};
use super::place::{Placed, home};
use crate::diag::Diagnostics;
use crate::plan::{OpKind, PlanTree};
use crate::vocab::ChannelKind;
use clock::Knowledge;
use memory::{Access, Grain, Mapping, Memory};

/// Bytes that one thread moves at a time in operations on plain data: where chunks begin at multiples of it, equal
/// ranges belong to equal threads.
const VECTOR_BYTES: u32 = 16;

/// Looks on while a plan runs, and finds its races.
pub(super) struct Races<'p> {
    plan: &'p PlanTree,
    /// Thread blocks in the order of the machine's agents, then one for every channel end, of which those of ports act.
    agents: Vec<Agent>,
    blocks: usize,
    /// Per rank its input, output, scratch as plain data, and scratch as packets.
    memories: Vec<[Memory; 4]>,
    /// All accesses, by number.
    accesses: Vec<Access<'p>>,
    /// What the signals say that nobody has waited for yet, per counter.
    signals: Vec<VecDeque<Knowledge>>,
    /// The same for the releases of semaphores, behind the units that are there from the start.
    releases: BTreeMap<(usize, u32), (i64, VecDeque<Knowledge>)>,
    found: Diagnostics,
}

#[derive(Default)]
struct Agent {
    /// What all its threads know.
    knows: Knowledge,
    /// What single threads have waited for since the last block sync.
    threads: SmallVec<[(usize, Knowledge); 2]>,
    /// Operations done.
    count: u64,
    /// Operations done at the last block sync.
    epoch: u64,
}

impl Agent {
    /// All threads meet.
    fn meet(&mut self) {
        for (_, knows) in std::mem::take(&mut self.threads) {
            self.knows.join(&knows);
        }
        self.epoch = self.count;
    }

    /// What a thread can tell.
    fn word(&self, number: u32, thread: usize) -> Knowledge {
        let mut word = self.knows.clone();
        for (_, knows) in self.threads.iter().filter(|(other, _)| *other == thread) {
            word.join(knows);
        }
        word.learn(number, self.epoch);
        word
    }

    fn hear(&mut self, thread: usize, word: &Knowledge) {
        match self.threads.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, knows)) => knows.join(word),
            None => self.threads.push((thread, word.clone())),
        }
    }
}

impl<'p> Watch<'p> for Races<'p> {
    fn done(&mut self, machine: &Machine<'p>, agent: usize, at: &Placed<'p>) {
        use OpKind as K;
        let kind = at.op.kind;
        let port = at.op.channel == Some(ChannelKind::Port);
        self.agents[agent].count += 1;
        if kind == K::Nop {
            self.agents[agent].meet();
        } else if kind.is_data() {
            if port {
                self.push(machine, agent, at);
            } else {
                self.touch(machine, agent, at);
            }
        } else if signals(kind) {
            for (thread, &id) in at.op.ids.iter().enumerate() {
                let Some(end) = machine.pairs.outgoing(self.plan, at, id) else { continue };
                let mut word = self.agents[agent].word(agent as u32, thread);
                if port {
                    word = self.tell_port(end, &word);
                }
                self.signal(end, word, kind == K::RelaxedSignal);
            }
        } else if waits(kind) {
            for (thread, &id) in at.op.ids.iter().enumerate() {
                let counter = machine.pairs.incoming(self.plan, at, id);
                let Some(mut word) = counter.and_then(|counter| self.signals[counter].pop_front()) else { continue };
                if kind == K::RelaxedWait {
                    word.seen = Default::default();
                }
                self.agents[agent].hear(thread, &word);
            }
        } else if kind == K::Flush {
            for (thread, &id) in at.op.ids.iter().enumerate() {
                if let Some(end) = machine.pairs.outgoing(self.plan, at, id) {
                    self.flush(agent, thread, end);
                }
            }
        } else if matches!(kind, K::SemaphoreAcquire | K::SemaphoreRelease) {
            for (thread, &id) in at.op.ids.iter().enumerate() {
                let initial = self.plan.ranks[at.rank].semaphores[id as usize];
                let (free, words) = self.releases.entry((at.rank, id)).or_insert((initial, VecDeque::new()));
                if kind == K::SemaphoreRelease {
                    words.push_back(self.agents[agent].word(agent as u32, thread));
                } else if *free > 0 {
                    *free -= 1;
                } else if let Some(word) = words.pop_front() {
                    self.agents[agent].hear(thread, &word);
                }
            }
        }
    }

    fn met(&mut self, agents: &[usize]) {
        let mut all = Knowledge::default();
        for &number in agents {
            let agent = &mut self.agents[number];
            // The barrier itself counts when it is done, which is later.
            agent.meet();
            all.join(&agent.word(number as u32, 0));
        }
        for &agent in agents {
            self.agents[agent].knows = all.clone();
        }
    }
}

impl<'p> Races<'p> {
    pub(super) fn new(plan: &'p PlanTree, machine: &Machine<'p>) -> Self {
        let blocks = machine.agents.len();
        let mut agents = Vec::new();
        agents.resize_with(blocks + machine.pairs.counters(), Agent::default);
        let mut signals = Vec::new();
        signals.resize_with(machine.pairs.counters(), VecDeque::new);
        Self {
            plan,
            agents,
            blocks,
            memories: plan.ranks.iter().map(|_| Default::default()).collect(),
            accesses: Vec::new(),
            signals,
            releases: BTreeMap::new(),
            found: Diagnostics::default(),
        }
    }

    /// What the run has shown.
    pub(super) fn found(self) -> Diagnostics {
        self.found
    }

    fn signal(&mut self, counter: usize, mut word: Knowledge, relaxed: bool) {
        if relaxed {
            word.seen = Default::default();
        }
        self.signals[counter].push_back(word);
    }

    /// A port hears from a thread that gives it something to do; what it can tell afterwards, all before being done.
    fn tell_port(&mut self, end: usize, word: &Knowledge) -> Knowledge {
        let number = self.blocks + end;
        let port = &mut self.agents[number];
        port.knows.join(word);
        port.count += 1;
        port.epoch = port.count;
        port.word(number as u32, 0)
    }

    /// A thread waits until a port has done all that it was given.
    fn flush(&mut self, agent: usize, thread: usize, end: usize) {
        let number = self.blocks + end;
        let port = &self.agents[number];
        let mut word = Knowledge { over: port.knows.over.clone(), ..Default::default() };
        word.over.learn(number as u32, port.count);
        self.agents[agent].hear(thread, &word);
    }

    /// A data operation of a block.
    fn touch(&mut self, machine: &Machine<'p>, agent: usize, at: &Placed<'p>) {
        effects(self.plan, at, &mut |effect| self.access(machine, agent, agent, at, &effect));
    }

    /// A data operation that a block gives to ports, one pair of source and destination per channel.
    fn push(&mut self, machine: &Machine<'p>, agent: usize, at: &Placed<'p>) {
        let mut all = Vec::new();
        effects(self.plan, at, &mut |effect| all.push(effect));
        if at.op.kind == OpKind::ReadPutPackets {
            // The block waits for the packets, and meets, before it pushes.
            all.iter().filter(|effect| !effect.write).for_each(|effect| self.access(machine, agent, agent, at, effect));
            self.agents[agent].meet();
        }
        for (thread, &id) in at.op.ids.iter().enumerate() {
            let Some(end) = machine.pairs.outgoing(self.plan, at, id) else { continue };
            let word = self.agents[agent].word(agent as u32, thread);
            self.agents[self.blocks + end].knows.join(&word);
            for effect in &all {
                let mine = effect.position == thread || at.op.kind == OpKind::ReadPutPackets && !effect.write;
                if mine {
                    self.access(machine, agent, self.blocks + end, at, effect);
                }
            }
            let word = self.tell_port(end, &word);
            if signals(at.op.kind) {
                self.signal(end, word, false);
            }
            if at.op.kind == OpKind::PutWithSignalAndFlush {
                self.flush(agent, thread, end);
            }
        }
    }

    /// One access by `by`, in an operation of the block `agent`.
    fn access(&mut self, machine: &Machine<'p>, agent: usize, by: usize, at: &Placed<'p>, effect: &Effect) {
        let (buffer, index) = home(self.plan, effect.owner, effect.buffer, effect.range.index);
        let range = bytes(machine, agent, at, index, effect.range.size);
        if range.is_empty() {
            return;
        }
        let block = by < self.blocks;
        let count = if block { self.agents[by].count - 1 } else { self.agents[by].count };
        let mut access = Access {
            agent: by as u32,
            count,
            threads: (block && self.plan.buffer_alignment.is_multiple_of(VECTOR_BYTES))
                .then(|| Mapping { range: range.clone(), grain: grain(at.op.kind) }),
            write: effect.write,
            at: *at,
            carries: None,
        };
        let memory = &mut self.memories[effect.owner as usize][if effect.packets { 3 } else { buffer as usize }];
        let state = &self.agents[by];
        // A port's operations are in order; those of a block only across block syncs.
        let epoch = if block { state.epoch } else { u64::MAX };
        // Waiting for a packet's flag takes the place of an order.
        let waits = effect.packets && !effect.write && block;
        let mut heard = Vec::new();
        let mut race = None;
        for (place, cell) in memory.touched(&range) {
            for &old in &cell.writes {
                let old = &self.accesses[old as usize];
                if waits {
                    heard.extend(old.carries.clone());
                    continue;
                }
                // What an order of execution is worth for packets: their flags make them visible.
                let over = ordered(old, &access, epoch, &state.knows.over);
                let fine = if effect.packets { over } else { ordered(old, &access, epoch, &state.knows.seen) };
                if !fine {
                    race.get_or_insert((old, place, over));
                }
            }
            for &old in cell.reads.iter().filter(|_| effect.write) {
                let old = &self.accesses[old as usize];
                if !ordered(old, &access, epoch, &state.knows.over) {
                    race.get_or_insert((old, place, false));
                }
            }
        }
        if let Some((old, place, over)) = race
            && self.found.len() < MOST_FINDINGS
        {
            let chunk = place / (u128::from(machine.chunk_bytes()) * u128::from(machine.parts()));
            self.found.push(story::tell(self.plan, self.blocks, old, &access, (effect, buffer, chunk), over));
        }
        let state = &mut self.agents[by];
        heard.iter().for_each(|over| state.knows.over.join(over));
        if effect.packets && effect.write {
            let mut over = state.knows.over.clone();
            over.learn(by as u32, count + 1);
            access.carries = Some(over);
        }
        let number = self.accesses.len() as u32;
        if effect.write {
            memory.write(range, number);
        } else {
            let (accesses, new) = (&self.accesses, &access);
            // A later read of the same agent stands for earlier ones that are over by then, or in the same threads.
            memory.read(range, number, |old| {
                let old = &accesses[old as usize];
                old.agent == new.agent && (old.count < epoch || old.threads == new.threads)
            });
        }
        self.accesses.push(access);
    }
}

/// Whether an earlier access is over, or happens in the same thread, when a later one begins.
fn ordered(old: &Access, new: &Access, epoch: u64, knows: &clock::Clock) -> bool {
    if old.agent != new.agent {
        return knows.get(old.agent) > old.count;
    }
    old.count < epoch || old.count == new.count || old.threads.is_some() && old.threads == new.threads
}

/// Where a range of chunks lies at the size of this run: the slice of its operation, in the window of its loop.
fn bytes(machine: &Machine, agent: usize, at: &Placed, index: u32, size: u32) -> Range<u128> {
    let parts = u128::from(machine.parts());
    let chunk = u128::from(machine.chunk_bytes()) * parts;
    let start = u128::from(index) * chunk;
    let length = u128::from(size) * chunk;
    let (from, to) = match at.op.slice {
        None => (0, length),
        Some(slice) => {
            let cut = |number: u32| length * u128::from(number) / u128::from(slice.of.max(1));
            (cut(slice.index), cut(slice.index + 1))
        }
    };
    match machine.window(agent) {
        None => start + from..start + to,
        Some((iteration, unit)) => {
            let begin = from + u128::from(iteration) * u128::from(unit) * parts;
            let end = begin + u128::from(unit) * parts;
            start + begin.min(to)..start + end.min(to)
        }
    }
}

/// What the threads of an operation take at a time.
fn grain(kind: OpKind) -> Grain {
    use OpKind as K;
    match kind {
        K::Copy | K::Put | K::Get | K::Reduce | K::ReduceSend | K::ReadReduce | K::ReadReduceSend => Grain::Vector,
        K::SwitchReduce | K::SwitchReduceBroadcast | K::SwitchBroadcast => Grain::Multicast,
        _ => Grain::Packet,
    }
}

#[cfg(test)]
mod tests;
