//! Vector clocks of agents.

use std::rc::Rc;

/// Per agent, the last of its epochs whose writes are visible. Shared until it changes.
#[derive(Clone, Debug)]
pub(super) struct Clock(Rc<Vec<u32>>);

impl Clock {
    pub(super) fn new(agents: usize) -> Self {
        Self(Rc::new(vec![0; agents]))
    }

    pub(super) fn get(&self, agent: u32) -> u32 {
        self.0[agent as usize]
    }

    pub(super) fn set(&mut self, agent: u32, epoch: u32) {
        Rc::make_mut(&mut self.0)[agent as usize] = epoch;
    }

    /// Joins another clock into this one.
    pub(super) fn join(&mut self, other: &Self) {
        if Rc::ptr_eq(&self.0, &other.0) {
            return;
        }
        let is_older = self.0.iter().zip(other.0.iter()).any(|(mine, theirs)| mine < theirs);
        if is_older {
            let mine = Rc::make_mut(&mut self.0);
            mine.iter_mut().zip(other.0.iter()).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        }
    }
}
