//! What an agent knows to be over, and what of it can be seen.
//!
//! Where agents signal each other, each knows of a few: clocks that know little are lists. Packets tell widely, so that what
//! thousands of agents know of each other has to be kept, and most of it is known by many alike: clocks that know much are
//! [`tree`]s, which share what they have in common.

mod tree;

use std::ops::Range;

use smallvec::SmallVec;

use super::Told;
use super::ring::Ring;
use tree::Trees;
pub(super) use tree::WIDTH as LEAF;

/// Per agent, how many of its turns are over, and of how many the writes can also be seen; or nothing. Whoever is known at all,
/// even with no turn over, has begun its launch. A handle of something in [`Clocks`]; the default knows nothing.
///
/// Relaxed signals and packets say that something is over, so that its memory may be overwritten; they do not make
/// visible what it wrote. Whatever can be seen is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Clock(u32);

/// What is known of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fact {
    agent: u32,
    over: u32,
    seen: u32,
}

/// All clocks of a run.
#[derive(Default)]
pub(in super::super) struct Clocks {
    /// By handle, where a list begins in `facts` and ends. The first one is empty.
    lists: Vec<(u32, u32)>,
    /// What lists say, each in ascending order of the agents.
    facts: Vec<Fact>,
    trees: Trees,
    gather: Gather,
    ring: Ring,
    /// Clocks that were shifted of late, by a part of their hash: the clock, by how many places, and the result.
    shifted: Vec<(Clock, u32, Clock)>,
    /// What packets have told of late, by a part of its hash.
    heard: Vec<(SmallVec<[Told; 2]>, Clock)>,
}

/// Entries of what was shifted of late.
const SHIFTED: usize = 1 << 8;

/// Entries of what was heard of late.
const HEARD: usize = 1 << 6;

/// Marks the handles of trees.
const TREE: u32 = 1 << 31;

/// Facts of a list at most.
const MOST_FACTS: usize = 48;

/// Facts of a list that are looked at one by one: where there are few, no search beats a look.
const SHORT: usize = 8;

impl Clock {
    fn tree(self) -> Option<u32> {
        (self.0 & TREE > 0).then_some(self.0 & !TREE)
    }
}

impl Clocks {
    /// No clocks yet, over so many agents at most.
    pub(super) fn new(ring: Ring) -> Self {
        let agents = ring.span();
        let (lists, facts) = (Vec::with_capacity(2 * agents), Vec::with_capacity(4 * agents));
        let mut clocks = Self { lists, facts, trees: Trees::new(ring.len()), ring, ..Self::default() };
        clocks.lists.push((0, 0));
        clocks
    }

    /// What an agent knows when it begins: that it has.
    pub(super) fn of(&mut self, agent: u32) -> Clock {
        self.facts.push(Fact { agent, over: 0, seen: 0 });
        self.listed(self.facts.len() - 1)
    }

    /// The clock of the facts from a place on.
    fn listed(&mut self, first: usize) -> Clock {
        if self.facts.len() - first > MOST_FACTS {
            let tree = self.trees.learn(0, &self.facts[first..], false);
            self.facts.truncate(first);
            return Clock(tree | TREE);
        }
        self.lists.push((first as u32, self.facts.len() as u32));
        Clock(self.lists.len() as u32 - 1)
    }

    /// Where the facts of a list are.
    fn list(&self, clock: Clock) -> Range<usize> {
        let (first, end) = self.lists[clock.0 as usize];
        first as usize..end as usize
    }

    fn get(&self, clock: Clock, agent: u32) -> Option<&Fact> {
        let list = &self.facts[self.list(clock)];
        if list.len() <= SHORT {
            return list.iter().find(|fact| fact.agent == agent);
        }
        list.binary_search_by_key(&agent, |fact| fact.agent).ok().map(|place| &list[place])
    }

    /// How many turns of an agent are over.
    pub(in super::super) fn over(&self, clock: Clock, agent: u32) -> u32 {
        match clock.tree() {
            Some(tree) => self.trees.over(tree, agent),
            None => self.get(clock, agent).map_or(0, |fact| fact.over),
        }
    }

    /// How many turns of an agent are over and can be seen.
    pub(super) fn seen(&self, clock: Clock, agent: u32) -> u32 {
        match clock.tree() {
            Some(tree) => self.trees.seen(tree, agent),
            None => self.get(clock, agent).map_or(0, |fact| fact.seen),
        }
    }

    /// Whether some of these agents is known to have begun.
    pub(in super::super) fn knows_any(&self, clock: Clock, agents: &Range<usize>) -> bool {
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
    pub(in super::super) fn any(&self, clock: Clock, holds: &mut impl FnMut(u32) -> bool) -> bool {
        match clock.tree() {
            Some(tree) => self.trees.any(tree, &(0..usize::MAX), holds),
            None => self.facts[self.list(clock)].iter().any(|fact| holds(fact.agent)),
        }
    }

    /// The same of all agents that lie so many places behind those of whom this clock tells.
    pub(super) fn shifted(&mut self, clock: Clock, places: u32) -> Clock {
        if places == 0 || clock == Clock::default() {
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
            Some(tree) => Clock(self.trees.shifted(tree, ring, places) | TREE),
            None => {
                let (list, first) = (self.list(clock), self.facts.len());
                // What goes over the end comes first.
                let turn = list.start
                    + self.facts[list.clone()].partition_point(|fact| fact.agent + places < ring.len() as u32);
                for range in [turn..list.end, list.start..turn] {
                    for place in range {
                        let fact = self.facts[place];
                        self.facts.push(Fact { agent: ring.moved(fact.agent, places), ..fact });
                    }
                }
                self.listed(first)
            }
        };
        self.shifted[place] = (clock, places, result);
        result
    }

    /// What was told, of all agents that lie so many places further.
    pub(super) fn shifted_told(&mut self, told: Told, places: u32) -> Told {
        let (agent, over) = told.own;
        Told { knows: self.shifted(told.knows, places), own: (self.ring.moved(agent, places), over) }
    }

    /// Learns that so many turns of an agent are over, and can be seen.
    pub(super) fn learn(&mut self, clock: Clock, agent: u32, count: u32) -> Clock {
        let new = Fact { agent, over: count, seen: count };
        if let Some(tree) = clock.tree() {
            return Clock(self.trees.learn(tree, &[new], false) | TREE);
        }
        let list = self.list(clock);
        let place = list.start + self.facts[list.clone()].partition_point(|fact| fact.agent < agent);
        let known = self.facts[place..list.end].first().filter(|fact| fact.agent == agent).copied();
        if known.is_some_and(|known| known.over >= count && known.seen >= count) {
            return clock;
        }
        let first = self.facts.len();
        self.facts.extend_from_within(list.start..place);
        let known = known.map(|known| {
            self.facts.push(Fact { agent, over: known.over.max(count), seen: known.seen.max(count) });
        });
        if known.is_none() {
            self.facts.push(new);
        }
        self.facts.extend_from_within(place + usize::from(known.is_some())..list.end);
        self.listed(first)
    }

    /// What one knows who learns all that another one knows; of a relaxed word, only what is over.
    pub(super) fn join(&mut self, mine: Clock, theirs: Clock, relaxed: bool) -> Clock {
        if mine == theirs {
            return mine;
        }
        if mine == Clock::default() && !relaxed {
            return theirs;
        }
        match (mine.tree(), theirs.tree()) {
            (None, None) => self.join_lists(mine, theirs, relaxed),
            (Some(mine), None) => Clock(self.trees.learn(mine, &self.facts[self.list(theirs)], relaxed) | TREE),
            (None, Some(theirs)) => {
                let theirs = self.trees.join(0, theirs, relaxed);
                Clock(self.trees.learn(theirs, &self.facts[self.list(mine)], false) | TREE)
            }
            (Some(mine), Some(theirs)) => Clock(self.trees.join(mine, theirs, relaxed) | TREE),
        }
    }

    fn join_lists(&mut self, mine: Clock, theirs: Clock, relaxed: bool) -> Clock {
        let (a, b) = (self.list(mine), self.list(theirs));
        if within(&self.facts[b.clone()], &self.facts[a.clone()], relaxed) {
            return mine;
        }
        if !relaxed && within(&self.facts[a.clone()], &self.facts[b.clone()], false) {
            return theirs;
        }
        let first = self.facts.len();
        let told = |fact: Fact| Fact { seen: if relaxed { 0 } else { fact.seen }, ..fact };
        let (mut i, mut j) = (a.start, b.start);
        while i < a.end && j < b.end {
            let (x, y) = (self.facts[i], told(self.facts[j]));
            let (over, seen) = (x.over.max(y.over), x.seen.max(y.seen));
            self.facts.push(match x.agent.cmp(&y.agent) {
                std::cmp::Ordering::Less => x,
                std::cmp::Ordering::Greater => y,
                std::cmp::Ordering::Equal => Fact { agent: x.agent, over, seen },
            });
            i += usize::from(x.agent <= y.agent);
            j += usize::from(y.agent <= x.agent);
        }
        self.facts.extend_from_within(i..a.end);
        for place in j..b.end {
            self.facts.push(told(self.facts[place]));
        }
        self.listed(first)
    }

    /// All that any of several knows, and of some agents that so many turns are over and can be seen.
    pub(super) fn union_with(
        &mut self,
        clocks: impl Iterator<Item = Clock> + Clone,
        turns: impl Iterator<Item = (u32, u32)>,
    ) -> Clock {
        self.gathered(clocks, turns.map(|(agent, count)| Fact { agent, over: count, seen: count }))
    }

    /// All that any of several knows.
    pub(super) fn union(&mut self, clocks: impl Iterator<Item = Clock> + Clone) -> Clock {
        self.gathered(clocks, std::iter::empty())
    }

    /// All that packets have told, and what else is known.
    pub(super) fn told(&mut self, told: impl Iterator<Item = Told> + Clone, known: Clock) -> Clock {
        if told.clone().next().is_none() {
            return known;
        }
        // Thread blocks of a rank mostly read the same packets.
        let hash = told.clone().fold(0u64, |hash, Told { knows, own: (agent, over) }| {
            let number = u64::from(knows.0) << 32 ^ u64::from(agent) << 12 ^ u64::from(over);
            (hash.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let place = (hash >> 32) as usize % HEARD;
        if self.heard.is_empty() {
            self.heard.resize_with(HEARD, Default::default);
        }
        if !self.heard[place].0.iter().copied().eq(told.clone()) {
            let all = self.told_once(told.clone());
            let (list, result) = &mut self.heard[place];
            list.clear();
            list.extend(told);
            *result = all;
        }
        self.join(self.heard[place].1, known, false)
    }

    /// All that packets have told, where nobody else was told the same.
    pub(super) fn told_once(&mut self, told: impl Iterator<Item = Told> + Clone) -> Clock {
        let own = told.clone().map(|Told { own: (agent, over), .. }| Fact { agent, over, seen: 0 });
        self.gathered(told.map(|told| told.knows), own)
    }

    fn gathered(&mut self, clocks: impl Iterator<Item = Clock> + Clone, own: impl Iterator<Item = Fact>) -> Clock {
        let mut own = own.peekable();
        let first = clocks.clone().next().unwrap_or_default();
        if own.peek().is_none() && clocks.clone().all(|clock| clock == first) {
            return first;
        }
        // Neighbours mostly tell the same.
        let mut last = Clock::default();
        for clock in clocks.clone().filter(|clock| clock.tree().is_none()) {
            if std::mem::replace(&mut last, clock) != clock {
                self.facts[self.list(clock)].iter().for_each(|fact| self.gather.add(fact));
            }
        }
        own.for_each(|fact| self.gather.add(&fact));
        let first = self.facts.len();
        self.gather.take(&mut self.facts);
        let trees = clocks.filter_map(Clock::tree);
        if trees.clone().next().is_none() {
            return self.listed(first);
        }
        let all = self.trees.union(trees);
        let all = self.trees.learn(all, &self.facts[first..], false);
        self.facts.truncate(first);
        Clock(all | TREE)
    }
}

/// Whether everything that `a` says is also said by `b`.
fn within(a: &[Fact], b: &[Fact], relaxed: bool) -> bool {
    if a.len() > b.len() {
        return false;
    }
    let mut rest = b.iter();
    a.iter().all(|fact| {
        rest.find(|other| other.agent >= fact.agent).is_some_and(|other| {
            other.agent == fact.agent && other.over >= fact.over && (relaxed || other.seen >= fact.seen)
        })
    })
}

/// Facts that are being put together, by agent.
struct Gather {
    /// What is over and what is seen, of those that are marked; zeros of all others.
    facts: Vec<(u32, u32)>,
    marks: Vec<u64>,
    /// The first of the marks that may be set, and the end of them.
    first: usize,
    end: usize,
}

impl Default for Gather {
    fn default() -> Self {
        Self { facts: Vec::new(), marks: Vec::new(), first: usize::MAX, end: 0 }
    }
}

impl Gather {
    #[inline]
    fn add(&mut self, fact: &Fact) {
        let (agent, place) = (fact.agent as usize, fact.agent as usize / 64);
        let Some((over, seen)) = self.facts.get_mut(agent) else { return self.grow(fact) };
        *over = fact.over.max(*over);
        *seen = fact.seen.max(*seen);
        self.marks[place] |= 1 << (agent % 64);
        self.first = self.first.min(place);
        self.end = self.end.max(place + 1);
    }

    /// Adds the fact of an agent that there is no room for yet.
    #[cold]
    fn grow(&mut self, fact: &Fact) {
        let marks = fact.agent as usize / 64 + 1;
        self.facts.resize(64 * marks, (0, 0));
        self.marks.resize(marks, 0);
        self.add(fact);
    }

    /// Appends all facts in ascending order, and is empty again.
    fn take(&mut self, out: &mut Vec<Fact>) {
        for place in std::mem::replace(&mut self.first, usize::MAX)..std::mem::take(&mut self.end) {
            let mut marks = std::mem::take(&mut self.marks[place]);
            while marks > 0 {
                let agent = place * 64 + marks.trailing_zeros() as usize;
                let (over, seen) = std::mem::take(&mut self.facts[agent]);
                out.push(Fact { agent: agent as u32, over, seen });
                marks &= marks - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{Clock, Clocks, Fact, Ring, Told};

    /// Turns that are over, and that can be seen, by agent.
    type Facts = BTreeMap<u32, (u32, u32)>;

    fn facts(agents: u32) -> impl Strategy<Value = Facts> {
        prop::collection::btree_map(0..agents, (0..5_u32, 0..5_u32), 0..70).prop_map(|mut facts| {
            facts.values_mut().for_each(|(over, seen)| *seen = (*seen).min(*over));
            facts
        })
    }

    fn clock(clocks: &mut Clocks, facts: &Facts) -> Clock {
        let all = facts.iter();
        let all: Vec<Fact> = all.map(|(&agent, &(over, seen))| Fact { agent, over, seen }).collect();
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

    fn same(clocks: &Clocks, clock: Clock, facts: &Facts, agents: u32) -> Result<(), TestCaseError> {
        for agent in 0..agents {
            let (over, seen) = facts.get(&agent).copied().unwrap_or_default();
            prop_assert_eq!((clocks.over(clock, agent), clocks.seen(clock, agent)), (over, seen));
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
            let mut clocks = Clocks::new(Ring::plain(agents));
            let each: Vec<Clock> = all.iter().map(|facts| clock(&mut clocks, facts)).collect();
            for relaxed in [false, true] {
                let (mut sum, mut clock) = (Facts::new(), Clock::default());
                for (facts, other) in all.iter().zip(&each) {
                    (sum, clock) = (joined(&sum, facts, relaxed), clocks.join(clock, *other, relaxed));
                }
                same(&clocks, clock, &sum, agents)?;
                if !relaxed {
                    let union = clocks.union(each.iter().rev().copied());
                    same(&clocks, union, &sum, agents)?;
                    prop_assert_eq!(clocks.join(clock, each[0], false), clock);
                }
                let learned = clocks.learn(clock, agents / 2, 3);
                same(&clocks, learned, &joined(&sum, &Facts::from([(agents / 2, (3, 3))]), false), agents)?;
            }
            // Agents that follow each other all around.
            let ring = Ring::plain(agents);
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
                let told = each[..count].iter().map(|knows| Told { knows: *knows, own: (3, turns) });
                let sum = all[..count].iter().fold(Facts::new(), |sum, facts| joined(&sum, facts, false));
                let heard = clocks.told(told, Clock::default());
                same(&clocks, heard, &joined(&sum, &Facts::from([(3, (turns, 0))]), false), agents)?;
            }
        }
    }
}
