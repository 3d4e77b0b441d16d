//! The thread that watches for failures: programs wait for streams with other means than this library's, and a launch whose
//! peers are lost must end all the same.

use std::sync::Once;
use std::thread;
use std::time::Duration;

use mscclpp_core::threads;

use super::all;
use crate::debug;

/// Interval between two checks of all communicators.
const INTERVAL: Duration = Duration::from_millis(100);

/// Begins to watch, once.
pub(super) fn begin() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let thread = threads::named("mscclpp-nccl-watch");
        let spawned = thread.spawn(|| {
            loop {
                thread::sleep(INTERVAL);
                all().iter().for_each(|comm| comm.watch());
            }
        });
        if let Err(error) = spawned {
            debug::warn(&format!("no thread to watch for failures, which calls alone report now: {error}"));
        }
    });
}
