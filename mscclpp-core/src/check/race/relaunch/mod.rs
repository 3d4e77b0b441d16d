//! The end of a launch, and the next one.
//!
//! A rank begins its next launch when its own blocks are done, whatever the others do. So whoever knows that a rank has
//! begun launch n + 1 knows all that this rank knew at its end of launch n; nothing else is known across launches. All
//! launches are alike, which makes one run enough: what an agent knew when it first touched a piece of scratch is held
//! against what all ranks know at their ends.
//!
//! 1. What others do to a rank's input and output, and what its own ports read there, is over when its blocks are done:
//!    its caller goes on then.
//! 2. What a launch does first to a piece of scratch comes after what the last launch did last there; with double scratch,
//!    the last but one.
//!
//! Visibility is not asked for: the end of a kernel flushes what it wrote, so a relaxed signal may close a launch.
//! Launches further apart need no look: their accesses come after the same accesses of those in between.

use super::super::MOST_FINDINGS;
use super::super::model::Space;
use super::cells::{Access, First, NONE};
use super::clock::{Clock, Clocks};
use super::{Races, Told, story};
use crate::diag::Diagnostics;

/// What a run has shown: races, and collisions with the caller and the next launch.
pub(in super::super) fn findings(mut races: Races) -> Diagnostics {
    let mut found = std::mem::take(&mut races.found);
    for (rival, step) in races.rivals.iter().take(MOST_FINDINGS - found.len().min(MOST_FINDINGS)) {
        found.push(story::rivals(races.model, rival.0 as usize, *step));
    }
    if !found.is_empty() {
        return found;
    }
    found = std::mem::take(&mut races.early);
    let ends = Ends::of(&mut races);
    late(&races, &ends, &mut found);
    if found.is_empty() {
        again(&races, &ends, &mut found);
    }
    found
}

/// What every rank knows when its blocks are done.
struct Ends {
    known: Vec<Clock>,
    clocks: Clocks,
    /// Per agent, its rank.
    ranks: Vec<u32>,
    /// Per port, the rank it leads to, by the port's number behind the blocks.
    peers: Vec<u32>,
}

impl Ends {
    fn of(races: &mut Races) -> Self {
        let mut clocks = std::mem::take(&mut races.clocks);
        // Per rank, what its blocks know and have done. Nobody asks what of it can be seen.
        let mut told: Vec<Vec<Told>> = Vec::with_capacity(races.model.agents_of.len());
        for agents in &races.model.agents_of {
            let mut own = Vec::with_capacity(2 * agents.len());
            for (number, agent) in agents.clone().zip(&races.agents[agents.clone()]) {
                let done = (number as u32, agent.count);
                own.push(Told { knows: agent.knows, own: done });
                own.extend(agent.threads.iter().map(|(_, clock)| Told { knows: *clock, own: done }));
            }
            told.push(own);
        }
        // What a rank's blocks have read of some packets together tells as much as if one had read all.
        for (number, access) in (0..).zip(&races.accesses).filter(|(_, access)| access.carries != NONE) {
            let by_block = |read: u32| (races.accesses[read as usize].agent as usize) < races.blocks;
            let mut atoms = access.atoms.0 as usize..access.atoms.1 as usize;
            if atoms.all(|atom| races.cells.write(atom) == number && races.cells.reads(atom).any(by_block)) {
                told[access.owner as usize].push(races.carried[access.carries as usize].by_all);
            }
        }
        let known = told.iter().map(|told| clocks.told_once(told.iter().copied())).collect();
        let mut ranks: Vec<u32> = races.model.agents.iter().map(|agent| agent.rank as u32).collect();
        // Ports have none: nobody waits for them.
        ranks.resize(races.agents.len(), NONE);
        let mut peers = vec![NONE; races.agents.len() - races.blocks];
        for (end, ports) in &races.ports {
            let peer = races.model.pairs.direction(*end as usize).to;
            ports.iter().for_each(|port| peers[port.number - races.blocks] = peer);
        }
        Self { known, clocks, ranks, peers }
    }

    /// Whether an access is over when a rank is done.
    fn cover(&self, rank: u32, access: &Access) -> bool {
        self.clocks.over(self.known[rank as usize], access.agent) > access.count
    }

    /// Whether something holds of a rank of which something is known.
    fn any_begun(&self, clock: Clock, mut holds: impl FnMut(u32) -> bool) -> bool {
        let mut last = NONE;
        self.clocks.any(clock, &mut |agent| {
            let rank = self.ranks[agent as usize];
            rank != NONE && std::mem::replace(&mut last, rank) != rank && holds(rank)
        })
    }
}

fn late(races: &Races, ends: &Ends, found: &mut Diagnostics) {
    let model = races.model;
    for rank in 0..model.plan.ranks.len() as u32 {
        for memory in [Space::Input, Space::Output] {
            for atom in model.atoms.of(rank, memory) {
                let last = Some(races.cells.write(atom)).filter(|write| *write != NONE);
                for access in last.into_iter().chain(races.cells.reads(atom)) {
                    let access = &races.accesses[access as usize];
                    let own = ends.ranks[access.agent as usize] == rank;
                    if !own && !ends.cover(rank, access) && found.len() < MOST_FINDINGS {
                        found.push(story::late(model, races.blocks, access, atom));
                    }
                }
            }
        }
    }
}

fn again(races: &Races, ends: &Ends, found: &mut Diagnostics) {
    let mut told = (NONE, NONE);
    for First { atom, access, knew } in &races.firsts {
        let new = &races.accesses[*access as usize];
        let write = Some(races.cells.write(*atom as usize)).filter(|write| *write != NONE);
        let reads = races.cells.reads(*atom as usize);
        for old in write.into_iter().chain(reads).map(|old| &races.accesses[old as usize]) {
            if !(old.write || new.write) || follows(races, ends, old, new, races.knew[*knew as usize]) {
                continue;
            }
            if told != (old.step, new.step) && found.len() < MOST_FINDINGS {
                told = (old.step, new.step);
                found.push(story::relaunch(races.model, old, new, *atom as usize));
            }
        }
    }
}

/// Whether an access of a launch comes after one of the launch before to the same atom, given what its agent knew of its
/// own launch.
fn follows(races: &Races, ends: &Ends, old: &Access, new: &Access, knew: Clock) -> bool {
    let model = races.model;
    let own = match ends.ranks[new.agent as usize] {
        NONE => model.agents[model.agent_of(new.step as usize)].rank as u32,
        rank => rank,
    };
    if ends.cover(own, old) {
        return true;
    }
    let its = ends.ranks[old.agent as usize];
    let double = model.plan.double_scratch;
    let clocks = &ends.clocks;
    // Whoever knows of some of these agents that they have begun, in this launch or the one before, knows what it takes.
    let begun = |agents| clocks.knows_any(knew, agents) || double && clocks.knows_any(ends.known[own as usize], agents);
    if its != NONE && begun(&model.agents_of[its as usize]) {
        return true;
    }
    // Mostly it is the rank in whose memory both are that has seen the end of the old one, or the rank that its port leads
    // to: the others need no look then.
    let peer = (old.agent as usize).checked_sub(races.blocks).and_then(|port| ends.peers.get(port)).copied();
    let likely = [Some(old.owner), peer].into_iter().flatten().filter(|rank| *rank != NONE);
    if likely.into_iter().any(|rank| begun(&model.agents_of[rank as usize]) && ends.cover(rank, old)) {
        return true;
    }
    let covered = |rank: u32| {
        let before = || ends.any_begun(ends.known[rank as usize], |other| ends.cover(other, old));
        ends.cover(rank, old) || double && before()
    };
    ends.any_begun(knew, covered) || covered(own)
}

#[cfg(test)]
mod tests;
