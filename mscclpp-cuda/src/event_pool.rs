//! Events that mark the ends of batches of copies, and are recorded again when a batch is complete.

use crate::driver::{Handle, Result, SharedDriver};

/// Events without times that are not in use. A driver takes about as long to create an event as to enqueue a copy.
pub struct EventPool {
    driver: SharedDriver,
    free: Vec<Handle>,
}

impl EventPool {
    pub fn new(driver: &SharedDriver) -> Self {
        Self { driver: driver.clone(), free: Vec::new() }
    }

    /// Records an event on a stream. The caller gives it back with [`release`](Self::release).
    pub fn record(&mut self, stream: Handle) -> Result<Handle> {
        let event = self.free.pop().map_or_else(|| self.driver.create_untimed_event(), Ok)?;
        match self.driver.record(event, stream) {
            Ok(()) => Ok(event),
            Err(error) => {
                self.free.push(event);
                Err(error)
            }
        }
    }

    /// Takes an event back that is complete, or whose stream was synchronized.
    pub fn release(&mut self, event: Handle) {
        self.free.push(event);
    }
}

impl Drop for EventPool {
    fn drop(&mut self) {
        for event in self.free.drain(..) {
            // A destructor cannot report a failure.
            let _ = self.driver.destroy_event(event);
        }
    }
}
