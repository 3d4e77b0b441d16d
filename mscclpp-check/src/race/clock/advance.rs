//! Operations that advance clocks: by a timestamp, by another clock, by many clocks.

use super::{ClockArena, ClockEntry, TREE, VectorClock};
use crate::race::packets::WriterClock;

/// Entries of the cache of unions.
const UNIONS: usize = 1 << 6;

impl ClockArena {
    /// Returns the clock with the first `count` timestamps of an agent, which happen before and are visible.
    pub(in crate::race) fn advance(&mut self, clock: VectorClock, agent: u32, count: u32) -> VectorClock {
        let new = ClockEntry { agent, ordered: count, visible: count };
        if let Some(tree) = clock.tree() {
            return VectorClock(self.trees.join_entries(tree, &[new], false) | TREE);
        }
        let list = self.list(clock);
        let place = list.start + self.facts[list.clone()].partition_point(|fact| fact.agent < agent);
        let known = self.facts[place..list.end].first().filter(|fact| fact.agent == agent).copied();
        if known.is_some_and(|known| known.ordered >= count && known.visible >= count) {
            return clock;
        }
        let first = self.facts.len();
        self.facts.extend_from_within(list.start..place);
        let known = known.map(|known| {
            self.facts.push(ClockEntry { agent, ordered: known.ordered.max(count), visible: known.visible.max(count) });
        });
        if known.is_none() {
            self.facts.push(new);
        }
        self.facts.extend_from_within(place + usize::from(known.is_some())..list.end);
        self.push_list(first)
    }

    /// Returns the join of two clocks; after a relaxed wait, `theirs` orders but publishes nothing.
    pub(in crate::race) fn join(&mut self, mine: VectorClock, theirs: VectorClock, relaxed: bool) -> VectorClock {
        if mine == theirs {
            return mine;
        }
        if mine == VectorClock::default() && !relaxed {
            return theirs;
        }
        match (mine.tree(), theirs.tree()) {
            (None, None) => self.join_lists(mine, theirs, relaxed),
            (Some(mine), None) => {
                VectorClock(self.trees.join_entries(mine, &self.facts[self.list(theirs)], relaxed) | TREE)
            }
            (None, Some(theirs)) => {
                let theirs = self.trees.join(0, theirs, relaxed);
                VectorClock(self.trees.join_entries(theirs, &self.facts[self.list(mine)], false) | TREE)
            }
            (Some(mine), Some(theirs)) => VectorClock(self.trees.join(mine, theirs, relaxed) | TREE),
        }
    }

    fn join_lists(&mut self, mine: VectorClock, theirs: VectorClock, relaxed: bool) -> VectorClock {
        let (a, b) = (self.list(mine), self.list(theirs));
        if within(&self.facts[b.clone()], &self.facts[a.clone()], relaxed) {
            return mine;
        }
        if !relaxed && within(&self.facts[a.clone()], &self.facts[b.clone()], false) {
            return theirs;
        }
        let first = self.facts.len();
        let writers = |fact: ClockEntry| ClockEntry { visible: if relaxed { 0 } else { fact.visible }, ..fact };
        let (mut i, mut j) = (a.start, b.start);
        while i < a.end && j < b.end {
            let (x, y) = (self.facts[i], writers(self.facts[j]));
            let (over, visible) = (x.ordered.max(y.ordered), x.visible.max(y.visible));
            self.facts.push(match x.agent.cmp(&y.agent) {
                std::cmp::Ordering::Less => x,
                std::cmp::Ordering::Greater => y,
                std::cmp::Ordering::Equal => ClockEntry { agent: x.agent, ordered: over, visible },
            });
            i += usize::from(x.agent <= y.agent);
            j += usize::from(y.agent <= x.agent);
        }
        self.facts.extend_from_within(i..a.end);
        for place in j..b.end {
            self.facts.push(writers(self.facts[place]));
        }
        self.push_list(first)
    }

    /// Returns the union of several clocks and of some agents' timestamps, which happen before and are visible.
    pub(in crate::race) fn union_with(
        &mut self,
        clocks: impl Iterator<Item = VectorClock> + Clone,
        turns: impl Iterator<Item = (u32, u32)>,
    ) -> VectorClock {
        self.union_all(clocks, turns.map(|(agent, count)| ClockEntry { agent, ordered: count, visible: count }))
    }

    /// Returns the union of several clocks.
    pub(in crate::race) fn union(&mut self, clocks: impl Iterator<Item = VectorClock> + Clone) -> VectorClock {
        self.union_all(clocks, std::iter::empty())
    }

    /// Returns the union of the clocks of packets and another clock.
    pub(in crate::race) fn union_of_writers(
        &mut self,
        writers: impl Iterator<Item = WriterClock> + Clone,
        known: VectorClock,
    ) -> VectorClock {
        if writers.clone().next().is_none() {
            return known;
        }
        // Thread blocks of a rank mostly read the same packets.
        let hash = writers.clone().fold(0u64, |hash, WriterClock { clock, own: (agent, over) }| {
            let number = u64::from(clock.0) << 32 ^ u64::from(agent) << 12 ^ u64::from(over);
            (hash.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        let place = (hash >> 32) as usize % UNIONS;
        if self.unions.is_empty() {
            self.unions.resize_with(UNIONS, Default::default);
        }
        if !self.unions[place].0.iter().copied().eq(writers.clone()) {
            let all = self.union_of_writers_uncached(writers.clone());
            let (list, result) = &mut self.unions[place];
            list.clear();
            list.extend(writers);
            *result = all;
        }
        self.join(self.unions[place].1, known, false)
    }

    /// Returns the union of the clocks of packets, where no other block has acquired the same.
    pub(in crate::race) fn union_of_writers_uncached(
        &mut self,
        writers: impl Iterator<Item = WriterClock> + Clone,
    ) -> VectorClock {
        let own = writers.clone().map(|WriterClock { own: (agent, over), .. }| ClockEntry {
            agent,
            ordered: over,
            visible: 0,
        });
        self.union_all(writers.map(|writers| writers.clock), own)
    }

    fn union_all(
        &mut self,
        clocks: impl Iterator<Item = VectorClock> + Clone,
        own: impl Iterator<Item = ClockEntry>,
    ) -> VectorClock {
        let mut own = own.peekable();
        let first = clocks.clone().next().unwrap_or_default();
        if own.peek().is_none() && clocks.clone().all(|clock| clock == first) {
            return first;
        }
        // Neighboring clocks are mostly equal.
        let mut last = VectorClock::default();
        for clock in clocks.clone().filter(|clock| clock.tree().is_none()) {
            if std::mem::replace(&mut last, clock) != clock {
                self.facts[self.list(clock)].iter().for_each(|fact| self.builder.add(fact));
            }
        }
        own.for_each(|fact| self.builder.add(&fact));
        let first = self.facts.len();
        self.builder.take(&mut self.facts);
        let trees = clocks.filter_map(VectorClock::tree);
        if trees.clone().next().is_none() {
            return self.push_list(first);
        }
        let all = self.trees.union(trees);
        let all = self.trees.join_entries(all, &self.facts[first..], false);
        self.facts.truncate(first);
        VectorClock(all | TREE)
    }
}

/// Returns whether clock `b` includes clock `a`.
fn within(a: &[ClockEntry], b: &[ClockEntry], relaxed: bool) -> bool {
    if a.len() > b.len() {
        return false;
    }
    let mut rest = b.iter();
    a.iter().all(|fact| {
        rest.find(|other| other.agent >= fact.agent).is_some_and(|other| {
            other.agent == fact.agent && other.ordered >= fact.ordered && (relaxed || other.visible >= fact.visible)
        })
    })
}
