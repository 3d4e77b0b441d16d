//! What an agent knows to be over, and what of it can be seen.
//!
//! Where agents signal each other, each knows of a few: clocks that know little are lists. Packets tell widely, so that what
//! thousands of agents know of each other has to be kept, and most of it is known by many alike: clocks that know much are
//! [`tree`]s, which share what they have in common.

mod advance;
mod builder;
mod tree;

use std::ops::Range;

use smallvec::SmallVec;

use super::agent_ids::AgentIds;
use super::packets::WriterClock;
use builder::ClockBuilder;
use tree::Trees;
pub(super) use tree::WIDTH as LEAF;

/// Per agent, how many of its turns are over, and of how many the writes can also be seen; or nothing. Whoever is known at all,
/// even with no turn over, has begun its launch. A handle of something in [`ClockArena`]; the default knows nothing.
///
/// Relaxed signals and packets say that something is over, so that its memory may be overwritten; they do not make
/// visible what it wrote. Whatever can be seen is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct VectorClock(u32);

/// What is known of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClockEntry {
    agent: u32,
    ordered: u32,
    visible: u32,
}

/// All clocks of a run.
#[derive(Default)]
pub(in super::super) struct ClockArena {
    /// By handle, where a list begins in `facts` and ends. The first one is empty.
    lists: Vec<(u32, u32)>,
    /// What lists say, each in ascending order of the agents.
    facts: Vec<ClockEntry>,
    trees: Trees,
    gather: ClockBuilder,
    ring: AgentIds,
    /// Clocks that were shifted of late, by a part of their hash: the clock, by how many places, and the result.
    shifted: Vec<(VectorClock, u32, VectorClock)>,
    /// What packets have told of late, by a part of its hash.
    heard: Vec<(SmallVec<[WriterClock; 2]>, VectorClock)>,
}

/// Entries of what was shifted of late.
const SHIFTED: usize = 1 << 8;

/// Marks the handles of trees.
const TREE: u32 = 1 << 31;

/// Facts of a list at most.
const MOST_FACTS: usize = 48;

/// Facts of a list that are looked at one by one: where there are few, no search beats a look.
const SHORT: usize = 8;

impl VectorClock {
    fn tree(self) -> Option<u32> {
        (self.0 & TREE > 0).then_some(self.0 & !TREE)
    }
}

impl ClockArena {
    /// No clocks yet, over so many agents at most.
    pub(super) fn new(ring: AgentIds) -> Self {
        let agents = ring.span();
        let (lists, facts) = (Vec::with_capacity(2 * agents), Vec::with_capacity(4 * agents));
        let mut clocks = Self { lists, facts, trees: Trees::new(ring.len()), ring, ..Self::default() };
        clocks.lists.push((0, 0));
        clocks
    }

    /// What an agent knows when it begins: that it has.
    pub(super) fn of(&mut self, agent: u32) -> VectorClock {
        self.facts.push(ClockEntry { agent, ordered: 0, visible: 0 });
        self.listed(self.facts.len() - 1)
    }

    /// The clock of the facts from a place on.
    fn listed(&mut self, first: usize) -> VectorClock {
        if self.facts.len() - first > MOST_FACTS {
            let tree = self.trees.learn(0, &self.facts[first..], false);
            self.facts.truncate(first);
            return VectorClock(tree | TREE);
        }
        self.lists.push((first as u32, self.facts.len() as u32));
        VectorClock(self.lists.len() as u32 - 1)
    }

    /// Where the facts of a list are.
    fn list(&self, clock: VectorClock) -> Range<usize> {
        let (first, end) = self.lists[clock.0 as usize];
        first as usize..end as usize
    }

    fn get(&self, clock: VectorClock, agent: u32) -> Option<&ClockEntry> {
        let list = &self.facts[self.list(clock)];
        if list.len() <= SHORT {
            return list.iter().find(|fact| fact.agent == agent);
        }
        list.binary_search_by_key(&agent, |fact| fact.agent).ok().map(|place| &list[place])
    }

    /// How many turns of an agent are over.
    pub(in super::super) fn ordered(&self, clock: VectorClock, agent: u32) -> u32 {
        match clock.tree() {
            Some(tree) => self.trees.over(tree, agent),
            None => self.get(clock, agent).map_or(0, |fact| fact.ordered),
        }
    }

    /// How many turns of an agent are over and can be seen.
    pub(super) fn visible(&self, clock: VectorClock, agent: u32) -> u32 {
        match clock.tree() {
            Some(tree) => self.trees.seen(tree, agent),
            None => self.get(clock, agent).map_or(0, |fact| fact.visible),
        }
    }

    /// Whether some of these agents is known to have begun.
    pub(in super::super) fn knows_any(&self, clock: VectorClock, agents: &Range<usize>) -> bool {
        match clock.tree() {
            Some(tree) => self.trees.any(tree, agents, &mut |_| true),
            None => {
                let list = &self.facts[self.list(clock)];
                if list.len() <= SHORT {
                    return list.iter().any(|fact| agents.contains(&(fact.agent as usize)));
                }
                let place = list.partition_point(|fact| (fact.agent as usize) < agents.start);
                list.get(place).is_some_and(|fact| (fact.agent as usize) < agents.end)
            }
        }
    }

    /// Whether something holds of an agent of which something is known; asked in ascending order, up to there.
    pub(in super::super) fn any(&self, clock: VectorClock, holds: &mut impl FnMut(u32) -> bool) -> bool {
        match clock.tree() {
            Some(tree) => self.trees.any(tree, &(0..usize::MAX), holds),
            None => self.facts[self.list(clock)].iter().any(|fact| holds(fact.agent)),
        }
    }

    /// The same of all agents that lie so many places behind those of whom this clock tells.
    pub(super) fn shifted(&mut self, clock: VectorClock, places: u32) -> VectorClock {
        if places == 0 || clock == VectorClock::default() {
            return clock;
        }
        if self.shifted.is_empty() {
            self.shifted.resize(SHIFTED, Default::default());
        }
        let hash = (u64::from(clock.0) << 32 | u64::from(places)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (hash >> 32) as usize % SHIFTED;
        let (known, by, result) = self.shifted[place];
        if (known, by) == (clock, places) {
            return result;
        }
        let ring = self.ring;
        let result = match clock.tree() {
            Some(tree) => VectorClock(self.trees.shifted(tree, ring, places) | TREE),
            None => {
                let (list, first) = (self.list(clock), self.facts.len());
                // What goes over the end comes first.
                let turn = list.start
                    + self.facts[list.clone()].partition_point(|fact| fact.agent + places < ring.len() as u32);
                for range in [turn..list.end, list.start..turn] {
                    for place in range {
                        let fact = self.facts[place];
                        self.facts.push(ClockEntry { agent: ring.moved(fact.agent, places), ..fact });
                    }
                }
                self.listed(first)
            }
        };
        self.shifted[place] = (clock, places, result);
        result
    }

    /// What was told, of all agents that lie so many places further.
    pub(super) fn shifted_told(&mut self, told: WriterClock, places: u32) -> WriterClock {
        let (agent, over) = told.own;
        WriterClock { knows: self.shifted(told.knows, places), own: (self.ring.moved(agent, places), over) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{AgentIds, ClockArena, ClockEntry, VectorClock, WriterClock};

    /// Turns that are over, and that can be seen, by agent.
    type Facts = BTreeMap<u32, (u32, u32)>;

    fn facts(agents: u32) -> impl Strategy<Value = Facts> {
        prop::collection::btree_map(0..agents, (0..5_u32, 0..5_u32), 0..70).prop_map(|mut facts| {
            facts.values_mut().for_each(|(over, seen)| *seen = (*seen).min(*over));
            facts
        })
    }

    fn clock(clocks: &mut ClockArena, facts: &Facts) -> VectorClock {
        let all = facts.iter();
        let all: Vec<ClockEntry> =
            all.map(|(&agent, &(over, seen))| ClockEntry { agent, ordered: over, visible: seen }).collect();
        let first = clocks.facts.len();
        clocks.facts.extend(all);
        clocks.listed(first)
    }

    fn joined(a: &Facts, b: &Facts, relaxed: bool) -> Facts {
        let mut all = a.clone();
        for (agent, (over, seen)) in b {
            let known = all.entry(*agent).or_default();
            *known = (known.0.max(*over), known.1.max(if relaxed { 0 } else { *seen }));
        }
        all
    }

    fn same(clocks: &ClockArena, clock: VectorClock, facts: &Facts, agents: u32) -> Result<(), TestCaseError> {
        for agent in 0..agents {
            let (over, seen) = facts.get(&agent).copied().unwrap_or_default();
            prop_assert_eq!((clocks.ordered(clock, agent), clocks.visible(clock, agent)), (over, seen));
            for end in [agent + 1, agent + 20, agents] {
                let known = facts.range(agent..end.max(agent)).next().is_some();
                prop_assert_eq!(clocks.knows_any(clock, &(agent as usize..end as usize)), known);
            }
        }
        let mut known = Vec::new();
        clocks.any(clock, &mut |agent| {
            known.push(agent);
            false
        });
        prop_assert_eq!(known, facts.keys().copied().collect::<Vec<_>>());
        Ok(())
    }

    proptest! {
        #[test]
        fn a_clock_knows_what_it_has_heard(
            (agents, all) in prop::sample::select(vec![9_u32, 16, 70, 400, 5000])
                .prop_flat_map(|agents| (Just(agents), prop::collection::vec(facts(agents), 1..8))),
        ) {
            let mut clocks = ClockArena::new(AgentIds::plain(agents));
            let each: Vec<VectorClock> = all.iter().map(|facts| clock(&mut clocks, facts)).collect();
            for relaxed in [false, true] {
                let (mut sum, mut clock) = (Facts::new(), VectorClock::default());
                for (facts, other) in all.iter().zip(&each) {
                    (sum, clock) = (joined(&sum, facts, relaxed), clocks.join(clock, *other, relaxed));
                }
                same(&clocks, clock, &sum, agents)?;
                if !relaxed {
                    let union = clocks.union(each.iter().rev().copied());
                    same(&clocks, union, &sum, agents)?;
                    prop_assert_eq!(clocks.join(clock, each[0], false), clock);
                }
                let learned = clocks.advance(clock, agents / 2, 3);
                same(&clocks, learned, &joined(&sum, &Facts::from([(agents / 2, (3, 3))]), false), agents)?;
            }
            // Agents that follow each other all around.
            let ring = AgentIds::plain(agents);
            let step = if agents.is_multiple_of(16) { 16 } else { agents };
            for places in [step % agents, agents - step] {
                let sum = &all[0];
                let moved = sum.iter().map(|(agent, known)| ((agent + places) % agents, *known)).collect::<Facts>();
                let shifted = clocks.shifted(each[0], places);
                same(&clocks, shifted, &moved, agents)?;
                let back = clocks.shifted(shifted, (agents - places) % agents);
                prop_assert_eq!(ring.moved(ring.moved(1, places), (agents - places) % agents), 1);
                same(&clocks, back, sum, agents)?;
            }
            // Twice each, since what was heard of late is remembered.
            for (turns, count) in [(4, 1), (4, all.len()), (2, all.len()), (4, 1), (4, all.len()), (2, all.len())] {
                let told = each[..count].iter().map(|knows| WriterClock { knows: *knows, own: (3, turns) });
                let sum = all[..count].iter().fold(Facts::new(), |sum, facts| joined(&sum, facts, false));
                let heard = clocks.told(told, VectorClock::default());
                same(&clocks, heard, &joined(&sum, &Facts::from([(3, (turns, 0))]), false), agents)?;
            }
        }
    }
}
