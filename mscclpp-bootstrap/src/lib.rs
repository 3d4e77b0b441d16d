//! Control plane of a job: how its ranks find each other, exchange small messages and detect lost ranks.
//!
//! Rank 0 listens. The other ranks connect to it, and both sides prove that they know the job's secret; every later frame
//! is authenticated. Small messages and collective calls pass through rank 0, which therefore knows which ranks are missing and reports them to all
//! ranks. Ranks that exchange much data open a direct [stream](Bootstrap::stream).
#![forbid(unsafe_code)]

mod acceptor;
mod address;
#[doc(hidden)]
pub mod call_report;
mod client;
mod collective;
mod conn;
mod connect;
mod context;
mod continuation;
mod descriptors;
mod env;
mod error;
mod failure_times;
mod frame;
mod group;
mod grow;
mod heartbeat;
mod inbox;
mod interfaces;
mod learned;
mod link;
mod local;
mod mac;
mod observe;
mod options;
mod outbox;
#[doc(hidden)]
pub mod place;
#[doc(hidden)]
pub mod places;
mod poll;
mod protocol;
mod rank_info;
mod rendezvous;
mod root;
mod router;
mod secret;
mod shrink;
mod split;
mod status;
mod tcp;
mod timeout;
mod unique_id;
mod variable;

pub use address::Address;
#[doc(hidden)]
pub use conn::send_vectored;
pub use env::Environment;
pub use error::Error;
#[doc(hidden)]
pub use failure_times::{ANSWER_TIME, CAUSE_GRACE_PERIOD};
pub use frame::MAX_RANKS;
pub use group::Bootstrap;
pub use interfaces::interfaces;
pub use mac::{BodyHasher, Digest, FrameKey, SEAL_BYTES, Seal, StreamKeys, digest};
pub use mscclpp_core::diag::{ErrorKind, RootCause};
#[doc(hidden)]
pub use observe::observe;
pub use options::{MAX_TIMEOUT, NodeTransport, Options};
pub use rank_info::RankInfo;
#[doc(hidden)]
pub use rank_info::ranks_per_node;
#[doc(hidden)]
pub use rendezvous::Rendezvous;
pub use router::odd_one_out;
pub use secret::Secret;
#[doc(hidden)]
pub use status::{CommunicatorReport, JobReport, PendingCall, Presence, RankReport, Topic};
pub use timeout::ActiveTimeout;
pub use unique_id::{RootListener, UniqueId};
