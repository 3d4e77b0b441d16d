//! How the ranks of a job find each other, and what they tell each other before and beside their collectives.
//!
//! Rank 0 listens; the others connect to it and both ends prove that they know the job's secret. Small messages and
//! collective calls go through rank 0, which therefore knows who is missing, and says so to all. Ranks that have much to say
//! to each other open a [stream](Bootstrap::stream) of their own.

#[allow(dead_code, reason = "the connections of processes use it")]
mod collective;
mod error;
#[allow(dead_code, reason = "the connections of processes use it")]
mod frame;
mod group;
#[allow(dead_code, reason = "the connections of processes use it")]
mod inbox;
#[allow(dead_code, reason = "the connections of processes use it")]
mod link;
mod local;
#[allow(dead_code, reason = "the connections of processes use it")]
mod member;
mod options;
#[allow(dead_code, reason = "the connections of processes use it")]
mod router;
#[allow(dead_code, reason = "the connections of processes use it")]
mod secret;
mod split;

pub use error::Error;
pub use group::Bootstrap;
pub use member::Member;
pub use options::Options;
pub use secret::Secret;
