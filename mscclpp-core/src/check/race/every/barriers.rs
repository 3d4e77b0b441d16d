//! Barriers that thread blocks execute at different positions of their loops.
//!
//! Such a barrier is modeled as counters, one from each of its blocks to each other one: a block that executes it for
//! the nth time signals, and continues with the nth signals of all others. A block acquires only clocks that are causal
//! ([`causal`](super::causal)), so that with more iterations, too, it has executed the barrier at least as often as the
//! other block had when that one signaled.

use std::collections::{BTreeMap, BTreeSet};

use super::causal::{Course, Courses, Rates, Stand};
use super::{Demand, asks};
use crate::check::model::Model;
use crate::check::race::RaceDetector;
use crate::check::race::clock::VectorClock;
use crate::plan::OpKind;

/// Maximum number of thread blocks of such a barrier that acquire from each other; of more, none does.
const MOST_BLOCKS: usize = 16;

/// What the thread blocks of such barriers have released and acquired, by the number of the barrier.
#[derive(Default)]
pub(in crate::check::race) struct UnevenBarriers(BTreeMap<u32, BTreeMap<u32, Block>>);

/// A thread block of a barrier.
#[derive(Default)]
struct Block {
    course: Course,
    /// Its clock at each execution of the barrier.
    words: Vec<VectorClock>,
    /// By other block, how many of its clocks this one has acquired.
    heard: BTreeMap<u32, usize>,
}

impl UnevenBarriers {
    /// Returns the uneven barriers of a plan, in an execution that proves a result.
    pub(in crate::check::race) fn of(model: &Model) -> Self {
        if model.barriers() == 0 {
            return Self::default();
        }
        let rates = Rates::of(model);
        let mut barriers: BTreeMap<u32, BTreeMap<u32, Block>> = BTreeMap::new();
        for (agent, own) in (0..).zip(&model.agents) {
            for step in own.steps.clone().filter(|step| model.step_at(*step).kind == OpKind::Barrier) {
                let block = barriers.entry(model.ids(step)[0]).or_default().entry(agent).or_default();
                block.course.add(rates.inside(model, agent, step));
            }
        }
        barriers.retain(|_, blocks| {
            blocks.values_mut().for_each(|block| block.course.sum(rates.len()));
            let mut courses = blocks.values().map(|block| &block.course);
            let first = courses.next();
            asks(Demand::Barriers) && courses.any(|course| first.is_some_and(|first| !first.is_like(course)))
        });
        Self(barriers)
    }

    pub(in crate::check::race) fn contains(&self, barrier: u32) -> bool {
        self.0.contains_key(&barrier)
    }

    /// Returns the clocks that a block at a barrier acquires from others and has not acquired before.
    fn news(&mut self, barrier: u32, agent: u32, stand: Stand) -> Vec<VectorClock> {
        let mut news = Vec::new();
        let Some(blocks) = self.0.get_mut(&barrier).filter(|blocks| blocks.len() <= MOST_BLOCKS) else { return news };
        let others: BTreeSet<u32> = blocks.keys().copied().filter(|other| *other != agent).collect();
        let Some(mut own) = blocks.remove(&agent) else { return news };
        let times = own.words.len();
        for (other, from) in others.iter().filter_map(|other| Some((*other, blocks.get(other)?))) {
            let heard = own.heard.entry(other).or_default();
            let sure = times.min(from.words.len());
            let place = own.course.stand(times as u64, stand);
            let now = Courses::heard_in(&from.course, |_| 0, place, *heard, sure);
            news.extend_from_slice(&from.words[*heard..now]);
            *heard = now;
        }
        blocks.insert(agent, own);
        news
    }
}

impl RaceDetector<'_, '_> {
    /// All blocks of an uneven barrier have reached it.
    pub(in crate::check::race) fn meet_unevenly(&mut self, barrier: u32, agents: &[usize]) {
        for &number in agents {
            self.agents[number].meet(&mut self.clocks);
            let word = self.agents[number].all_know(number as u32, &mut self.clocks);
            let blocks = self.uneven_barriers.0.get_mut(&barrier);
            if let Some(block) = blocks.and_then(|blocks| blocks.get_mut(&(number as u32))) {
                block.words.push(word);
            }
        }
        agents.iter().for_each(|&number| self.hear_at_barrier(barrier, number, Stand::At));
    }

    /// A block at a barrier acquires the clocks of the others.
    pub(super) fn hear_at_barrier(&mut self, barrier: u32, number: usize, stand: Stand) {
        for word in self.uneven_barriers.news(barrier, number as u32, stand) {
            let agent = &mut self.agents[number];
            agent.knows = self.clocks.join(agent.knows, word, false);
        }
    }
}
