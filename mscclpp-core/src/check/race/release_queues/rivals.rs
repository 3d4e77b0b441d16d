//! Threads of which either may get what comes first, so that a wait of one may deadlock.

use super::{ALL, Event, Thread};

/// Threads that wait for the same.
#[derive(Default)]
pub(super) struct Rivals {
    /// The last wait, those of other threads in the same operation included; by [`ALL`] if there are some.
    last: Option<Event>,
    /// The last one before.
    before: Option<Event>,
    found: bool,
}

impl Rivals {
    /// Only the last wait is looked at: who knows that to be over knows so of all before it.
    pub(super) fn see(&mut self, event: Event, over: impl Fn(u32) -> u32) -> Option<Thread> {
        if self.found {
            return None;
        }
        match &mut self.last {
            // All threads of one operation must be served before the abstract run goes on, whichever is first.
            Some(last) if (last.by.0, last.turn) == (event.by.0, event.turn) => last.by.1 = ALL,
            last => self.before = last.replace(event),
        }
        let rival = self.before.filter(|before| !before.precedes(&event, over))?;
        self.found = true;
        Some(rival.by)
    }
}
