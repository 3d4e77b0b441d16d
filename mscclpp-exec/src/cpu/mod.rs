//! The CPU executor: all ranks of a plan in this process, on a few worker threads.
//!
//! It is the reference for what plans mean: real packets with flags, counting signals, semaphores and barriers, a queue and a
//! proxy per rank for port channels, multicast groups, loops over windows. Everything happens in the order in which a thread
//! block lists it, the block's threads being one agent; only port channels run behind.
//!
//! | step | done by | how often |
//! |---|---|---|
//! | indexes checked and resolved | `lower` | once per plan and world |
//! | sizes, scratch | `params` | once per message size |
//! | agents run until all are done or none can go on | `schedule`, `launch` | every launch |
//!
//! Where the reference system's executor is at odds with its own documents, this one follows the documents: `get` uses the
//! offsets it is given, `flush` waits, tails of any length are handled, windows end with their data, packets honour windows,
//! `min`, `max`, `prod` and `avg` mean what they say, and double scratch holds for plain data too.

mod buffers;
mod context;
mod data;
mod fifo;
mod launch;
mod lower;
mod pairs;
mod params;
mod pool;
mod port;
mod program;
mod report;
mod run;
mod schedule;
mod sync;
mod world;

pub use buffers::Buffers;
pub use run::Run;
pub(crate) use schedule::Random;
pub use schedule::Schedule;
pub use world::{Options, World};
