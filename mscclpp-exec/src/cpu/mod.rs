//! The CPU executor: all ranks of a plan in this process, on a few worker threads.
//!
//! It is the reference for the semantics of plans: real packets with flags, counting signals, semaphores and barriers,
//! a queue and a proxy per rank for port channels, multicast groups, loops over windows. The operations of a thread
//! block execute in program order, with the block's threads as one agent; only port channels are asynchronous.
//!
//! | step | done by | how often |
//! |---|---|---|
//! | indices checked and resolved | `interpret::resolve` | once per plan and executor |
//! | sizes, scratch | `interpret::params` | once per message size |
//! | agents run until all have finished or none can make progress | `schedule`, `interpret::launch` | every launch |

mod buffers;
mod executor;
mod plan_state;
mod pool;
mod prepared_plan;
mod schedule;
mod verify;

pub use buffers::Buffers;
pub use executor::{Executor, Options};
pub use prepared_plan::PreparedPlan;
pub use schedule::Schedule;
