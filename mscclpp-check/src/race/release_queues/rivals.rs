//! Threads that compete for one unit, so that a wait of one may deadlock.

use super::{ALL, Event, Thread};

/// Threads that wait on the same counter.
#[derive(Default)]
pub(super) struct Rivals {
    /// The last wait, including those of other threads in the same operation; by [`ALL`] if there are some.
    last: Option<Event>,
    /// The last one before.
    before: Option<Event>,
    found: bool,
}

impl Rivals {
    /// Only the last wait is compared: a thread that happens after it happens after all before it.
    pub(super) fn record(&mut self, event: Event, over: impl Fn(u32) -> u32) -> Option<Thread> {
        if self.found {
            return None;
        }
        match &mut self.last {
            // All threads of one operation must be served before the abstract execution continues, whichever is first.
            Some(last) if (last.by.0, last.turn) == (event.by.0, event.turn) => last.by.1 = ALL,
            last => self.before = last.replace(event),
        }
        let rival = self.before.filter(|before| !before.precedes(&event, over))?;
        self.found = true;
        Some(rival.by)
    }
}
