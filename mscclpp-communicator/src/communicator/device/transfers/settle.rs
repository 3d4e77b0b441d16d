//! Waits on the host for threads that make transfers.
//!
//! A copy of the program's to memory of the host that is not page-locked waits in the driver for the work before it, and no other thread
//! can allocate memory meanwhile, or create streams and events. So if a stream waits for a transfer that a thread has not enqueued, such
//! a copy never ends. Therefore calls wait on the host:
//!
//! - for the thread of their own transfer, until it is made or has failed, unless the program sets another time;
//! - if a stream waits for other ranks afterwards, for the threads of buffered sends of the device, also of other communicators, for whose
//!   receivers the other ranks may wait. Only for a while, because these may call after what the caller does next; and once for a
//!   thread, whatever the number of calls.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::lane::{Lane, lock};
use crate::communicator::Communicator;
use mscclpp_exec::cuda::Stream;

/// Variable with the seconds of [`FirstWait`].
const VARIABLE: &str = "MSCCLPP_FIRST_TRANSFER_WAIT";

/// How long calls wait for buffered sends, unless the time for first transfers is shorter.
const SENDS_WAIT: Duration = Duration::from_secs(1);

/// The lanes of the process whose thread runs, and their number, which is 0 at most times.
static BUSY: Mutex<Vec<Arc<Lane>>> = Mutex::new(Vec::new());
static NUM_BUSY: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether the thread makes the transfers of a lane.
    static IS_OF_LANE: Cell<bool> = const { Cell::new(false) };
}

/// How long the first transfer of a size waits for its thread, in nanoseconds.
pub(super) struct FirstWait(AtomicU64);

impl Default for FirstWait {
    fn default() -> Self {
        let wait = Self(AtomicU64::new(0));
        wait.set(of_variable());
        wait
    }
}

impl FirstWait {
    pub(super) fn set(&self, wait: Duration) {
        self.0.store(wait.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Returns the time of the variable: as long as the call may take, if it is not set.
fn of_variable() -> Duration {
    static WAIT: OnceLock<Duration> = OnceLock::new();
    *WAIT.get_or_init(|| {
        let Ok(text) = std::env::var(VARIABLE) else { return Duration::MAX };
        match text.trim().parse::<f64>() {
            // Those that are too long, such as `inf`, have no limit.
            Ok(seconds) if seconds >= 0.0 => Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
            _ => {
                eprintln!("mscclpp: {VARIABLE}: expected a number of seconds from 0 on, found `{text}`; it is ignored");
                Duration::MAX
            }
        }
    })
}

/// Records that a thread of a lane begins.
pub(super) fn begin(lane: &Arc<Lane>) {
    lock(&BUSY).push(Arc::clone(lane));
    NUM_BUSY.fetch_add(1, Ordering::AcqRel);
}

/// Records that the thread of a lane ends.
pub(super) fn end(lane: &Lane) {
    lock(&BUSY).retain(|busy| !std::ptr::eq(&**busy, lane));
    NUM_BUSY.fetch_sub(1, Ordering::AcqRel);
}

/// Lets this thread's calls wait for no lane: other threads wait for what it does.
pub(super) fn exempt_thread() {
    IS_OF_LANE.set(true);
}

/// Gives threads time to make buffered sends, before a call on a stream after which it waits for other ranks.
pub(in crate::communicator) fn settle(communicator: &Communicator, stream: &Stream) {
    if NUM_BUSY.load(Ordering::Acquire) == 0 || IS_OF_LANE.get() {
        return;
    }
    let busy = lock(&BUSY).clone();
    let of_device = busy.iter().filter(|lane| lane.is_of(stream));
    of_device.for_each(|lane| lane.settle(communicator, lane.first_wait().min(SENDS_WAIT)));
}
