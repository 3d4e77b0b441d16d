//! Rule 5: no data races.
//!
//! Two accesses conflict if they touch the same bytes and one of them writes. The plan is executed once on symbolic
//! state, and every agent has a vector clock of the operations that happen before its next one, and of those whose
//! writes are visible to it ([`clock::ClockArena`]):
//!
//! 1. Operations of one block between two block syncs (`nop`, barrier) are unordered, since threads do not run in
//!    lockstep, unless both assign the conflicting elements to the same threads.
//! 2. A signal, wait, acquire or release is executed by single threads, one for each of its channels or semaphores. A
//!    signal releases the block's clock as of its last block sync, joined with what the signaling thread acquired
//!    since; a wait transfers the clock to one thread, and to the block at the next block sync.
//! 3. Relaxed signals and waits order execution, but make nothing visible. An operation may overwrite memory of
//!    accesses that happen before it; it may not read it, or overwrite a write that is not visible.
//! 4. A port channel is two agents ([`ports`]): one reads the sources of puts, the other writes them to the peer, each
//!    in the order of its triggers and after them. A signal of the channel arrives after the puts before it, and
//!    releases the clocks of both agents. A flush acquires the clock of the agent that reads, not that of the agent
//!    that writes. Triggers of several threads of one channel are unordered, unless one happens before the other.
//! 5. Packets carry their own flags. A read waits for the write of its packets, so these two need no order. A block
//!    that has read all that one operation wrote acquires, at its next block sync, the clock of those threads of the
//!    writer: of all threads, for operations of the same block that are no longer than the one whose packets were read,
//!    and, for that operation, of the accesses of a thread before its write. An atom that is written twice orders
//!    nothing. Before the next block sync, each of the reader's threads acquires as much for the elements that it read,
//!    and what the packets of a single element release ([`elements`]).
//! 6. The caller owns input and output between launches. An access of another rank to them must happen after the owner
//!    has started the launch, and before the end of the owner's launch (M0212, M0213).
//! 7. The first accesses of the next launch to scratch happen after the last ones of this launch ([`cross_launch`],
//!    M0211).
//! 8. Of two waits on one channel, or two acquires of one semaphore, one happens before the other, unless the initial
//!    units are enough for both (M0208).
//!
//! # Why this is sound
//!
//! A clock contains only operations that happen before in every schedule. Where the signals and waits of a counter are
//! totally ordered, the nth wait gets the nth signal in every schedule; otherwise a wait acquires what all schedules
//! have in common ([`release_queues`]). So the one order in which the plan is executed here represents all: if no two
//! conflicting accesses are unordered by these clocks, no schedule has a data race. Of the accesses to an atom, only
//! the last write and the reads since are kept, because an access that happens after these happens after all earlier
//! ones.
//!
//! Loops are checked for every number of iterations at once: [`every`].
//!
//! # Plans that are rejected though they could not fail
//!
//! If each of several readers reads a part of the packets of one operation, they acquire only the writer's clock as of
//! its last block sync, until the launch ends, and for single elements what their own packets release. Packets that an
//! operation writes and that are derived from packets it has read itself release to the readers' blocks only what their
//! writer had acquired at its last block sync, so in a chain of such operations the last one does not know that the
//! rank of the first one has started the launch. A write that is visible to the rank that read it, and that another
//! rank overwrites after a relaxed signal of the reader, has reached memory, but is not visible to the other rank.
//! Elements that
//! are assigned to threads in different ways conflict even where the threads would be the same. Unordered signals of
//! several threads on one counter release only what all schedules have in common.

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
use access::turns;
use agent::Agent;
use agent_ids::AgentIds;
use clock::{ClockArena, VectorClock};
use every::{Skewed, UnevenBarriers};
use mscclpp_plan::diag::Diagnostics;
use mscclpp_plan::raw::{OpClass, OpKind};
use packets::{PacketClocks, WriterClock};
use ports::Port;
pub(super) use release_queues::Disordered;
use release_queues::{Event, ReleaseQueues, ReleasedClock};
use shadow_memory::{First, RecordedAccess, ShadowMemory};

/// Maximum number of accesses to atoms, each of which is checked and kept: far more than useful plans have, and half a
/// gigabyte.
const MAX_PIECE_ACCESSES: usize = 1 << 26;

/// Observes the abstract execution of a plan, and finds its data races.
pub(super) struct RaceDetector<'m, 'p> {
    model: &'m Model<'p>,
    /// Thread blocks in the order of the model's agents, then the ports that are used.
    agents: Vec<Agent>,
    blocks: usize,
    ring: AgentIds,
    /// Per channel end, its port as each thread that uses it has it.
    ports: BTreeMap<u32, Vec<Port>>,
    /// Atoms of packets that have been written more than once so far.
    rewritten: BTreeSet<usize>,
    /// By atom, whether operations of the launch write packets there more than once. Empty without packets.
    written_twice: Vec<bool>,
    /// Writes of the packets that an access waits for.
    awaited: Vec<u32>,
    cells: ShadowMemory,
    /// All accesses, by number.
    accesses: Vec<RecordedAccess>,
    signals: ReleaseQueues,
    releases: ReleaseQueues,
    /// Clocks that the readers of packets acquire.
    packet_clocks: Vec<PacketClocks>,
    /// Accesses to scratch that no access of the launch precedes, and the clocks of their agents.
    firsts: Vec<First>,
    first_clocks: Vec<VectorClock>,
    /// Threads that wait for the same counter as a step does, unordered.
    rivals: Vec<((u32, u32), usize)>,
    clocks: ClockArena,
    skewed: Skewed,
    uneven_barriers: UnevenBarriers,
    found: Diagnostics,
    /// Accesses to other ranks' buffers before these ranks have started the launch.
    early: Diagnostics,
}

impl<'p> Observer<'p> for RaceDetector<'_, 'p> {
    fn on_step(&mut self, model: &Model<'p>, number: usize, step: usize) {
        let &super::model::Step { kind, port, .. } = model.step_at(step);
        let by = number as u32;
        if model.size.proves() && model.has_packets() && model.begins_window(number, step) {
            self.agents[number].end_window();
        }
        if model.size.proves() && model.in_loop(step) {
            self.begin_iteration(number, step);
        }
        let begun = self.agents[number].time;
        self.agents[number].time += turns(model, step);
        if kind.acquires() {
            self.agents[number].waited = self.agents[number].time;
        }
        match kind.class() {
            OpClass::BlockSync => self.agents[number].block_sync(&mut self.clocks),
            OpClass::Release => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let clock = self.agents[number].release_clock(by, thread, &mut self.clocks);
                    let (event, released) =
                        (Event { by: (by, thread), turn: begun }, ReleasedClock { clock, relaxed: false });
                    self.releases.send(id, (by, thread), event, released, &self.clocks);
                }
            }
            OpClass::Acquire => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
                    let event = Event { by: (by, thread), turn: begun };
                    let rival = self.releases.competing_waiter(id, event, |other| agent.over(event.by, other, clocks));
                    self.rivals.extend(rival.map(|rival| (rival, step)));
                    self.releases.receive(id, (by, thread), false, |thread, released| {
                        agent.acquire(thread, released.clock, released.relaxed, clocks);
                    });
                }
            }
            OpClass::Flush => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    self.flush((id, by, thread));
                }
            }
            OpClass::Data(..) if port => self.push(number, step, begun),
            OpClass::Data(..) => self.access_operands(number, step, begun),
            OpClass::Signal { relaxed } => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let mut clock = self.agents[number].release_clock(by, thread, &mut self.clocks);
                    if port {
                        clock = self.enqueue_on_port((id, by, thread), clock);
                    }
                    self.signal(id, (by, thread), step, begun, ReleasedClock { clock, relaxed });
                }
            }
            OpClass::Wait { relaxed } => {
                for (thread, &id) in (0..).zip(model.ids(step)) {
                    let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
                    let event = Event { by: (by, thread), turn: begun };
                    let rival = self.signals.competing_waiter(id, event, |other| agent.over(event.by, other, clocks));
                    self.rivals.extend(rival.map(|rival| (rival, step)));
                    self.signals.receive(id, (by, thread), relaxed, |thread, released| {
                        agent.acquire(thread, released.clock, released.relaxed, clocks);
                    });
                }
            }
            // `on_barrier` synchronizes the thread blocks of a barrier.
            OpClass::Barrier | OpClass::Pipeline | OpClass::ExchangeCounts => {}
        }
        if model.size.proves() && model.in_loop(step) && kind == OpKind::Nop {
            self.sync_in_iteration(number, step);
        }
        if model.size.proves()
            && let Some(steps) = model.iteration_left(number, step)
        {
            self.end_loop(number, steps);
        }
    }

    fn on_barrier(&mut self, barrier: u32, agents: &[usize]) {
        if self.uneven_barriers.contains(barrier) {
            return self.sync_unevenly(barrier, agents);
        }
        // The clock includes the barrier itself only after it is complete.
        agents.iter().for_each(|&number| self.agents[number].acquire_packets(&mut self.clocks));
        let thread_clocks = agents.iter().flat_map(|&number| self.agents[number].thread_clocks());
        let turns = agents.iter().map(|&number| (number as u32, self.agents[number].time));
        let all = self.clocks.union_with(thread_clocks, turns);
        agents.iter().for_each(|&number| self.agents[number].finish_sync(all));
    }
}

impl<'m, 'p> RaceDetector<'m, 'p> {
    /// Returns whether all agents have numbers, and the accesses to atoms are within the limit.
    pub(super) fn fits(model: &Model<'p>) -> bool {
        AgentIds::of(model).is_some() && model.piece_accesses() <= MAX_PIECE_ACCESSES
    }

    /// Creates a detector for the execution of a plan that fits, given the counters that are known to be used
    /// unordered. `None` if its loops cut memory into too many classes of windows.
    pub(super) fn new(model: &'m Model<'p>, disordered: &Disordered) -> Option<Self> {
        let skewed = Skewed::of(model)?;
        let blocks = model.agents.len();
        let ring = AgentIds::of(model).unwrap_or_default();
        let mut clocks = ClockArena::new(ring);
        let signals = ReleaseQueues::of_channels(model, disordered, &mut clocks);
        let releases = ReleaseQueues::of_semaphores(model, disordered, &mut clocks);
        let begun = |number| Agent { clock: clocks.of(number), ..Agent::default() };
        Some(Self {
            model,
            agents: (0..blocks as u32).map(begun).collect(),
            blocks,
            ring,
            ports: BTreeMap::new(),
            rewritten: BTreeSet::new(),
            written_twice: packets::written_twice(model),
            awaited: Vec::new(),
            cells: ShadowMemory::new(model),
            accesses: Vec::with_capacity(model.effect_count()),
            signals,
            releases,
            packet_clocks: Vec::with_capacity(if model.has_packets() { model.effect_count() / 2 } else { 0 }),
            firsts: Vec::with_capacity(model.effect_count()),
            first_clocks: Vec::with_capacity(model.effect_count() / 2),
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
