//! What an agent knows to be over, and what of it can be seen.

use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

use super::Told;

/// Per agent, how many of its turns are over, and of how many the writes can also be seen. Agents of which nothing is
/// known are left out. Whoever is known at all, even with no step over, has begun its launch. Cheap to clone.
///
/// Relaxed signals and packets say that something is over, so that its memory may be overwritten; they do not make
/// visible what it wrote. Whatever can be seen is over.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Clock {
    /// By agent, ascending.
    facts: Option<Rc<[Fact]>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fact {
    agent: u32,
    over: u32,
    seen: u32,
}

impl Clock {
    /// What an agent knows when it begins: that it has.
    pub(super) fn of(agent: u32) -> Self {
        Self { facts: Some(Rc::new([Fact { agent, over: 0, seen: 0 }])) }
    }

    /// Whether both are one list.
    fn is(&self, other: &Self) -> bool {
        matches!((&self.facts, &other.facts), (Some(a), Some(b)) if Rc::ptr_eq(a, b))
    }

    fn list(&self) -> &[Fact] {
        self.facts.as_deref().unwrap_or_default()
    }

    fn get(&self, agent: u32) -> Option<&Fact> {
        let list = self.list();
        // Mostly short: no search beats a look.
        if list.len() <= 8 {
            return list.iter().find(|fact| fact.agent == agent);
        }
        list.binary_search_by_key(&agent, |fact| fact.agent).ok().map(|place| &list[place])
    }

    /// How many steps of an agent are over.
    pub(in super::super) fn over(&self, agent: u32) -> u32 {
        self.get(agent).map_or(0, |fact| fact.over)
    }

    /// How many steps of an agent are over and can be seen.
    pub(super) fn seen(&self, agent: u32) -> u32 {
        self.get(agent).map_or(0, |fact| fact.seen)
    }

    /// Whether some of these agents is known to have begun.
    pub(in super::super) fn knows_any(&self, agents: &Range<usize>) -> bool {
        let list = self.list();
        let place = list.partition_point(|fact| (fact.agent as usize) < agents.start);
        list.get(place).is_some_and(|fact| (fact.agent as usize) < agents.end)
    }

    /// The agents of which something is known.
    pub(in super::super) fn agents(&self) -> impl Iterator<Item = u32> {
        self.list().iter().map(|fact| fact.agent)
    }

    /// Learns that so many steps of an agent are over, and can be seen.
    pub(super) fn learn(&mut self, agent: u32, count: u32) {
        let new = Fact { agent, over: count, seen: count };
        let list = self.list();
        match list.binary_search_by_key(&agent, |fact| fact.agent) {
            Ok(place) if list[place].over >= count && list[place].seen >= count => {}
            Ok(place) => {
                if let Some(facts) = &mut self.facts {
                    let fact = &mut Rc::make_mut(facts)[place];
                    *fact = Fact { agent, over: fact.over.max(count), seen: fact.seen.max(count) };
                }
            }
            Err(place) => {
                self.facts = Some(list[..place].iter().chain(&[new]).chain(&list[place..]).copied().collect());
            }
        }
    }

    /// Learns all that another one knows; of a relaxed word, only what is over.
    pub(super) fn join(&mut self, other: &Self, relaxed: bool) {
        let (Some(theirs), mine) = (&other.facts, self.list()) else { return };
        if self.facts.as_ref().is_some_and(|facts| Rc::ptr_eq(facts, theirs)) || within(theirs, mine, relaxed) {
            return;
        }
        if !relaxed && within(mine, theirs, false) {
            self.facts = Some(theirs.clone());
        } else {
            self.facts = Some(merged(mine, theirs, relaxed));
        }
    }
}

/// Joins many clocks at once.
#[derive(Default)]
pub(in super::super) struct Union {
    /// Per agent, what has been heard of it, once it is among the `touched`.
    facts: Vec<Option<Fact>>,
    touched: Vec<u32>,
}

impl Union {
    /// All that any of several knows.
    pub(super) fn of<'c>(&mut self, clocks: impl Iterator<Item = &'c Clock>) -> Clock {
        clocks.for_each(|clock| self.add_all(clock));
        self.taken()
    }

    /// All that packets have told, and what else is known.
    pub(super) fn told<'c>(&mut self, told: impl Iterator<Item = &'c Told>, known: Option<&Clock>) -> Clock {
        // Packets of one writer mostly tell the same.
        let mut last: Option<&Clock> = None;
        for Told { knows, own } in told {
            if !last.is_some_and(|last| last.is(knows)) {
                self.add_all(knows);
            }
            last = Some(knows);
            self.add(Fact { agent: own.0, over: own.1, seen: 0 });
        }
        known.into_iter().for_each(|clock| self.add_all(clock));
        self.taken()
    }

    fn add_all(&mut self, clock: &Clock) {
        clock.list().iter().for_each(|fact| self.add(*fact));
    }

    fn add(&mut self, fact: Fact) {
        let agent = fact.agent as usize;
        if agent >= self.facts.len() {
            self.facts.resize(agent + 1, None);
        }
        match &mut self.facts[agent] {
            Some(known) => {
                (known.over, known.seen) = (known.over.max(fact.over), known.seen.max(fact.seen));
            }
            unknown => {
                *unknown = Some(fact);
                self.touched.push(fact.agent);
            }
        }
    }

    fn taken(&mut self) -> Clock {
        // Where most agents are known, a look at all is faster than to sort those that are.
        if self.touched.len() > self.facts.len() / 8 {
            self.touched.clear();
            let facts: Vec<Fact> = self.facts.iter_mut().filter_map(Option::take).collect();
            return Clock { facts: Some(facts.into()) };
        }
        self.touched.sort_unstable();
        let facts = self.touched.drain(..).filter_map(|agent| self.facts[agent as usize].take()).collect();
        Clock { facts: Some(facts) }
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

fn merged(a: &[Fact], b: &[Fact], relaxed: bool) -> Rc<[Fact]> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let told = |fact: Fact| Fact { seen: if relaxed { 0 } else { fact.seen }, ..fact };
    let (mut i, mut j) = (0, 0);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        out.push(match x.agent.cmp(&y.agent) {
            Ordering::Less => x,
            Ordering::Greater => told(y),
            Ordering::Equal => Fact { over: x.over.max(y.over), seen: x.seen.max(told(y).seen), ..x },
        });
        i += usize::from(x.agent <= y.agent);
        j += usize::from(y.agent <= x.agent);
    }
    out.extend_from_slice(&a[i..]);
    out.extend(b[j..].iter().copied().map(told));
    out.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Clock, Union};

    fn clock(facts: &[(u32, u32)]) -> Clock {
        let mut clock = Clock::default();
        facts.iter().for_each(|&(agent, count)| clock.learn(agent, count));
        clock
    }

    proptest! {
        #[test]
        fn a_join_knows_the_most_of_both(
            a in prop::collection::vec((0..12_u32, 0..5_u32), 0..14),
            b in prop::collection::vec((0..12_u32, 0..5_u32), 0..14),
        ) {
            let (x, y) = (clock(&a), clock(&b));
            let (mut joined, mut relaxed) = (x.clone(), x.clone());
            joined.join(&y, false);
            relaxed.join(&y, true);
            let union = Union::default().of([&x, &y].into_iter());
            for agent in 0..12 {
                let most = x.over(agent).max(y.over(agent));
                prop_assert_eq!(joined.over(agent), most);
                prop_assert_eq!(joined.seen(agent), most);
                prop_assert_eq!(union.seen(agent), most);
                prop_assert_eq!(relaxed.over(agent), most);
                prop_assert_eq!(relaxed.seen(agent), x.seen(agent));
                let either = a.iter().chain(&b).any(|(other, _)| *other == agent);
                prop_assert_eq!(joined.knows_any(&(agent as usize..agent as usize + 1)), either);
            }
        }
    }
}
