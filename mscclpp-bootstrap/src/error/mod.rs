//! Errors between the ranks of a job, which every rank can print.

mod properties;
mod ranks;
mod system;
mod text;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mscclpp_core::diag::ErrorKind;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use self::text::shortened;
use self::text::{By, LastCall, Members, Ranks, Rejections, Seconds, Waiter, Waiting};
use super::rank_info::RankInfo;

/// Why the ranks of a job could not form a communicator, or why it has failed.
///
/// An error that concerns the whole communicator is sent to all ranks: each returns the same value, with the same names
/// in it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[non_exhaustive]
pub enum Error {
    /// The environment has none of a launcher's variables, or only some of them.
    #[error("cannot determine {what}: expected environment variable {looked_for}")]
    MissingVariable {
        /// What is missing: `which rank this is`.
        what: String,
        /// The variables that could have provided it.
        looked_for: String,
    },
    /// A variable cannot be parsed.
    #[error("{variable}={value}: expected {expected}")]
    InvalidVariable {
        /// Name of the variable.
        variable: String,
        /// Its value; shortened if it is long.
        value: String,
        /// The expected value.
        expected: String,
    },
    /// Two variables contradict each other.
    #[error("{first} conflicts with {second}: {reason}")]
    ConflictingVariables {
        /// First variable, with its value.
        first: String,
        /// Second variable, with its value.
        second: String,
        /// How they contradict each other.
        reason: String,
    },
    /// The text of an address, a unique id or a secret cannot be parsed.
    #[error("cannot parse {what} `{text}`: expected {expected}")]
    InvalidText {
        /// What the text should be.
        what: String,
        /// The text; shortened if it is long, omitted if it is a secret.
        text: String,
        /// The expected text.
        expected: String,
    },
    /// Rank 0 cannot listen at the address at which the other ranks connect.
    #[error("rank 0 cannot listen on {address}: {reason}")]
    Bind {
        /// The address.
        address: String,
        /// The system's error, and what occupies the address.
        reason: String,
    },
    /// A rank did not answer: rank 0 to a rank that joins, or the other end of a stream.
    #[error("rank {rank} did not reach rank {peer} at {address} within {}: {reason}", Seconds(*waited))]
    Unreachable {
        /// The rank that connected.
        rank: u32,
        /// The rank to which it connected.
        peer: u32,
        /// Where `peer` should listen.
        address: SocketAddr,
        /// How long `rank` tried.
        waited: Duration,
        /// How the last attempt failed.
        reason: String,
    },
    /// No job answers a process that asks what its ranks are doing.
    #[error("no job answers at {address}: {reason}")]
    NotObserved {
        /// Where rank 0 of the job should listen.
        address: String,
        /// How the attempt failed.
        reason: String,
    },
    /// The other end of a connection does not use the bootstrap protocol.
    #[error("bootstrap protocol error from {peer}: {what}")]
    Protocol {
        /// Address or rank of the other end.
        peer: String,
        /// How it violates the protocol.
        what: String,
    },
    /// The other end uses another version of the protocol.
    #[error("{peer} uses version {theirs} of the bootstrap protocol, this process uses version {ours}")]
    Version {
        /// Address or rank of the other end.
        peer: String,
        /// Version of this process.
        ours: u16,
        /// Version of the other end.
        theirs: u16,
    },
    /// The other end has another secret.
    #[error(
        "authentication with {peer} failed: it belongs to another job, or MSCCLPP_SECRET differs between the ranks"
    )]
    AuthenticationFailed {
        /// Address of the other end.
        peer: String,
    },
    /// Other hosts could reach a rank whose secret other users can guess.
    #[error(
        "rank {rank} uses {address}, which is not a loopback address, and the secret of the job is derived from its name, \
         port and size, which other users can guess"
    )]
    DerivedSecret {
        /// The rank.
        rank: u32,
        /// The address at which it would listen or connect.
        address: IpAddr,
    },
    /// A frame between two ranks is not the one that the sender sent next.
    #[error(
        "frame {frame} of the {connection} connection from rank {from} to rank {to} failed authentication: it was \
         changed, repeated, dropped, reordered or injected on the network"
    )]
    FrameAuthenticationFailed {
        /// The rank from which it should be.
        from: u32,
        /// The rank that received it.
        to: u32,
        /// Its number on the connection, from 1.
        frame: u64,
        /// The kind of connection: `control` or `data`.
        connection: String,
    },
    /// Two processes claim the same rank.
    #[error("two processes have rank {}: {} and {}", .first.rank, .first.place(), .second.place())]
    DuplicateRank {
        /// The process that joined first.
        first: Box<RankInfo>,
        /// The process that joined second.
        second: Box<RankInfo>,
    },
    /// Ranks expect different numbers of ranks.
    #[error("{} expects {theirs} ranks, but rank {peer} expects {ours} ranks", who)]
    WorldSize {
        /// The rank that differs from `peer`.
        who: Box<RankInfo>,
        /// Number of ranks that it expects.
        theirs: u32,
        /// Rank 0, or the rank that arrived first at a [`Rendezvous`](crate::Rendezvous).
        peer: u32,
        /// Number of ranks that `peer` expects.
        ours: u32,
    },
    /// The rank is not in the communicator, or the communicator has no rank.
    #[error("there is no rank {rank} in a communicator of {num_ranks} ranks")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Number of ranks of the communicator.
        num_ranks: u32,
    },
    /// More ranks than a communicator may have.
    #[error("expected a communicator of at most {limit} ranks, found {num_ranks} ranks")]
    TooManyRanks {
        /// Requested number of ranks.
        num_ranks: u32,
        /// The limit.
        limit: u32,
    },
    /// Ranks did not join within the timeout.
    #[error("{} did not join within {}{}", Ranks(missing), Seconds(*waited), Rejections(rejections))]
    JoinTimeout {
        /// Ranks that did not join.
        missing: Vec<u32>,
        /// How long rank 0 waited for them.
        waited: Duration,
        /// First few of the rejected connections, each with the reason.
        rejections: Vec<String>,
    },
    /// A rank's connection closed without a shutdown frame, or its thread panicked.
    #[error("{who} died: {how}")]
    Died {
        /// The rank.
        who: Box<RankInfo>,
        /// How it was noticed.
        how: String,
    },
    /// A rank died or left soon after another failure of which it had learned, such as that of another communicator.
    #[error("{who} ended after another failure: {cause}")]
    Ended {
        /// The rank that ended.
        who: Box<RankInfo>,
        /// The other failure.
        cause: Box<Error>,
    },
    /// A rank's process no longer runs, although its connection is open.
    #[error("no answer from {who} for {}: its process is suspended or its host is unreachable", Seconds(*silent))]
    Unresponsive {
        /// The rank.
        who: Box<RankInfo>,
        /// Time since the last frame from it.
        silent: Duration,
    },
    /// Ranks did not enter a collective call within the timeout.
    #[error(
        "{} did not enter {call} within {}{}{}", Members(missing), Seconds(*waited), Waiting(waiting), LastCall(last_call)
    )]
    CollectiveTimeout {
        /// The call: `barrier (call 5)`.
        call: String,
        /// Ranks that did not enter the call.
        missing: Vec<RankInfo>,
        /// Ranks that did.
        waiting: Vec<u32>,
        /// How long the first of them waited.
        waited: Duration,
        /// The last call that the missing ranks have made, if it is known.
        last_call: Option<String>,
    },
    /// Ranks are in a call, and have made no progress in it within the timeout.
    #[error(
        "{} made no progress in {call} within {}{}", Members(ranks), Seconds(*waited), Waiting(waiting)
    )]
    NoProgress {
        /// The call.
        call: String,
        /// Ranks that made no progress: suspended, or busy for longer than the timeout.
        ranks: Vec<RankInfo>,
        /// Ranks that waited for them.
        waiting: Vec<u32>,
        /// How long the first of them waited.
        waited: Duration,
    },
    /// A rank's call failed while other ranks depended on it.
    #[error("{who} failed in {call}: {reason}")]
    CallFailed {
        /// The rank.
        who: Box<RankInfo>,
        /// Its call.
        call: String,
        /// Class of the failure.
        kind: ErrorKind,
        /// The failure.
        reason: String,
    },
    /// Two ranks make different calls.
    #[error("ranks make different calls: {first} calls {first_call}, {second} calls {second_call}")]
    Mismatch {
        /// First rank.
        first: Box<RankInfo>,
        /// Its call.
        first_call: String,
        /// Second rank.
        second: Box<RankInfo>,
        /// Its call.
        second_call: String,
    },
    /// A rank left in order while another rank still waits for it.
    #[error("{who} has left the communicator, but {} for it in {call}", Waiter(*waiting))]
    RankLeft {
        /// The rank that left.
        who: Box<RankInfo>,
        /// The rank that waits; `None` if all do, because rank 0 has left, through which they communicate.
        waiting: Option<u32>,
        /// The call in which it waits.
        call: String,
    },
    /// A message did not arrive within the timeout.
    #[error("rank {rank} received no {call} from {from} within {}", Seconds(*waited))]
    Timeout {
        /// The rank that waited.
        rank: u32,
        /// The rank that should have sent the message.
        from: Box<RankInfo>,
        /// The expected message: `message with tag 7`.
        call: String,
        /// How long `rank` waited.
        waited: Duration,
    },
    /// Ranks were built or configured differently.
    #[error("{name} differs: {first} has `{first_value}`, {second} has `{second_value}`")]
    ConfigMismatch {
        /// What differs: `version`.
        name: String,
        /// First rank.
        first: Box<RankInfo>,
        /// Its value.
        first_value: String,
        /// Second rank.
        second: Box<RankInfo>,
        /// Its value.
        second_value: String,
    },
    /// A rank aborted the job and gave a reason.
    #[error("{who} aborted: {reason}")]
    Aborted {
        /// The rank.
        who: Box<RankInfo>,
        /// The reason that it gave.
        reason: String,
    },
    /// A rank revoked the communicator.
    #[error("{who} revoked the communicator")]
    Revoked {
        /// The rank.
        who: Box<RankInfo>,
    },
    /// The other ranks continue without this rank.
    #[error("{who} was excluded from the communicator by {}: {reason}", By(by))]
    Excluded {
        /// The excluded rank.
        who: Box<RankInfo>,
        /// The ranks that excluded it.
        by: Vec<u32>,
        /// Why.
        reason: String,
    },
    /// The job of the communicator has failed because of ranks that the communicator, which is a part of it, does not have.
    #[error("the job of this communicator has failed: {reason}")]
    JobFailed {
        /// Class of the failure.
        kind: ErrorKind,
        /// The failure, with the ranks' numbers in the job.
        reason: String,
    },
    /// More bytes than a call accepts.
    #[error("expected at most {limit} bytes for {call}, found {bytes} bytes")]
    TooLarge {
        /// The call.
        call: String,
        /// Requested number of bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// This process is a copy of the rank's process, made by `fork`. The connections belong to that one.
    #[error("process {pid} is a fork of {who} and cannot make its calls")]
    Forked {
        /// The rank, in its process.
        who: Box<RankInfo>,
        /// This process.
        pid: u32,
    },
    /// A system call failed.
    #[error("{what}: {reason}")]
    System {
        /// The failed operation.
        what: String,
        /// The system's error.
        reason: String,
    },
    /// No file descriptor is left.
    #[error("{what}: {limit} allows {allowed} open files, and all of them are open")]
    NoDescriptor {
        /// The failed operation.
        what: String,
        /// The limit: `RLIMIT_NOFILE` of the process, or `fs.file-max` of all processes.
        limit: String,
        /// Its value.
        allowed: u64,
    },
}

impl std::fmt::Debug for Error {
    /// Writes the message, for programs that return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_timeout_lists_missing_ranks_and_rejections() {
        let error = Error::JoinTimeout {
            missing: vec![3],
            waited: Duration::from_secs(30),
            rejections: vec!["10.0.0.7:4242 (rank 3, wrong secret)".into()],
        };
        assert_eq!(
            error.to_string(),
            "rank 3 did not join within 30.0 s; rejected connections: 10.0.0.7:4242 (rank 3, wrong secret)"
        );
    }
}
