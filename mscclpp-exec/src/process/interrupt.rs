//! Ends the waits of a thread from outside of a call, such as on a signal that an interpreter has to handle.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time between two calls of a check.
const INTERVAL: Duration = Duration::from_millis(100);

/// A check, and when it is due.
type Check = (fn() -> bool, Instant);

thread_local! {
    /// The check of the calls that this thread makes.
    static CHECK: Cell<Option<Check>> = const { Cell::new(None) };
}

/// Makes a call in which this thread, while it waits for other ranks, runs a check about ten times a second. If the check returns
/// `true`, this rank aborts the communicator: the call and those of all other ranks fail with this rank as the root cause. Waits
/// that end within a hundred milliseconds run no check.
///
/// Bindings for interpreters handle signals in the check, which otherwise wait until the call returns.
///
/// ```
/// # use mscclpp_core::types::ReduceOp;
/// # use mscclpp_communicator::Communicator;
/// # use mscclpp_exec::{Error, process::with_interrupt_check};
/// # fn main() -> Result<(), Error> {
/// # let comm = Communicator::local(1)?.remove(0);
/// # let mut data = [1.0_f32];
/// # fn signal_arrived() -> bool { false }
/// with_interrupt_check(signal_arrived, || comm.all_reduce_in_place(&mut data, ReduceOp::Sum))?;
/// # Ok(())
/// # }
/// ```
pub fn with_interrupt_check<R>(check: fn() -> bool, call: impl FnOnce() -> R) -> R {
    /// Restores the check of an outer call, also if the call panics.
    struct Restore(Option<Check>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CHECK.set(self.0);
        }
    }
    // The time is not read in calls that do not wait.
    let _restore = Restore(CHECK.replace(Some((check, *PAST))));
    call()
}

/// A time before all calls.
static PAST: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

/// Runs the check of this thread's call if it is due, and returns its answer.
pub fn is_interrupted() -> bool {
    let Some((check, due)) = CHECK.get() else { return false };
    let now = Instant::now();
    if due == *PAST {
        // The first park of a wait.
        CHECK.set(Some((check, now + INTERVAL)));
        return false;
    }
    if now < due {
        return false;
    }
    let answer = check();
    CHECK.set(Some((check, Instant::now() + INTERVAL)));
    answer
}
