//! CPU executor across processes: every rank is a process, or a thread with a separate bootstrap handle.
//!
//! Plans, packets, flags and counters are those of [`crate::cpu`]: both executors run plans on one interpreter. Ranks
//! of a node share memory. A launch uses a caller's buffers directly if they come from [`Executor::alloc`]. Of other
//! slices, only the parts that peers read or write are copied through shared memory; the rank's own operations use the
//! caller's slice.
//!
//! | step | done by | how often |
//! |---|---|---|
//! | the ranks of a node connect, and share a call log | `session` | once per communicator |
//! | the plan is resolved, counters and scratch are shared, own operands are separated from shared ones | `prepare`, `placement` | once per plan, size and type |
//! | the call is compared, the rank's thread blocks run until all have finished | `launch`, `launch_loop` | every launch |
//!
//! # What a launch guarantees about buffers
//!
//! A peer accesses a caller's buffer only after it has observed that the buffer's owner started the launch (an
//! operation that accesses a peer's buffer waits for that), and the owner's launch returns only when all peers that
//! access the buffer have finished. This holds for every plan, including wrong ones, so between launches a
//! [`SharedBuffer`] is an ordinary slice. If a launch fails, the memory that it may write to is detached from the peers
//! before the launch returns: it is zero then. When a launch has ended, none of the data that ranks of other nodes send
//! in it is still in flight (`wire`).

mod affinity;
#[allow(unsafe_code, reason = "a handler is registered with the system")]
mod at_exit;
mod buffer;
#[cfg(feature = "cuda")]
mod call_ring;
mod calls;
mod executor;
mod gather;
mod interrupt;
mod launch;
mod launch_loop;
mod lender;
mod options;
mod plan;
mod plan_memory;
mod prepare;
mod report;
mod session;
mod timeline;
#[cfg(feature = "cuda")]
mod told_calls;
mod wire;

pub use buffer::SharedBuffer;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub use call_ring::{CallRing, CallText};
pub use executor::Executor;
#[doc(hidden)]
pub use interrupt::is_interrupted;
pub use interrupt::with_interrupt_check;
pub use launch::PreparedPlan;
pub use options::Options;
#[doc(hidden)]
pub use prepare::describe;
#[doc(hidden)]
pub use session::CallHistory;
#[doc(hidden)]
pub use session::Session;
#[doc(hidden)]
pub use timeline::TimelineFile;

/// Runs a function on a thread for each rank of a group, and returns the results.
#[cfg(test)]
fn on_threads<R: Send>(
    group: Result<Vec<mscclpp_bootstrap::Bootstrap>, mscclpp_bootstrap::Error>,
    rank: impl Fn(mscclpp_bootstrap::Bootstrap) -> R + Sync,
) -> Vec<R> {
    std::thread::scope(|scope| {
        let rank = &rank;
        let threads: Vec<_> = group.expect("a group").into_iter().map(|one| scope.spawn(move || rank(one))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}
