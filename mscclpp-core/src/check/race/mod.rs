//! Rule 5: no two accesses collide that nothing orders.
//!
//! Two accesses collide if they touch the same bytes and one of them writes. The plan runs once in the abstract, and
//! every agent keeps what it knows to be over, and what of it it can see ([`clock::ClockArena`]):
//!
//! 1. Operations of one block between two block syncs (`nop`, barrier) are in no order, since threads run ahead of each
//!    other, unless both give the colliding elements to the same threads.
//! 2. A signal, wait, acquire or release is executed by single threads, one for each of its channels or semaphores. A
//!    signal tells what its block had done before the last block sync, and what its own thread has waited for since; a
//!    wait tells one thread, and the block from the next block sync on.
//! 3. Relaxed signals and waits tell what is over, but make nothing visible. Overwriting what is over is fine; reading it,
//!    or overwriting a write that is not visible, is not.
//! 4. A port channel is two agents of its own ([`ports`]): one reads what it is told to send, the other writes it to the
//!    peer, each one thing after the other and later than it was told to. A signal of the channel arrives after the puts
//!    before it, and tells of both. A flush tells that the sources were read, and nothing of the destinations. What several
//!    threads give a channel comes in no order, unless one knows what the other gave it to be over.
//! 5. Packets carry their own flags. Reading one waits for its write, so those two need no order. Who has read all that
//!    one operation wrote knows, from its next block sync on, that those threads of the writer are done with what they
//!    did before: all threads, for operations of the same block that are no longer than the one that was read, and of that
//!    operation what a thread does before it writes there. A slot that is written twice orders nothing. Before its
//!    next block sync each of its threads knows as much of the elements that it read, and what each of those alone can
//!    tell ([`elements`]).
//! 6. The caller owns input and output between launches. What another rank does to them must come after some word from a
//!    rank that has begun, and must be over when the owner's launch is (M0212, M0213).
//! 7. Whatever the next launch does first to scratch comes after what this one did last ([`cross_launch`], M0211).
//!
//! 8. Of two that wait on one channel, or acquire one semaphore, one knows the other to be done, unless enough units are
//!    there from the start (M0208).
//!
//! # Why this is sound
//!
//! A clock holds only what is over in every schedule. Where signals and waits of a counter come in one order, the nth
//! wait gets the nth signal, whatever the schedule; elsewhere a wait learns what all schedules have in common ([`release_queues`]). So the one order in which the plan runs here stands for all: if it shows no two accesses that are
//! unordered by these clocks, no order does. Of the accesses to a piece of memory only the last write and the reads since
//! are kept, since whatever comes after these comes after all before.
//!
//! Loops are asked for every number of iterations at once: [`every`].
//!
//! # What is refused though it could not fail
//!
//! Packets of which each of several readers reads a part teach them only what came before the writer's last block sync,
//! until the launch ends, and of single elements what their own packets tell.
//! Elements that are given to threads in another way collide even where the threads would happen to be the same. Threads
//! that signal on one counter in no order are believed only what all schedules have in common.

mod access;
mod agent;
mod agent_ids;
mod clock;
pub(super) mod cross_launch;
mod elements;
pub(super) mod every;
mod packets;
mod ports;
mod release_queues;
mod report;
mod shadow_memory;

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Observer;
use super::model::Model;
use super::pairing::{signals, waits};
use crate::diag::Diagnostics;
use crate::plan::OpKind;
use access::turns;
use agent::Agent;
use agent_ids::AgentIds;
use clock::{ClockArena, VectorClock};
use every::{Skewed, UnevenBarriers};
use packets::{PacketClocks, WriterClock};
use ports::Port;
pub(super) use release_queues::Disordered;
use release_queues::{Event, ReleaseQueues, ReleasedClock};
use shadow_memory::{First, RecordedAccess, ShadowMemory};

/// Accesses to pieces of memory, each of which is looked at and kept: far more than plans have that mean something, and half
/// a gigabyte.
const MOST_PIECE_ACCESSES: usize = 1 << 26;

/// Looks on while a plan runs, and finds its races.
pub(super) struct RaceDetector<'m, 'p> {
    model: &'m Model<'p>,
    /// Thread blocks in the order of the model's agents, then the ports that are used.
    agents: Vec<Agent>,
    blocks: usize,
    ring: AgentIds,
    /// Per channel end, its port as the threads see it that use it.
    ports: BTreeMap<u32, Vec<Port>>,
    /// Atoms of packets that are written more than once.
    rewritten: BTreeSet<usize>,
    /// Writes of the packets that an access waits for.
    awaited: Vec<u32>,
    cells: ShadowMemory,
    /// All accesses, by number.
    accesses: Vec<RecordedAccess>,
    signals: ReleaseQueues,
    releases: ReleaseQueues,
    /// What readers of packets learn.
    carried: Vec<PacketClocks>,
    /// Accesses of scratch that nothing in the launch precedes, and what their agents knew.
    firsts: Vec<First>,
    knew: Vec<VectorClock>,
    /// Threads that wait for the same as a step does, in no order.
    rivals: Vec<((u32, u32), usize)>,
    clocks: ClockArena,
    skewed: Skewed,
    uneven_barriers: UnevenBarriers,
    found: Diagnostics,
    /// Accesses of other ranks' buffers before those have begun.
    early: Diagnostics,
}

impl<'p> Observer<'p> for RaceDetector<'_, 'p> {
    fn on_step(&mut self, model: &Model<'p>, number: usize, step: usize) {
        use OpKind as K;
        let &super::model::Step { kind, port, .. } = model.step_at(step);
        let by = number as u32;
        if model.size.proves() && model.has_packets() && model.begins_window(number, step) {
            self.agents[number].leave_window();
        }
        if model.size.proves() && model.in_loop(step) {
            self.begin_iteration(number, step);
        }
        let begun = self.agents[number].time;
        self.agents[number].time += turns(model, step);
        if waits(kind) || kind == K::SemaphoreAcquire {
            self.agents[number].waited = self.agents[number].time;
        }
        match kind {
            K::Nop => self.agents[number].meet(&mut self.clocks),
            K::SemaphoreRelease => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let knows = self.agents[number].release_clock(by, thread, &mut self.clocks);
                    let (event, word) =
                        (Event { by: (by, thread), turn: begun }, ReleasedClock { knows, relaxed: false });
                    self.releases.send(id, (by, thread), event, word, &self.clocks);
                }
            }
            K::SemaphoreAcquire => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
                    let event = Event { by: (by, thread), turn: begun };
                    let rival = self.releases.competing_waiter(id, event, |other| agent.over(event.by, other, clocks));
                    self.rivals.extend(rival.map(|rival| (rival, step)));
                    self.releases.receive(id, (by, thread), false, |thread, word| {
                        agent.acquire(thread, word.knows, word.relaxed, clocks);
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
                    let mut knows = self.agents[number].release_clock(by, thread, &mut self.clocks);
                    if port {
                        knows = self.enqueue_on_port((id, by, thread), knows);
                    }
                    let relaxed = kind == K::RelaxedSignal;
                    self.signal(id, (by, thread), step, begun, ReleasedClock { knows, relaxed });
                }
            }
            _ if waits(kind) => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
                    let relaxed = kind == K::RelaxedWait;
                    let event = Event { by: (by, thread), turn: begun };
                    let rival = self.signals.competing_waiter(id, event, |other| agent.over(event.by, other, clocks));
                    self.rivals.extend(rival.map(|rival| (rival, step)));
                    self.signals.receive(id, (by, thread), relaxed, |thread, word| {
                        agent.acquire(thread, word.knows, word.relaxed, clocks);
                    });
                }
            }
            _ => {}
        }
        if model.size.proves() && model.in_loop(step) && kind == K::Nop {
            self.meet_in_iteration(number, step);
        }
        if model.size.proves()
            && let Some(steps) = model.iteration_left(number, step)
        {
            self.leave_loop(number, steps);
        }
    }

    fn on_barrier(&mut self, barrier: u32, agents: &[usize]) {
        if self.uneven_barriers.contains(barrier) {
            return self.meet_unevenly(barrier, agents);
        }
        // The barrier itself counts when it is done, which is later.
        agents.iter().for_each(|&number| self.agents[number].acquire_packets(&mut self.clocks));
        let parts = agents.iter().flat_map(|&number| self.agents[number].parts());
        let turns = agents.iter().map(|&number| (number as u32, self.agents[number].time));
        let all = self.clocks.union_with(parts, turns);
        agents.iter().for_each(|&number| self.agents[number].go_on(all));
    }
}

impl<'m, 'p> RaceDetector<'m, 'p> {
    /// Whether there are numbers for all agents, and room for all accesses to pieces of memory.
    pub(super) fn fits(model: &Model<'p>) -> bool {
        AgentIds::of(model).is_some() && model.piece_accesses() <= MOST_PIECE_ACCESSES
    }

    /// About to look on while a plan runs that fits, of which some counters are known to be used in no order. `None` if its loops
    /// cut memory in too many ways.
    pub(super) fn new(model: &'m Model<'p>, disordered: &Disordered) -> Option<Self> {
        let skewed = Skewed::of(model)?;
        let blocks = model.agents.len();
        let ring = AgentIds::of(model).unwrap_or_default();
        let mut clocks = ClockArena::new(ring);
        let signals = ReleaseQueues::of_channels(model, disordered, &mut clocks);
        let releases = ReleaseQueues::of_semaphores(model, disordered, &mut clocks);
        let begun = |number| Agent { knows: clocks.of(number), ..Agent::default() };
        Some(Self {
            model,
            agents: (0..blocks as u32).map(begun).collect(),
            blocks,
            ring,
            ports: BTreeMap::new(),
            rewritten: BTreeSet::new(),
            awaited: Vec::new(),
            cells: ShadowMemory::new(model),
            accesses: Vec::with_capacity(model.effect_count()),
            signals,
            releases,
            carried: Vec::with_capacity(if model.has_packets() { model.effect_count() / 2 } else { 0 }),
            firsts: Vec::with_capacity(model.effect_count()),
            knew: Vec::with_capacity(model.effect_count() / 2),
            rivals: Vec::new(),
            clocks,
            skewed,
            uneven_barriers: if model.size.proves() { UnevenBarriers::of(model) } else { UnevenBarriers::default() },
            found: Diagnostics::default(),
            early: Diagnostics::default(),
        })
    }
}

#[cfg(test)]
mod tests;
