//! Barriers that thread blocks execute at different positions of their loops.
//!
//! Such a barrier is modeled as counters, one from each of its blocks to each other one: a block that executes it for
//! the nth time signals, and continues with the nth signals of all others. A block acquires only clocks that are causal
//! ([`causal`](super::causal)), so that with more iterations, too, it has executed the barrier at least as often as the
//! other block had when that one signaled.

use std::collections::{BTreeMap, BTreeSet};

use super::causal::{Course, Courses, Rates, Stand};
use crate::conditions::{Condition, applies};
use crate::model::Model;
use crate::race::RaceDetector;
use crate::race::clock::VectorClock;
use mscclpp_plan::raw::OpKind;

/// Maximum number of thread blocks of such a barrier that acquire from each other; of more, none does.
const MAX_BLOCKS: usize = 16;

/// What the thread blocks of such barriers have released and acquired, by the number of the barrier.
#[derive(Default)]
pub(in crate::race) struct UnevenBarriers(BTreeMap<u32, BTreeMap<u32, Block>>);

/// A thread block of a barrier.
#[derive(Default)]
struct Block {
    course: Course,
    /// Its clock at each execution of the barrier.
    released_clocks: Vec<VectorClock>,
    /// By other block, how many of its clocks this one has acquired.
    acquired: BTreeMap<u32, usize>,
}

impl UnevenBarriers {
    /// Returns the uneven barriers of a plan, in an execution that proves a result.
    pub(in crate::race) fn of(model: &Model) -> Self {
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
            applies(Condition::Barriers) && courses.any(|course| first.is_some_and(|first| !first.is_like(course)))
        });
        Self(barriers)
    }

    pub(in crate::race) fn contains(&self, barrier: u32) -> bool {
        self.0.contains_key(&barrier)
    }

    /// Returns the clocks that a block at a barrier acquires from others and has not acquired before.
    fn newly_acquired(&mut self, barrier: u32, agent: u32, stand: Stand) -> Vec<VectorClock> {
        let mut newly_acquired = Vec::new();
        let Some(blocks) = self.0.get_mut(&barrier).filter(|blocks| blocks.len() <= MAX_BLOCKS) else {
            return newly_acquired;
        };
        let others: BTreeSet<u32> = blocks.keys().copied().filter(|other| *other != agent).collect();
        let Some(mut own) = blocks.remove(&agent) else { return newly_acquired };
        let times = own.released_clocks.len();
        for (other, from) in others.iter().filter_map(|other| Some((*other, blocks.get(other)?))) {
            let acquired = own.acquired.entry(other).or_default();
            let certain = times.min(from.released_clocks.len());
            let place = own.course.stand(times as u64, stand);
            let now = Courses::acquired_in(&from.course, |_| 0, place, *acquired, certain);
            newly_acquired.extend_from_slice(&from.released_clocks[*acquired..now]);
            *acquired = now;
        }
        blocks.insert(agent, own);
        newly_acquired
    }
}

impl RaceDetector<'_, '_> {
    /// All blocks of an uneven barrier have reached it.
    pub(in crate::race) fn sync_unevenly(&mut self, barrier: u32, agents: &[usize]) {
        for &number in agents {
            self.agents[number].block_sync(&mut self.clocks);
            let released = self.agents[number].clock_of_all_threads(number as u32, &mut self.clocks);
            let blocks = self.uneven_barriers.0.get_mut(&barrier);
            if let Some(block) = blocks.and_then(|blocks| blocks.get_mut(&(number as u32))) {
                block.released_clocks.push(released);
            }
        }
        agents.iter().for_each(|&number| self.acquire_at_barrier(barrier, number, Stand::At));
    }

    /// A block at a barrier acquires the clocks of the others.
    pub(super) fn acquire_at_barrier(&mut self, barrier: u32, number: usize, stand: Stand) {
        for released in self.uneven_barriers.newly_acquired(barrier, number as u32, stand) {
            let agent = &mut self.agents[number];
            agent.clock = self.clocks.join(agent.clock, released, false);
        }
    }
}
