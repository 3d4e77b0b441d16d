//! The threads that raise and lower a counter.

/// The signals and waits of all steps of a plan on one counter or semaphore.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct CounterUse {
    /// Signals or releases in one launch.
    pub(in super::super) up: u32,
    /// Waits or acquires in one launch.
    pub(in super::super) down: u32,
    /// Whether it is lowered in a loop, so that larger messages lower it more often.
    pub(in super::super) is_lowered_in_loop: bool,
    signaler: Party,
    waiter: Party,
}

/// A thread that executes a step: its agent, its position in the operation, and the number of earlier block syncs of
/// the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) agent: u32,
    pub(super) position: u32,
    pub(super) epoch: u32,
}

/// The threads that raise a counter, or those that lower it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Party {
    Unused,
    /// Threads of one agent, in order; the last one.
    One(Thread),
    Several,
}

impl Party {
    fn join(&mut self, new: Thread) {
        *self = match *self {
            Self::Unused => Self::One(new),
            // A block sync orders the threads of a block.
            Self::One(old) if old.agent == new.agent && (old.position == new.position || old.epoch != new.epoch) => {
                Self::One(new)
            }
            _ => Self::Several,
        };
    }
}

impl CounterUse {
    pub(super) const NONE: Self =
        Self { up: 0, down: 0, is_lowered_in_loop: false, signaler: Party::Unused, waiter: Party::Unused };

    pub(super) fn raise(&mut self, thread: Thread) {
        self.up = self.up.saturating_add(1);
        self.signaler.join(thread);
    }

    pub(super) fn lower(&mut self, thread: Thread, in_loop: bool) {
        self.down = self.down.saturating_add(1);
        self.is_lowered_in_loop |= in_loop;
        self.waiter.join(thread);
    }

    /// Returns the agent that raises it, if there is only one.
    pub(in super::super) fn signaler(&self) -> Option<usize> {
        match self.signaler {
            Party::One(thread) => Some(thread.agent as usize),
            _ => None,
        }
    }

    /// Returns whether one agent raises it and one lowers it, each in order, so that the nth wait gets the nth signal
    /// in every schedule.
    pub(in super::super) fn is_private(&self) -> bool {
        self.signaler != Party::Several && self.waiter != Party::Several
    }
}
