//! What an agent knows to be over.

use std::sync::Arc;

/// Per agent, how many of its operations are over. Agents of which nothing is known are left out. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// By agent, ascending.
    counts: Option<Arc<Vec<(u32, u64)>>>,
}

impl Clock {
    fn list(&self) -> &[(u32, u64)] {
        self.counts.as_deref().map_or(&[], Vec::as_slice)
    }

    /// How many operations of an agent are over.
    pub(super) fn get(&self, agent: u32) -> u64 {
        let list = self.list();
        list.binary_search_by_key(&agent, |(agent, _)| *agent).map_or(0, |place| list[place].1)
    }

    /// Learns that so many operations of an agent are over.
    pub(super) fn learn(&mut self, agent: u32, count: u64) {
        if count <= self.get(agent) {
            return;
        }
        let list = Arc::make_mut(self.counts.get_or_insert_default());
        match list.binary_search_by_key(&agent, |(agent, _)| *agent) {
            Ok(place) => list[place].1 = count,
            Err(place) => list.insert(place, (agent, count)),
        }
    }

    /// Learns all that another one knows.
    pub(super) fn join(&mut self, other: &Self) {
        let same = matches!((&self.counts, &other.counts), (Some(a), Some(b)) if Arc::ptr_eq(a, b));
        if same || other.list().iter().all(|&(agent, count)| self.get(agent) >= count) {
            return;
        }
        if self.list().iter().all(|&(agent, count)| other.get(agent) >= count) {
            *self = other.clone();
            return;
        }
        let (mut a, mut b) = (self.list().iter().copied().peekable(), other.list().iter().copied().peekable());
        let mut merged = Vec::with_capacity(self.list().len() + other.list().len());
        while let (Some(&x), Some(&y)) = (a.peek(), b.peek()) {
            merged.push((
                x.0.min(y.0),
                if x.0 == y.0 {
                    x.1.max(y.1)
                } else if x.0 < y.0 {
                    x.1
                } else {
                    y.1
                },
            ));
            if x.0 <= y.0 {
                a.next();
            }
            if y.0 <= x.0 {
                b.next();
            }
        }
        merged.extend(a);
        merged.extend(b);
        self.counts = Some(Arc::new(merged));
    }
}

/// What is over, and what of it can also be seen.
///
/// Relaxed signals and packets say that something is over, so that its memory may be overwritten; they do not make
/// visible what it wrote. Whatever can be seen is over.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge {
    pub(super) over: Clock,
    pub(super) seen: Clock,
}

impl Knowledge {
    pub(super) fn join(&mut self, other: &Self) {
        self.over.join(&other.over);
        self.seen.join(&other.seen);
    }

    pub(super) fn learn(&mut self, agent: u32, count: u64) {
        self.over.learn(agent, count);
        self.seen.learn(agent, count);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Clock;

    fn clock(facts: &[(u32, u64)]) -> Clock {
        let mut clock = Clock::default();
        facts.iter().for_each(|&(agent, count)| clock.learn(agent, count));
        clock
    }

    proptest! {
        #[test]
        fn a_join_knows_the_most_of_both(
            a in prop::collection::vec((0..8_u32, 0..5_u64), 0..8),
            b in prop::collection::vec((0..8_u32, 0..5_u64), 0..8),
        ) {
            let (x, y) = (clock(&a), clock(&b));
            let mut joined = x.clone();
            joined.join(&y);
            for agent in 0..8 {
                prop_assert_eq!(joined.get(agent), x.get(agent).max(y.get(agent)));
                let most = a.iter().filter(|(other, _)| *other == agent).map(|(_, count)| *count).max();
                prop_assert_eq!(x.get(agent), most.unwrap_or(0));
            }
        }
    }
}
