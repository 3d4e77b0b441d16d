//! Requirements of a plan at the boundary of two launches.
//!
//! The rules of this module require order: an earlier access *happens before*. Without a launch barrier that is not
//! enough for a write of another rank, since its kernel may still run and the write may still be in flight: the write
//! must be *visible*. A write is visible to a rank's next launch, and to its caller, if
//!
//! * the rank wrote it itself: the end of a kernel flushes what the kernel wrote;
//! * it is published to one of the rank's thread blocks by a chain of signals and waits none of which is relaxed;
//! * the rank acquires, relaxed or not, from a rank that has started the next launch, and for which one of these holds:
//!   the kernel of that rank has ended, which flushes what it wrote and what was visible to it;
//! * it is a packet that was read: its flag was found together with its data.
//!
//! An access that was a read needs to happen before, nothing more. Puts of one port channel are ordered, across
//! launches too.

use std::collections::{BTreeMap, BTreeSet};

use super::super::super::model::Space;
use super::super::shadow_memory::{NONE, RecordedAccess};
use super::super::{Agent, RaceDetector};
use super::{Ends, Order, Want, follows, last_accesses};
use crate::requirements::LaunchBoundaries;

/// Maximum number of pairs of accesses to a rank's scratch that are compared, over all ranks; a plan with more is not
/// analyzed.
const MAX_PAIRS: usize = 1 << 18;

/// Returns the properties that an abstract execution has shown. A plan in which it has found races needs launch
/// barriers everywhere.
pub(in super::super::super) fn boundaries(mut races: RaceDetector) -> LaunchBoundaries {
    if !races.found.is_empty() || !races.rivals.is_empty() {
        return LaunchBoundaries::default();
    }
    let ends = Ends::of(&mut races);
    LaunchBoundaries {
        can_start_without_barrier: races.early.is_empty() && scratch_is_free(&races, &ends),
        accesses_follow_begin: races.early.is_empty(),
        can_end_without_barrier: accesses_end(&races, &ends, [Space::Input, Space::Output]),
        can_free_without_barrier: accesses_end(&races, &ends, [Space::Scratch, Space::Packets]),
        sizes_may_follow: all_scratch_is_free(&races, &ends, false),
        sizes_may_follow_in_fixed_halves: all_scratch_is_free(&races, &ends, races.model.plan.double_scratch),
        puts_arrive_in_launch: puts_arrive(&races, &ends),
    }
}

/// Returns what an access to an atom must satisfy at a boundary without a launch barrier, given that the boundary is
/// after all reads of the rank that owns the atom. Only blocks of that rank wait for its packets.
fn want(races: &RaceDetector, atom: usize, access: &RecordedAccess) -> Want {
    let is_packet = races.model.atoms.memory(atom).1 == Space::Packets;
    if !access.write || is_packet && races.is_found(atom, |_| true) { Want::Over } else { Want::Visible }
}

/// Returns the same for the begin of a launch, before another access to scratch. A write there must happen after all
/// reads; a read, of a port, need not.
fn want_before(races: &RaceDetector, atom: usize, access: &RecordedAccess, new: &RecordedAccess) -> Want {
    match new.write {
        true => want(races, atom, access),
        false if access.write => Want::Visible,
        false => Want::Over,
    }
}

/// Returns whether a launch finds every atom of scratch as the previous one, or the last but one, has left it.
fn scratch_is_free(races: &RaceDetector, ends: &Ends) -> bool {
    let double = races.model.plan.double_scratch;
    races.firsts.iter().all(|first| {
        let (atom, new) = (first.atom as usize, &races.accesses[first.access as usize]);
        let first_clocks = races.first_clocks[first.first_clocks as usize];
        last_accesses(races, atom).filter(|old| old.write || new.write).all(|old| {
            let order = Order { want: want_before(races, atom, old, new), double };
            follows(races, ends, old, new, first_clocks, order)
        })
    })
}

/// Returns whether the accesses of other ranks to a rank's memory happen before the end of the rank's blocks and are
/// visible then.
fn accesses_end(races: &RaceDetector, ends: &Ends, memories: [Space; 2]) -> bool {
    (0..races.model.ranks).all(|rank| {
        let mut atoms = memories.into_iter().flat_map(|memory| races.model.atoms.of(rank, memory));
        atoms.all(|atom| {
            last_accesses(races, atom).all(|access| {
                let own = ends.rank(access.agent) == Some((rank, 0));
                own || ends.cover((rank, 0), access.agent, access, want(races, atom, access))
            })
        })
    })
}

/// Returns whether all accesses of a launch to a rank's scratch happen after all accesses of the previous one, or the
/// last but one, whatever the sizes of the two. Plain data and packets in one scratch are not separate then: plain data
/// of one size may be taken for a packet of another.
fn all_scratch_is_free(races: &RaceDetector, ends: &Ends, double: bool) -> bool {
    let (model, mut left) = (races.model, MAX_PAIRS);
    (0..model.ranks).all(|rank| {
        let used = |memory| model.atoms.of(rank, memory).any(|atom| last_accesses(races, atom).next().is_some());
        match [Space::Scratch, Space::Packets].map(used) {
            [true, true] => false,
            [true, false] => memory_is_free(races, ends, (rank, Space::Scratch), double, &mut left),
            [false, true] => memory_is_free(races, ends, (rank, Space::Packets), double, &mut left),
            [false, false] => true,
        }
    })
}

fn memory_is_free(races: &RaceDetector, ends: &Ends, memory: (u32, Space), double: bool, left: &mut usize) -> bool {
    let atoms = races.model.atoms.of(memory.0, memory.1);
    // Of an agent's accesses with equal requirements, the last one happens after all others.
    let mut olds: BTreeMap<(u32, bool, bool), &RecordedAccess> = BTreeMap::new();
    for atom in atoms.clone() {
        for old in last_accesses(races, atom) {
            let key = (old.agent, old.write, want(races, atom, old) == Want::Visible);
            let last = olds.entry(key).or_insert(old);
            if last.count < old.count {
                *last = old;
            }
        }
    }
    // Accesses by one agent with equal clocks are equal.
    let mut seen = BTreeSet::new();
    for first in races.firsts.iter().filter(|first| atoms.contains(&(first.atom as usize))) {
        let new = &races.accesses[first.access as usize];
        if !seen.insert((new.agent, new.write, first.first_clocks)) {
            continue;
        }
        for ((_, write, visible), old) in &olds {
            if !(*write || new.write) {
                continue;
            }
            let Some(rest) = left.checked_sub(1) else { return false };
            *left = rest;
            // Only a write must also happen after the reads that have found packets.
            let want = if *visible || *write && !new.write { Want::Visible } else { Want::Over };
            if !follows(races, ends, old, new, races.first_clocks[first.first_clocks as usize], Order { want, double })
            {
                return false;
            }
        }
    }
    true
}

/// Returns whether all puts of ports have arrived when the destination rank is done.
fn puts_arrive(races: &RaceDetector, ends: &Ends) -> bool {
    races.ports.iter().all(|(&end, ports)| {
        ports.iter().all(|port| {
            let [_, arrivals] = port.sides();
            let (rank, shift) = races.peer(end, port);
            let agent = ends.ring.moved(arrivals as u32, ends.ring.back(shift));
            let Agent { time: count, .. } = races.agents[arrivals];
            rank == NONE || ends.clocks.ordered(ends.known[rank as usize], agent) >= count
        })
    })
}
