//! The CPU executor between processes: every rank is a process, or a thread with a group of its own.
//!
//! Plans, packets, flags and counters are those of [`crate::cpu`]: both run plans on one interpreter. Ranks of a node share
//! memory. A launch works on a caller's buffers where they are if they come from [`Executor::alloc`]; of other slices only
//! what peers read or write goes through memory that is shared, and the rank's own operations use the caller's.
//!
//! | step | done by | how often |
//! |---|---|---|
//! | ranks of a node meet, and share one segment of calls | `session` | once per group |
//! | plan lowered, counters and scratch shared, own operands told from shared ones | `prepare`, `placement` | once per plan, size and type |
//! | call compared, own thread blocks run until all are done | `launch`, `launch_loop` | every launch |
//!
//! # What a launch promises about buffers
//!
//! A peer touches a caller's buffer only after it has seen that its owner began the launch (an operation that visits a peer's
//! buffer waits for that), and the owner's launch returns only when all peers that touch the buffer have finished. This holds
//! for every plan, wrong ones too, so between launches a [`SharedBuffer`] is an ordinary slice. If a launch fails, what
//! it may write to is cut off from the peers before it returns: it is zero then. Of what ranks of other nodes send in a launch
//! nothing is under way any more when it has ended (`wire`).

mod affinity;
mod buffer;
mod calls;
mod connection;
mod executor;
#[cfg(feature = "cuda")]
mod gather;
mod launch;
mod launch_loop;
mod nodes;
mod options;
mod plan;
mod prepare;
mod report;
mod session;
mod wire;

pub use buffer::SharedBuffer;
#[cfg(feature = "cuda")]
pub(crate) use connection::{Connection, Header};
pub use executor::Executor;
pub use launch::PreparedPlan;
#[cfg(feature = "cuda")]
pub(crate) use nodes::sends;
pub(crate) use nodes::{check_nodes, links};
pub use options::Options;
#[cfg(feature = "cuda")]
pub(crate) use prepare::describe;
#[cfg(feature = "cuda")]
pub(crate) use session::Session;
