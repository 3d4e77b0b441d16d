//! Waits for a stream during which a rank watches the other ranks.

use std::thread;
use std::time::{Duration, Instant};

use crate::device::stream::Stream;
use mscclpp_base::error::Error;

/// Interval at which a rank that waits for a stream checks the other ranks.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// Pauses of a rank that has waited for a stream for long.
const MIN_SLEEP: Duration = Duration::from_micros(50);
const MAX_SLEEP: Duration = Duration::from_micros(500);

impl Stream {
    /// Waits until all work on this stream is complete. `check` is called at intervals; after a failure it makes the work end early.
    ///
    /// # Errors
    /// [`Error::Capturing`] if the stream is captured; [`Error::Driver`].
    #[doc(hidden)]
    pub fn synchronize_watching(&self, mut check: impl FnMut()) -> Result<(), Error> {
        if self.is_capturing()? {
            return Err(Error::Capturing { what: "cannot wait for the stream".into() });
        }
        let begin = Instant::now();
        let mut next_check = begin;
        while !self.is_idle()? {
            let now = Instant::now();
            if now >= next_check {
                next_check = now + CHECK_INTERVAL;
                check();
            }
            pause(now - begin);
        }
        Ok(())
    }
}

/// Pauses between two polls of a stream: shortly at first, later for a small part of the time that was waited already.
fn pause(waited: Duration) {
    match waited.as_micros() {
        0..100 => std::hint::spin_loop(),
        100..1000 => thread::yield_now(),
        _ => thread::sleep((waited / 32).clamp(MIN_SLEEP, MAX_SLEEP)),
    }
}
