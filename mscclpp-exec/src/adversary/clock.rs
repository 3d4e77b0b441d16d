//! What an actor has seen of the others.

use std::rc::Rc;

/// Per actor, up to which of its epochs everything is visible. Shared until it changes.
#[derive(Clone, Debug)]
pub(super) struct Clock(Rc<Vec<u32>>);

impl Clock {
    pub(super) fn new(actors: usize) -> Self {
        Self(Rc::new(vec![0; actors]))
    }

    pub(super) fn get(&self, actor: u32) -> u32 {
        self.0[actor as usize]
    }

    pub(super) fn set(&mut self, actor: u32, epoch: u32) {
        Rc::make_mut(&mut self.0)[actor as usize] = epoch;
    }

    /// Sees what another one has seen.
    pub(super) fn join(&mut self, other: &Self) {
        if Rc::ptr_eq(&self.0, &other.0) {
            return;
        }
        let behind = self.0.iter().zip(other.0.iter()).any(|(mine, theirs)| mine < theirs);
        if behind {
            let mine = Rc::make_mut(&mut self.0);
            mine.iter_mut().zip(other.0.iter()).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        }
    }
}
