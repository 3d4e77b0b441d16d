//! Rule 5: no two accesses collide that nothing orders.
//!
//! Two accesses collide if they touch the same bytes and one of them writes. The plan runs once in the abstract, and
//! every agent keeps what it knows to be over, and what of it it can see ([`clock::Clocks`]):
//!
//! 1. Operations of one block between two block syncs (`nop`, barrier) are in no order, since threads run ahead of each
//!    other, unless both give the colliding elements to the same threads.
//! 2. A signal, wait, acquire or release is executed by single threads, one for each of its channels or semaphores. A
//!    signal tells what its block had done before the last block sync, and what its own thread has waited for since; a
//!    wait tells one thread, and the block from the next block sync on.
//! 3. Relaxed signals and waits tell what is over, but make nothing visible. Overwriting what is over is fine; reading it,
//!    or overwriting a write that is not visible, is not.
//! 4. A port channel is an agent of its own. It does one thing after the other, later than it was told to: puts read and
//!    write when it likes, its signals come behind its puts, and a flush waits until it has read its sources. What several
//!    threads give it comes in no order, unless one knows what the other gave it to be over.
//! 5. Packets carry their own flags. Reading one waits for its write, so those two need no order. Who has read all that
//!    one operation wrote knows, from its next block sync on, that those threads of the writer are done with what they
//!    did before: all threads, for operations of the same block that are no longer than the one that was read, and of that
//!    operation what a thread does before it writes there. A slot that is written twice orders nothing. Before its
//!    next block sync each of its threads knows as much of the elements that it read, and what each of those alone can
//!    tell ([`elements`]).
//! 6. The caller owns input and output between launches. What another rank does to them must come after some word from a
//!    rank that has begun, and must be over when the owner's launch is (M0212, M0213).
//! 7. Whatever the next launch does first to scratch comes after what this one did last ([`relaunch`], M0211).
//!
//! 8. Of two that wait on one channel, or acquire one semaphore, one knows the other to be done, unless enough units are
//!    there from the start (M0208).
//!
//! # Why this is sound
//!
//! A clock holds only what is over in every schedule. Where one thread raises a counter and one waits for it, the nth
//! wait gets the nth signal, whatever the schedule; where several do, a wait learns what all schedules have in common
//! ([`words::Words`]). So the one order in which the plan runs here stands for all: if it shows no two accesses that are
//! unordered by these clocks, no order does. Of the accesses to a piece of memory only the last write and the reads since
//! are kept, since whatever comes after these comes after all before.
//!
//! # What is refused though it could not fail
//!
//! Packets of which each of several readers reads a part teach them only what came before the writer's last block sync,
//! until the launch ends, and of single elements what their own packets tell.
//! Elements that are given to threads in another way collide even where the threads would happen to be the same. Several
//! who signal on one counter are believed only what all schedules have in common.

mod cells;
mod clock;
mod elements;
mod packets;
mod ports;
pub(super) mod relaunch;
mod ring;
mod story;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::MOST_FINDINGS;
use super::machine::Watch;
use super::model::{Effect, Model};
use super::pairing::{signals, waits};
use crate::diag::Diagnostics;
use crate::plan::OpKind;
use cells::{Access, Cells, First, Grain, NONE};
use clock::{Clock, Clocks};
use packets::{Carried, Heard, Shared, Told};
use ports::Port;
use ring::Ring;
use words::{Word, Words};

/// Bytes that one thread moves at a time in operations on plain data: where chunks begin at multiples of it, equal
/// ranges belong to equal threads.
const VECTOR_BYTES: u32 = 16;

/// Looks on while a plan runs, and finds its races.
pub(super) struct Races<'m, 'p> {
    model: &'m Model<'p>,
    /// Thread blocks in the order of the model's agents, then the ports that are used.
    agents: Vec<Agent>,
    blocks: usize,
    ring: Ring,
    /// Per channel end, its port as the threads see it that use it.
    ports: BTreeMap<u32, Vec<Port>>,
    /// Atoms of packets that are written more than once.
    rewritten: BTreeSet<usize>,
    /// Writes of the packets that an access waits for.
    awaited: Vec<u32>,
    cells: Cells,
    /// All accesses, by number.
    accesses: Vec<Access>,
    signals: Words,
    releases: Words,
    /// What readers of packets learn.
    carried: Vec<Carried>,
    /// Accesses of scratch that nothing in the launch precedes, and what their agents knew.
    firsts: Vec<First>,
    knew: Vec<Clock>,
    /// Threads that wait for the same as a step does, in no order.
    rivals: Vec<((u32, u32), usize)>,
    clocks: Clocks,
    found: Diagnostics,
    /// Accesses of other ranks' buffers before those have begun.
    early: Diagnostics,
}

#[derive(Default)]
struct Agent {
    /// What all its threads know; of its own turns, those before the last block sync at which somebody was told.
    knows: Clock,
    /// How many of its own turns that includes.
    told: u32,
    /// What single threads have waited for since the last block sync.
    threads: SmallVec<[(u32, Clock); 8]>,
    /// What has been learned from packets since.
    heard: SmallVec<[Heard; 1]>,
    /// What it tells with packets in its current step.
    tells: Option<Shared>,
    /// What it surely knows in its current step, by step and length of a range.
    surely: Option<(u32, u64, Clock)>,
    /// Turns done: each thread takes them one after the other, its elements in all of them.
    count: u32,
    /// Turns done at the last block sync.
    epoch: u32,
    /// Lengths of the longest ranges touched since, by the first turn of the step.
    lengths: SmallVec<[(u32, u64); 2]>,
}

impl Agent {
    /// What was learned from packets all threads know from now on.
    fn listen(&mut self, clocks: &mut Clocks) {
        if !self.heard.is_empty() {
            let heard = clocks.told(self.heard.iter().map(|heard| heard.of_all), Clock::default());
            self.knows = clocks.join(self.knows, heard, true);
            self.heard.clear();
        }
    }

    /// What its threads know one by one.
    fn parts(&self) -> impl Iterator<Item = Clock> + Clone {
        self.threads.iter().map(|(_, knows)| *knows).chain([self.knows])
    }

    /// All threads have met, and know so much.
    fn go_on(&mut self, knows: Clock) {
        self.knows = knows;
        self.threads.clear();
        self.lengths.clear();
        self.epoch = self.count;
    }

    /// All its threads meet.
    fn meet(&mut self, clocks: &mut Clocks) {
        self.listen(clocks);
        let all = match self.threads[..] {
            [] => self.knows,
            [(_, knows)] => clocks.join(self.knows, knows, false),
            _ => clocks.union(self.parts()),
        };
        self.go_on(all);
    }

    /// What all its threads know, its own turns before the last block sync included: what it may tell.
    fn all_know(&mut self, number: u32, clocks: &mut Clocks) -> Clock {
        if self.told < self.epoch {
            self.told = self.epoch;
            self.knows = clocks.learn(self.knows, number, self.epoch);
        }
        self.knows
    }

    /// How many turns of an agent are over for all its threads, whose number is given.
    fn over(&self, number: u32, agent: u32, clocks: &Clocks) -> u32 {
        if agent == number { self.epoch } else { clocks.over(self.knows, agent) }
    }

    /// What each thread knows that has an element of a range of some length.
    fn sure(&self, length: u64) -> impl Iterator<Item = Clock> + Clone {
        let heard = self.heard.iter().filter(move |heard| heard.length >= length);
        heard.map(|heard| heard.of_any).chain([self.knows])
    }

    /// What a thread of the agent can tell.
    fn word(&mut self, number: u32, thread: u32, clocks: &mut Clocks) -> Clock {
        let all = self.all_know(number, clocks);
        let own = self.threads.iter().find(|(other, _)| *other == thread);
        own.map_or(all, |(_, knows)| clocks.join(all, *knows, false))
    }

    fn hear(&mut self, thread: u32, word: Clock, relaxed: bool, clocks: &mut Clocks) {
        match self.threads.iter_mut().find(|(other, _)| *other == thread) {
            Some((_, knows)) => *knows = clocks.join(*knows, word, relaxed),
            None => self.threads.push((thread, clocks.join(Clock::default(), word, relaxed))),
        }
    }
}

impl<'p> Watch<'p> for Races<'_, 'p> {
    fn done(&mut self, model: &Model<'p>, number: usize, step: usize) {
        use OpKind as K;
        let &super::model::Step { kind, port, .. } = model.step_at(step);
        let by = number as u32;
        let begun = self.agents[number].count;
        self.agents[number].count += turns(model, step);
        match kind {
            K::Nop => self.agents[number].meet(&mut self.clocks),
            K::SemaphoreRelease => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let knows = self.agents[number].word(by, thread, &mut self.clocks);
                    let word = Word { knows, relaxed: false };
                    self.releases.send(id, (by, thread), word);
                }
            }
            K::SemaphoreAcquire => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
                    let rival = self.releases.rival(id, (by, thread), begun, |other| agent.over(by, other, clocks));
                    self.rivals.extend(rival.map(|rival| (rival, step)));
                    self.releases.receive(id, (by, thread), |thread, word| {
                        agent.hear(thread, word.knows, false, clocks);
                    });
                }
            }
            K::Flush => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    self.flush((id, by, thread));
                }
            }
            _ if kind.is_data() && port => self.push(number, step, begun),
            _ if kind.is_data() => self.touch(number, step, begun),
            _ if signals(kind) => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let mut knows = self.agents[number].word(by, thread, &mut self.clocks);
                    if port {
                        knows = self.tell_port((id, by, thread), knows);
                    }
                    let relaxed = kind == K::RelaxedSignal;
                    self.signal(id, (by, thread), step, Word { knows, relaxed });
                }
            }
            _ if waits(kind) => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
                    let relaxed = kind == K::RelaxedWait;
                    let rival = self.signals.rival(id, (by, thread), begun, |other| agent.over(by, other, clocks));
                    self.rivals.extend(rival.map(|rival| (rival, step)));
                    self.signals.receive(id, (by, thread), |thread, word| {
                        agent.hear(thread, word.knows, relaxed || word.relaxed, clocks);
                    });
                }
            }
            _ => {}
        }
    }

    fn met(&mut self, agents: &[usize]) {
        // The barrier itself counts when it is done, which is later.
        agents.iter().for_each(|&number| self.agents[number].listen(&mut self.clocks));
        let parts = agents.iter().flat_map(|&number| self.agents[number].parts());
        let turns = agents.iter().map(|&number| (number as u32, self.agents[number].count));
        let all = self.clocks.union_with(parts, turns);
        agents.iter().for_each(|&number| self.agents[number].go_on(all));
    }
}

impl<'m, 'p> Races<'m, 'p> {
    /// Whether there are numbers for all agents.
    pub(super) fn fits(model: &Model<'p>) -> bool {
        Ring::of(model).is_some()
    }

    /// About to look on while a plan runs whose agents can be numbered.
    pub(super) fn new(model: &'m Model<'p>) -> Self {
        let blocks = model.agents.len();
        let ring = Ring::of(model).unwrap_or_default();
        let mut clocks = Clocks::new(ring);
        let begun = |number| Agent { knows: clocks.of(number), ..Agent::default() };
        Self {
            model,
            agents: (0..blocks as u32).map(begun).collect(),
            blocks,
            ring,
            ports: BTreeMap::new(),
            rewritten: BTreeSet::new(),
            awaited: Vec::new(),
            cells: Cells::new(model),
            accesses: Vec::with_capacity(model.effect_count()),
            signals: Words::of_channels(model),
            releases: Words::of_semaphores(model),
            carried: Vec::with_capacity(if model.has_packets() { model.effect_count() / 2 } else { 0 }),
            firsts: Vec::with_capacity(model.effect_count()),
            knew: Vec::with_capacity(model.effect_count() / 2),
            rivals: Vec::new(),
            clocks,
            found: Diagnostics::default(),
            early: Diagnostics::default(),
        }
    }

    /// A thread signals, in a step.
    fn signal(&mut self, id: u32, (by, thread): (u32, u32), step: usize, word: Word) {
        // Who waits has its own view of all.
        let back = self.ring.back(self.model.shift(step, thread as usize));
        let knows = self.clocks.shifted(word.knows, back);
        self.signals.send(id, (self.ring.moved(by, back), thread), Word { knows, ..word });
    }

    /// A data operation of a block, of which so many turns are over when it begins.
    fn touch(&mut self, agent: usize, step: usize, begun: u32) {
        let model = self.model;
        let kind = model.step_at(step).kind;
        for effect in model.effects(step) {
            self.access(agent, agent, step, effect, begun + turn(kind, effect));
        }
        if model.has_packets() {
            let longest = model.effects(step).iter().map(|effect| model.length(effect)).max().unwrap_or(0);
            self.agents[agent].lengths.push((begun, longest));
        }
    }

    /// One access by `by`, in a step of the block `agent`, in a turn of `by`.
    fn access(&mut self, agent: usize, by: usize, step: usize, effect: &Effect, turn: u32) {
        let atoms = effect.atoms();
        if atoms.is_empty() {
            return;
        }
        let block = by < self.blocks;
        let length = self.model.length(effect);
        if effect.write && !self.agents[by].heard.is_empty() {
            self.be_sure(by, step as u32, length);
        }
        // Who has touched a memory is noted as its owner sees it.
        let (state, clocks, ring) = (&self.agents[by], &self.clocks, self.ring);
        let away = ring.places(effect.shift);
        let mut access = Access {
            agent: ring.moved(by as u32, ring.back(effect.shift)),
            count: turn,
            step: step as u32,
            atoms: (atoms.start as u32, atoms.end as u32),
            owner: effect.owner,
            grain: if block { self.grain(step) } else { Grain::Unknown },
            write: effect.write,
            carries: NONE,
        };
        // A port's operations are in order; those of a block only across block syncs.
        let epoch = if block { state.epoch } else { u32::MAX };
        let packets = effect.packets();
        // Whether the thread of each element has read a packet that says that the old access of the element is over.
        let heard_of = |old: &Access| {
            old.grain == Grain::Packet
                && old.atoms == access.atoms
                && access.grain == Grain::Packet
                && state.heard.iter().any(|heard| {
                    heard.length >= length && heard.of_element.over(clocks, ring.moved(old.agent, away)) > old.count
                })
        };
        // Waiting for a packet's flag takes the place of an order.
        let awaits = packets && !effect.write && block;
        let foreign =
            effect.memory.is_callers() && (effect.shift > 0 || effect.owner as usize != self.model.agents[agent].rank);
        let (mut early, mut first) = (false, NONE);
        let mut race = None;
        // The first race is told, up to a number of them: only those are worth a close look.
        let full = self.found.len() >= MOST_FINDINGS;
        // Neighbouring atoms mostly have the same past.
        let mut fine_write = NONE;
        for atom in atoms.clone() {
            let write = self.cells.write(atom);
            if write == NONE {
                if effect.memory.is_callers() {
                    let owner = &ring.range(&self.model.agents_of[effect.owner as usize], effect.shift);
                    early = early || foreign && !state.sure(length).any(|clock| clocks.knows_any(clock, owner));
                } else {
                    if first == NONE {
                        first = self.knew.len() as u32;
                        self.knew.push(match state.surely {
                            Some((known, range, clock)) if (known, range) == (access.step, length) => clock,
                            _ => state.knows,
                        });
                    }
                    self.firsts.push(First { atom: atom as u32, access: self.accesses.len() as u32, knew: first });
                }
            } else if awaits && !self.rewritten.contains(&atom) {
                if self.awaited.last() != Some(&write) {
                    self.awaited.push(write);
                }
            } else if write != fine_write {
                let old = &self.accesses[write as usize];
                // What an order of execution is worth for packets: their flags make them visible.
                let known = match packets {
                    true => clocks.over(state.knows, ring.moved(old.agent, away)),
                    false => clocks.seen(state.knows, ring.moved(old.agent, away)),
                };
                if ordered(old, &access, epoch, known) || packets && heard_of(old) {
                    fine_write = write;
                } else if race.is_none() && !full && !(packets && self.follows(old, &access, atom)) {
                    let over = clocks.over(state.knows, ring.moved(old.agent, away));
                    race = Some((write, atom, ordered(old, &access, epoch, over)));
                }
            }
            if effect.write {
                for read in self.cells.reads(atom) {
                    let old = &self.accesses[read as usize];
                    let known = clocks.over(state.knows, ring.moved(old.agent, away));
                    let told = || heard_of(old) || self.follows(old, &access, atom);
                    if race.is_none() && !full && !(ordered(old, &access, epoch, known) || told()) {
                        race = Some((read, atom, false));
                    }
                }
            }
        }
        if let Some((old, atom, over)) = race {
            let old = &self.accesses[old as usize];
            self.found.push(story::race(self.model, self.blocks, old, &access, atom, over));
        }
        if early && self.early.len() < MOST_FINDINGS {
            self.early.push(story::early(self.model, &access));
        }
        if awaits {
            let mut awaited = std::mem::take(&mut self.awaited);
            awaited.drain(..).for_each(|old| self.hear_packets(by, effect, old));
            self.awaited = awaited;
        }
        if packets && effect.write {
            access.carries = self.written(by, step, effect, turn);
        }
        let new = self.accesses.len() as u32;
        let (accesses, cells) = (&self.accesses, &mut self.cells);
        for atom in atoms {
            if effect.write {
                cells.set_write(atom, new);
            } else {
                // A later read of the same agent stands for earlier ones that are over by then, or in the same threads.
                cells.add_read(atom, new, |old| {
                    let old = &accesses[old as usize];
                    old.agent == access.agent && (old.count < epoch || old.is_mapped_as(&access))
                });
            }
        }
        self.accesses.push(access);
    }

    /// What the threads of a step take at a time.
    fn grain(&self, step: usize) -> Grain {
        use OpKind as K;
        if !self.model.plan.buffer_alignment.is_multiple_of(VECTOR_BYTES) {
            return Grain::Unknown;
        }
        match self.model.step_at(step).kind {
            K::Copy | K::Put | K::Get | K::Reduce | K::ReduceSend | K::ReadReduce | K::ReadReduceSend => Grain::Vector,
            K::SwitchReduce | K::SwitchReduceBroadcast | K::SwitchBroadcast => Grain::Multicast,
            _ => Grain::Packet,
        }
    }
}

/// Turns of a step: a thread does one after the other.
fn turns(model: &Model, step: usize) -> u32 {
    let (kind, effects) = (model.step_at(step).kind, model.effects(step));
    effects.iter().map(|effect| turn(kind, effect) + 1).max().unwrap_or(1)
}

/// The turn of an effect in its step. Several pairs are moved one after the other; of all else a thread reads what belongs
/// to an element, and then writes one destination after the other.
fn turn(kind: OpKind, effect: &Effect) -> u32 {
    use OpKind as K;
    match kind {
        K::Put | K::Get | K::PutPackets => effect.position,
        _ if effect.write => 1 + effect.position,
        _ => 0,
    }
}

/// Whether an earlier access is over, or happens in the same thread, when a later one begins that knows of so many steps
/// of the earlier one's agent.
fn ordered(old: &Access, new: &Access, epoch: u32, known: u32) -> bool {
    if old.agent != new.agent {
        return known > old.count;
    }
    old.count < epoch || old.is_mapped_as(new) || old.step == new.step && old.atoms == new.atoms
}

#[cfg(test)]
mod tests;
