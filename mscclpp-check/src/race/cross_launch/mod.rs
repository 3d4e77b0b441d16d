//! Order across launches: the end of a launch, and the next one.
//!
//! A rank starts its next launch when its own blocks are done, whatever the other ranks do. So the clock of an agent
//! that has acquired from a rank which has started launch n + 1 includes that rank's clock at its end of launch n;
//! there is no other order across launches. All launches are equal, so one abstract execution is enough: the clock of
//! an agent at its first access to an atom of scratch is compared with the clocks of all ranks at their ends.
//!
//! 1. The accesses of other ranks to a rank's input and output, and what its own ports read there, happen before the
//!    end of its blocks: then its caller continues.
//! 2. The first accesses of a launch to an atom of scratch happen after the last ones of the previous launch; with
//!    double scratch, of the launch before that. One port channel delivers in order, so a put happens after an earlier
//!    launch's put of the same channel.
//!
//! Packets order more than clocks record, and that is computed where clocks are not enough: the accesses of the threads
//! of a short range that wrote packets since their block last processed a longer one, and, with double scratch, that
//! ranks have started whose packets were forwarded in parts ([`elements`](super::elements)).
//!
//! This rule does not require visibility, so a relaxed signal may end a launch: [`boundaries`] computes whether that is
//! enough without a launch barrier. Launches further apart need no check: their accesses happen after the same accesses
//! of those in between.

mod boundaries;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::super::MAX_FINDINGS;
use super::super::model::{Model, Space};
use super::agent_ids::AgentIds;
use super::clock::{ClockArena, VectorClock};
use super::ports::source_side;
use super::report::{self, Known};
use super::shadow_memory::{First, NONE, RecordedAccess, ThreadMapping};
use super::{RaceDetector, WriterClock};
pub(in super::super) use boundaries::boundaries;

use mscclpp_plan::diag::Diagnostics;

/// Returns the waits of an abstract execution that compete for signals.
pub(in super::super) fn competing_waits(races: &RaceDetector) -> Diagnostics {
    let mut found = Diagnostics::default();
    for (rival, step) in races.rivals.iter().take(MAX_FINDINGS) {
        found.push(report::competing_waits(races.model, rival.0 as usize, *step));
    }
    found
}

/// Returns the other findings of an abstract execution: races, and conflicts with the caller and the next launch.
pub(in super::super) fn findings(mut races: RaceDetector) -> Diagnostics {
    let mut found = std::mem::take(&mut races.found);
    if !found.is_empty() {
        return found;
    }
    found = std::mem::take(&mut races.early);
    let ends = Ends::of(&mut races);
    late(&races, &ends, &mut found);
    if found.is_empty() {
        cross_launch_races(&races, &ends, &mut found);
    }
    found
}

/// The clock of every rank when its blocks are done.
struct Ends<'m, 'p> {
    model: &'m Model<'p>,
    /// Per representative rank; the clocks of other ranks are rotations.
    known: Vec<VectorClock>,
    clocks: ClockArena,
    ring: AgentIds,
    /// Per agent of the representative ranks, its rank.
    ranks: Vec<u32>,
    /// Per side of a port, its channel end and the rank to which it leads, by the side's number after the blocks.
    ports: Vec<(u32, Rank)>,
    /// Per representative rank, the timestamps of single threads of others.
    threads: Vec<Threads>,
    /// Per representative rank, those that have started the launch by its packets, element by element.
    on_trails: Vec<OnceCell<BTreeSet<u32>>>,
}

/// What an earlier access must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// It happens before.
    Over,
    /// What it wrote is visible as well.
    Visible,
}

/// What the accesses of an earlier launch must satisfy, and which launch that is.
#[derive(Clone, Copy, Debug)]
struct Order {
    want: Want,
    /// Whether it is the launch before the previous one, since launches alternate between two halves of scratch.
    double: bool,
}

/// By agent, how many of its timestamps happen before for the threads that are assigned an element of a range of some
/// length: for accesses to ranges that are no longer. At most `MAX_LENGTHS` lengths are kept.
type Threads = BTreeMap<u32, SmallVec<[(u64, u32); 2]>>;

/// Maximum number of lengths of an agent's ranges that are kept.
const MAX_LENGTHS: usize = 8;

/// A rank: a representative rank, and its rotation.
type Rank = (u32, u32);

impl<'m, 'p> Ends<'m, 'p> {
    fn of(races: &mut RaceDetector<'m, 'p>) -> Self {
        let mut clocks = std::mem::take(&mut races.clocks);
        // Per rank, the clocks and timestamps of its blocks.
        let mut writers: Vec<Vec<WriterClock>> = Vec::with_capacity(races.model.agents_of.len());
        for agents in &races.model.agents_of {
            let mut own = Vec::with_capacity(2 * agents.len());
            for (number, agent) in agents.clone().zip(&races.agents[agents.clone()]) {
                let done = (number as u32, agent.time);
                own.push(WriterClock { clock: agent.clock, own: done });
                own.extend(agent.threads.iter().map(|(_, clock)| WriterClock { clock: *clock, own: done }));
            }
            writers.push(own);
        }
        let mut threads = vec![Threads::new(); writers.len()];
        let mut last = (VectorClock::default(), VectorClock::default());
        // If a rank's blocks together have read all of some packets, they acquire as much as one block that has read
        // all.
        for (number, access) in (0..).zip(&races.accesses).filter(|(_, access)| access.packet_clock != NONE) {
            let by_block = |read: u32| (races.accesses[read as usize].agent as usize) < races.blocks;
            let mut atoms = access.atoms.0 as usize..access.atoms.1 as usize;
            if atoms.all(|atom| races.cells.write(atom) == number && races.cells.reads(atom).any(by_block)) {
                let packet_clocks = &races.packet_clocks[access.packet_clock as usize];
                // Packets publish only their own data. Neighboring packets mostly release the same clock.
                let WriterClock { clock, own } = packet_clocks.by_all;
                if last.0 != clock {
                    last = (clock, clocks.join(VectorClock::default(), clock, true));
                }
                writers[access.owner as usize].push(WriterClock { clock: last.1, own });
                // An operation on longer ranges hides what the threads of shorter ones have done since the block sync.
                let (agent, done) = packet_clocks.by_element.own;
                if done > packet_clocks.by_all.own.1 {
                    let known = threads[access.owner as usize].entry(agent).or_default();
                    let length = access.length(races.model);
                    match known.iter().position(|(known, _)| *known == length) {
                        Some(place) => known[place].1 = done.max(known[place].1),
                        None if known.len() < MAX_LENGTHS => known.push((length, done)),
                        None => {}
                    }
                }
            }
        }
        let known = writers.iter().map(|writers| clocks.union_of_writers_uncached(writers.iter().copied())).collect();
        let mut ranks: Vec<u32> = races.model.agents.iter().map(|agent| agent.rank as u32).collect();
        // Ports have no rank: no thread waits for their end.
        ranks.resize(races.agents.len(), NONE);
        let mut ports = vec![(NONE, (NONE, 0)); races.agents.len() - races.blocks];
        for (&end, of_end) in &races.ports {
            for port in of_end {
                for side in port.sides() {
                    ports[side - races.blocks] = (end, races.peer(end, port));
                }
            }
        }
        let on_trails = vec![OnceCell::new(); threads.len()];
        Self { model: races.model, known, clocks, ring: races.ring, ranks, ports, threads, on_trails }
    }

    /// Returns the rank of a thread block; none for a port.
    fn rank(&self, agent: u32) -> Option<Rank> {
        let (own, shift) = self.ring.own(agent);
        let rank = self.ranks.get(own as usize).copied().filter(|rank| *rank != NONE)?;
        Some((rank, shift))
    }

    /// Returns whether an access, by an agent as `visible` from some representative rank, happens before the end of a
    /// rank, or is visible to the rank, if that is required.
    fn cover(&self, (rank, shift): Rank, seen: u32, access: &RecordedAccess, want: Want) -> bool {
        let (agent, known) = (self.ring.moved(seen, self.ring.back(shift)), self.known[rank as usize]);
        match want {
            Want::Over => self.clocks.ordered(known, agent) > access.count || self.cover_threads(rank, agent, access),
            // The rank's own kernel has ended.
            Want::Visible => self.rank(agent) == Some((rank, 0)) || self.clocks.visible(known, agent) > access.count,
        }
    }

    /// Returns which part of an access is ordered before the end of a rank, if the access is not, by an agent as
    /// `visible` from some representative rank.
    fn known_of(&self, races: &RaceDetector, (rank, shift): Rank, seen: u32, access: &RecordedAccess) -> Known {
        let is_put = access.write && self.ring.own(seen).0 as usize >= races.blocks;
        let read = |agent| self.clocks.ordered(self.known[rank as usize], source_side(agent)) > access.count;
        match is_put && read(self.ring.moved(seen, self.ring.back(shift))) {
            true => Known::Flushed,
            false => Known::Nothing,
        }
    }

    /// Returns whether both are puts of one port channel, of which the later one arrives after the earlier one.
    fn in_order(&self, blocks: usize, (seen, old): (u32, &RecordedAccess), new: &RecordedAccess) -> bool {
        let end = |agent: u32| {
            let (number, shift) = self.ring.own(agent);
            let (end, _) = self.ports.get((number as usize).checked_sub(blocks)?)?;
            Some((*end, shift))
        };
        let own = self.ring.own(new.agent).0;
        old.write && new.write && end(seen).is_some_and(|of_old| Some(of_old) == end(own))
    }

    /// Returns whether an access, by an agent as seen from a representative rank, happens before for all threads that
    /// execute a part of it.
    fn cover_threads(&self, rank: u32, agent: u32, access: &RecordedAccess) -> bool {
        let known = self.threads[rank as usize].get(&agent).filter(|_| access.grain != ThreadMapping::Unknown);
        known.is_some_and(|known| {
            let length = access.length(self.model);
            known.iter().any(|(longest, turns)| length <= *longest && access.count < *turns)
        })
    }

    /// Returns whether a condition holds for a rank of the clock.
    fn any_begun(&self, clock: VectorClock, shift: u32, mut holds: impl FnMut(Rank) -> bool) -> bool {
        let mut last = None;
        let places = self.ring.places(shift);
        self.clocks.any(clock, &mut |agent| {
            let rank = self.rank(self.ring.moved(agent, places));
            std::mem::replace(&mut last, rank) != rank && rank.is_some_and(&mut holds)
        })
    }
}

fn late(races: &RaceDetector, ends: &Ends, found: &mut Diagnostics) {
    let model = races.model;
    for rank in 0..model.ranks {
        for memory in [Space::Input, Space::Output] {
            for atom in model.atoms.of(rank, memory) {
                for access in last_accesses(races, atom) {
                    let own = ends.rank(access.agent) == Some((rank, 0));
                    if !own && !ends.cover((rank, 0), access.agent, access, Want::Over) && found.len() < MAX_FINDINGS {
                        let known = ends.known_of(races, (rank, 0), access.agent, access);
                        found.push(report::late_access(model, races.blocks, access, atom, known));
                    }
                }
            }
        }
    }
}

fn cross_launch_races(races: &RaceDetector, ends: &Ends, found: &mut Diagnostics) {
    let mut writers = (NONE, NONE);
    let order = Order { want: Want::Over, double: races.model.plan.double_scratch };
    for &First { atom, access, first_clocks } in &races.firsts {
        let new = &races.accesses[access as usize];
        for old in last_accesses(races, atom as usize) {
            if !(old.write || new.write)
                || follows(races, ends, old, new, races.first_clocks[first_clocks as usize], order)
            {
                continue;
            }
            if writers != (old.step, new.step) && found.len() < MAX_FINDINGS {
                writers = (old.step, new.step);
                let known = ends.known_of(races, (rank_of(races, new), 0), old.agent, old);
                found.push(report::cross_launch_race(races.model, races.blocks, old, new, atom as usize, known));
            }
        }
    }
}

/// Returns the accesses of an atom that no other access of the launch follows: its last write, and the reads since.
fn last_accesses<'r>(races: &'r RaceDetector, atom: usize) -> impl Iterator<Item = &'r RecordedAccess> {
    let write = Some(races.cells.write(atom)).filter(|write| *write != NONE);
    write.into_iter().chain(races.cells.reads(atom)).map(|access| &races.accesses[access as usize])
}

/// Returns the representative rank whose step an access is.
fn rank_of(races: &RaceDetector, access: &RecordedAccess) -> u32 {
    races.model.agents[races.model.agent_of(access.step as usize)].rank as u32
}

/// Returns whether an access of a launch happens after one of an earlier launch, given the clock of its agent in its
/// own launch.
fn follows(
    races: &RaceDetector,
    ends: &Ends,
    old: &RecordedAccess,
    new: &RecordedAccess,
    first_clocks: VectorClock,
    order: Order,
) -> bool {
    let model = races.model;
    let (ring, clocks) = (ends.ring, &ends.clocks);
    // As numbered from the rank whose step this is.
    let own = (rank_of(races, new), 0);
    let shift = (model.shifts() - ring.own(new.agent).1) % model.shifts();
    let seen = ring.moved(old.agent, ring.places(shift));
    let Order { want, double } = order;
    if ends.cover(own, seen, old, want) || ends.in_order(races.blocks, (seen, old), new) {
        return true;
    }
    // A clock that shows that one of these agents has started, in this launch or the one before, is enough.
    let begun = |(rank, shift): Rank| {
        let agents = &ring.range(&model.agents_of[rank as usize], shift);
        clocks.has_any(first_clocks, agents) || double && clocks.has_any(ends.known[own.0 as usize], agents)
    };
    if ends.rank(seen).is_some_and(begun) {
        return true;
    }
    // With symmetry reduction, trails are not followed from rank to rank: then all of them are used.
    let on_trails =
        |(rank, _): Rank| ends.on_trails[own.0 as usize].get_or_init(|| races.ranks_on_trails(own.0)).contains(&rank);
    if double && model.symmetry.is_none() && ends.rank(seen).is_some_and(on_trails) {
        return true;
    }
    // The rank at whose end the old access is over is mostly the rank that owns the memory, or the rank to which its
    // port leads: then the others need no test.
    let (number, by) = ring.own(seen);
    let peer = (number as usize).checked_sub(races.blocks).and_then(|port| ends.ports.get(port)).copied();
    let peer = peer.map(|(_, (rank, further))| (rank, (further + by) % model.shifts()));
    let likely = [Some((old.owner, shift)), peer].into_iter().flatten().filter(|rank| rank.0 != NONE);
    if likely.into_iter().any(|rank| begun(rank) && ends.cover(rank, seen, old, want)) {
        return true;
    }
    let covered = |rank: Rank| {
        let known = ends.known[rank.0 as usize];
        let before = || ends.any_begun(known, rank.1, |other| ends.cover(other, seen, old, want));
        ends.cover(rank, seen, old, want) || double && before()
    };
    ends.any_begun(first_clocks, 0, covered) || covered(own)
}

#[cfg(test)]
mod tests;
