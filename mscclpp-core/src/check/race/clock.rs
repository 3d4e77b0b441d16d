//! What an agent knows to be over.

use std::cmp::Ordering;
use std::sync::Arc;

/// Per agent, how many of its operations are over. Agents of which nothing is known are left out. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    /// By agent, ascending.
    counts: Option<Arc<[(u32, u64)]>>,
}

impl Clock {
    fn list(&self) -> &[(u32, u64)] {
        self.counts.as_deref().unwrap_or_default()
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
        let list = self.list();
        let new = [(agent, count)];
        self.counts = Some(match list.binary_search_by_key(&agent, |(agent, _)| *agent) {
            Ok(place) => {
                let mut known = self.counts.take().unwrap_or_default();
                Arc::make_mut(&mut known)[place].1 = count;
                known
            }
            Err(place) => list[..place].iter().chain(&new).chain(&list[place..]).copied().collect(),
        });
    }

    /// Whether both are one list, so that what happens to one happens to the other.
    fn is(&self, other: &Self) -> bool {
        match (&self.counts, &other.counts) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }

    /// Learns all that another one knows.
    pub(super) fn join(&mut self, other: &Self) {
        if self.is(other) || other.counts.is_none() {
            return;
        }
        if self.counts.is_none() || is_within(self.list(), other.list()) {
            *self = other.clone();
        } else if !is_within(other.list(), self.list()) {
            self.counts = Some(merged(self.list(), other.list()).into());
        }
    }
}

/// Whether everything that `a` says is also said by `b`.
fn is_within(a: &[(u32, u64)], b: &[(u32, u64)]) -> bool {
    let mut rest = b.iter();
    a.len() <= b.len()
        && a.iter().all(|(agent, count)| {
            rest.find(|(other, _)| other >= agent).is_some_and(|(other, most)| other == agent && most >= count)
        })
}

fn merged(a: &[(u32, u64)], b: &[(u32, u64)]) -> Vec<(u32, u64)> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        out.push(match x.0.cmp(&y.0) {
            Ordering::Less => x,
            Ordering::Greater => y,
            Ordering::Equal => (x.0, x.1.max(y.1)),
        });
        i += usize::from(x.0 <= y.0);
        j += usize::from(y.0 <= x.0);
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
    out
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
        // Mostly all that is over can be seen, and both are one list.
        let one = self.over.is(&self.seen) && other.over.is(&other.seen);
        self.over.join(&other.over);
        if one {
            self.seen = self.over.clone();
        } else {
            self.seen.join(&other.seen);
        }
    }

    pub(super) fn learn(&mut self, agent: u32, count: u64) {
        let one = self.over.is(&self.seen);
        if one {
            self.seen = Clock::default();
        }
        self.over.learn(agent, count);
        if one {
            self.seen = self.over.clone();
        } else {
            self.seen.learn(agent, count);
        }
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
