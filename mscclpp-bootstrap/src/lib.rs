//! How the ranks of a job find each other, and what they tell each other before and beside their collectives.
//!
//! Rank 0 listens; the others connect to it and both ends prove that they know the job's secret. Small messages and
//! collective calls go through rank 0, which therefore knows who is missing, and says so to all. Ranks that have much to say
//! to each other open a [stream](Bootstrap::stream) of their own.
#![forbid(unsafe_code)]

mod address;
mod client;
mod collective;
mod conn;
mod dial;
mod env;
mod error;
mod frame;
mod gate;
mod group;
mod inbox;
mod link;
mod local;
mod member;
mod options;
mod outbox;
mod poll;
mod pulse;
mod root;
mod router;
mod secret;
mod split;
mod survive;
mod tcp;
mod timeout;
mod unique_id;

pub use address::{Address, interfaces};
pub use env::Environment;
pub use error::Error;
pub use group::Bootstrap;
pub use member::Member;
pub use options::{MAX_TIMEOUT, Options};
pub use secret::Secret;
pub use timeout::ActiveTimeout;
pub use unique_id::{Host, UniqueId};
