//! Vector clocks: the operations that happen before an agent's next one, and those whose writes are visible to it.
//!
//! Where agents signal each other, a clock has few entries: such clocks are lists. Packets order many agents, so that
//! thousands of agents may have clocks with thousands of entries, most of which are equal: large clocks are [`tree`]s,
//! which share equal subtrees.

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

/// Vector clock: per agent, how many of its timestamps happen before, and of how many the writes are also visible; or
/// no entry. An agent with an entry, even with timestamp 0, has started its launch. The value is a handle into
/// [`ClockArena`]; the default has no entries.
///
/// Relaxed signals and packets order operations, so that their memory may be overwritten; they do not publish writes.
/// Whatever is visible also happens before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct VectorClock(u32);

/// Entry of an agent in a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ClockEntry {
    agent: u32,
    ordered: u32,
    visible: u32,
}

/// All clocks of an abstract execution.
#[derive(Default)]
pub(in super::super) struct ClockArena {
    /// By handle, the range of a list in `facts`. The first one is empty.
    lists: Vec<(u32, u32)>,
    /// The entries of the lists, each in ascending order of the agents.
    facts: Vec<ClockEntry>,
    trees: Trees,
    builder: ClockBuilder,
    ring: AgentIds,
    /// Cache of rotated clocks, by a part of the hash: the clock, its rotation, and the result.
    shifted: Vec<(VectorClock, u32, VectorClock)>,
    /// Cache of the unions of packets' clocks, by a part of the hash.
    unions: Vec<(SmallVec<[WriterClock; 2]>, VectorClock)>,
}

/// Entries of the cache of rotated clocks.
const ROTATIONS: usize = 1 << 8;

/// Marks the handles of trees.
const TREE: u32 = 1 << 31;

/// Maximum number of entries of a list.
const MAX_FACTS: usize = 48;

/// Maximum number of entries of a list that is searched linearly, which is fastest for short lists.
const SHORT: usize = 8;

impl VectorClock {
    fn tree(self) -> Option<u32> {
        (self.0 & TREE > 0).then_some(self.0 & !TREE)
    }
}

impl ClockArena {
    /// Creates an arena without clocks, for the given agents.
    pub(super) fn new(ring: AgentIds) -> Self {
        let agents = ring.span();
        let (lists, facts) = (Vec::with_capacity(2 * agents), Vec::with_capacity(4 * agents));
        let mut clocks = Self { lists, facts, trees: Trees::new(ring.len()), ring, ..Self::default() };
        clocks.lists.push((0, 0));
        clocks
    }

    /// Returns the clock of an agent that has started its launch and has done nothing else.
    pub(super) fn of(&mut self, agent: u32) -> VectorClock {
        self.facts.push(ClockEntry { agent, ordered: 0, visible: 0 });
        self.push_list(self.facts.len() - 1)
    }

    /// Returns the clock of the entries from an index on.
    fn push_list(&mut self, first: usize) -> VectorClock {
        if self.facts.len() - first > MAX_FACTS {
            let tree = self.trees.join_entries(0, &self.facts[first..], false);
            self.facts.truncate(first);
            return VectorClock(tree | TREE);
        }
        self.lists.push((first as u32, self.facts.len() as u32));
        VectorClock(self.lists.len() as u32 - 1)
    }

    /// Returns the range of a list's entries.
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

    /// Returns how many timestamps of an agent happen before.
    pub(in super::super) fn ordered(&self, clock: VectorClock, agent: u32) -> u32 {
        match clock.tree() {
            Some(tree) => self.trees.over(tree, agent),
            None => self.get(clock, agent).map_or(0, |fact| fact.ordered),
        }
    }

    /// Returns how many timestamps of an agent happen before and are visible.
    pub(super) fn visible(&self, clock: VectorClock, agent: u32) -> u32 {
        match clock.tree() {
            Some(tree) => self.trees.visible(tree, agent),
            None => self.get(clock, agent).map_or(0, |fact| fact.visible),
        }
    }

    /// Returns whether the clock has an entry of any of these agents.
    pub(in super::super) fn has_any(&self, clock: VectorClock, agents: &Range<usize>) -> bool {
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

    /// Returns whether a condition holds for an agent of the clock; the agents are tested in ascending order, up to the
    /// first for which it does.
    pub(in super::super) fn any(&self, clock: VectorClock, holds: &mut impl FnMut(u32) -> bool) -> bool {
        match clock.tree() {
            Some(tree) => self.trees.any(tree, &(0..usize::MAX), holds),
            None => self.facts[self.list(clock)].iter().any(|fact| holds(fact.agent)),
        }
    }

    /// Returns the clock with every agent replaced by the one that is the given places after it.
    pub(super) fn shifted(&mut self, clock: VectorClock, places: u32) -> VectorClock {
        if places == 0 || clock == VectorClock::default() {
            return clock;
        }
        if self.shifted.is_empty() {
            self.shifted.resize(ROTATIONS, Default::default());
        }
        let hash = (u64::from(clock.0) << 32 | u64::from(places)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (hash >> 32) as usize % ROTATIONS;
        let (known, by, result) = self.shifted[place];
        if (known, by) == (clock, places) {
            return result;
        }
        let ring = self.ring;
        let result = match clock.tree() {
            Some(tree) => VectorClock(self.trees.shifted(tree, ring, places) | TREE),
            None => {
                let (list, first) = (self.list(clock), self.facts.len());
                // Agents past the end come first.
                let turn = list.start
                    + self.facts[list.clone()].partition_point(|fact| fact.agent + places < ring.len() as u32);
                for range in [turn..list.end, list.start..turn] {
                    for place in range {
                        let fact = self.facts[place];
                        self.facts.push(ClockEntry { agent: ring.moved(fact.agent, places), ..fact });
                    }
                }
                self.push_list(first)
            }
        };
        self.shifted[place] = (clock, places, result);
        result
    }

    /// Returns the clock of a writer with every agent replaced by the one that is the given places after it.
    pub(super) fn shifted_writer(&mut self, writers: WriterClock, places: u32) -> WriterClock {
        let (agent, over) = writers.own;
        WriterClock { clock: self.shifted(writers.clock, places), own: (self.ring.moved(agent, places), over) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{AgentIds, ClockArena, ClockEntry, VectorClock, WriterClock};

    /// How many timestamps happen before, and how many are visible, by agent.
    type Facts = BTreeMap<u32, (u32, u32)>;

    fn facts(agents: u32) -> impl Strategy<Value = Facts> {
        prop::collection::btree_map(0..agents, (0..5_u32, 0..5_u32), 0..70).prop_map(|mut facts| {
            facts.values_mut().for_each(|(over, visible)| *visible = (*visible).min(*over));
            facts
        })
    }

    fn clock(clocks: &mut ClockArena, facts: &Facts) -> VectorClock {
        let all = facts.iter();
        let all: Vec<ClockEntry> =
            all.map(|(&agent, &(over, visible))| ClockEntry { agent, ordered: over, visible }).collect();
        let first = clocks.facts.len();
        clocks.facts.extend(all);
        clocks.push_list(first)
    }

    fn joined(a: &Facts, b: &Facts, relaxed: bool) -> Facts {
        let mut all = a.clone();
        for (agent, (over, visible)) in b {
            let known = all.entry(*agent).or_default();
            *known = (known.0.max(*over), known.1.max(if relaxed { 0 } else { *visible }));
        }
        all
    }

    fn same(clocks: &ClockArena, clock: VectorClock, facts: &Facts, agents: u32) -> Result<(), TestCaseError> {
        for agent in 0..agents {
            let (over, visible) = facts.get(&agent).copied().unwrap_or_default();
            prop_assert_eq!((clocks.ordered(clock, agent), clocks.visible(clock, agent)), (over, visible));
            for end in [agent + 1, agent + 20, agents] {
                let known = facts.range(agent..end.max(agent)).next().is_some();
                prop_assert_eq!(clocks.has_any(clock, &(agent as usize..end as usize)), known);
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
            // Agents that follow each other cyclically.
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
            // Each union is computed twice, since results are cached.
            for (turns, count) in [(4, 1), (4, all.len()), (2, all.len()), (4, 1), (4, all.len()), (2, all.len())] {
                let writers = each[..count].iter().map(|clock| WriterClock { clock: *clock, own: (3, turns) });
                let sum = all[..count].iter().fold(Facts::new(), |sum, facts| joined(&sum, facts, false));
                let unions = clocks.union_of_writers(writers, VectorClock::default());
                same(&clocks, unions, &joined(&sum, &Facts::from([(3, (turns, 0))]), false), agents)?;
            }
        }
    }
}
