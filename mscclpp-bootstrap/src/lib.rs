//! How the ranks of a job find each other, and what they tell each other before and beside their collectives.
//!
//! Rank 0 listens; the others connect to it and both ends prove that they know the job's secret. Small messages and
//! collective calls go through rank 0, which therefore knows who is missing, and says so to all. Ranks that have much to say
//! to each other open a [stream](Bootstrap::stream) of their own.
#![forbid(unsafe_code)]

mod acceptor;
mod address;
mod client;
mod collective;
mod conn;
mod connect;
mod env;
mod error;
mod error_kind;
mod frame;
mod group;
mod heartbeat;
mod inbox;
mod link;
mod local;
mod options;
mod outbox;
mod poll;
mod rank_info;
mod root;
mod router;
mod secret;
mod shrink;
mod split;
mod tcp;
mod timeout;
mod unique_id;

pub use address::{Address, interfaces};
pub use env::Environment;
pub use error::Error;
pub use error_kind::{ErrorKind, RootCause};
pub use group::Bootstrap;
pub use options::{MAX_TIMEOUT, Options};
pub use rank_info::RankInfo;
pub use secret::Secret;
pub use timeout::ActiveTimeout;
pub use unique_id::{RootListener, UniqueId};
