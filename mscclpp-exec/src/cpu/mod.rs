//! The CPU executor: all ranks of a plan in this process, on a few worker threads.
//!
//! It is the reference for what plans mean: real packets with flags, counting signals, semaphores and barriers, a queue and a
//! proxy per rank for port channels, multicast groups, loops over windows. Everything happens in the order in which a thread
//! block lists it, the block's threads being one agent; only port channels run behind.
//!
//! | step | done by | how often |
//! |---|---|---|
//! | indexes checked and resolved | `interpret::lower` | once per plan and world |
//! | sizes, scratch | `interpret::params` | once per message size |
//! | agents run until all are done or none can go on | `schedule`, `interpret::launch` | every launch |

mod buffers;
mod executor;
mod plan_state;
mod pool;
mod prepared_plan;
mod schedule;

pub use buffers::Buffers;
pub use executor::{Executor, Options};
pub use prepared_plan::PreparedPlan;
pub(crate) use schedule::Random;
pub use schedule::Schedule;
