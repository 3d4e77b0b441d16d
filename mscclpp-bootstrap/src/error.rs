//! Errors between the ranks of a job, which every rank can print.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mscclpp_core::diag::{ErrorKind, RootCause};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::rank_info::RankInfo;

/// Maximum length of a value that an error repeats, in characters.
const MAX_VALUE_CHARS: usize = 80;

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
    #[error("{} expects {theirs} ranks, but rank 0 expects {ours} ranks", who)]
    WorldSize {
        /// The rank that differs from rank 0.
        who: Box<RankInfo>,
        /// Number of ranks that it expects.
        theirs: u32,
        /// Number of ranks that rank 0 expects.
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
    /// A rank's process no longer runs, although its connection is open.
    #[error("no answer from {who} for {}: its process is suspended or its host is unreachable", Seconds(*silent))]
    Unresponsive {
        /// The rank.
        who: Box<RankInfo>,
        /// Time since the last frame from it.
        silent: Duration,
    },
    /// Ranks did not enter a collective call within the timeout.
    #[error("{} did not enter {call} within {}{}", Members(missing), Seconds(*waited), Waiting(waiting))]
    CollectiveTimeout {
        /// The call: `barrier (call 5)`.
        call: String,
        /// Ranks that did not enter the call.
        missing: Vec<RankInfo>,
        /// Ranks that did.
        waiting: Vec<u32>,
        /// How long the first of them waited.
        waited: Duration,
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
}

impl std::fmt::Debug for Error {
    /// Writes the message, for programs that return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns the ranks that the communicator has lost by this error, as ranks of the communicator whose call returned
    /// it: those that died, are unresponsive, left, aborted, were excluded, or did not join or call. Empty if no rank is
    /// lost.
    pub fn lost(&self) -> Vec<u32> {
        match self {
            Self::Died { who, .. }
            | Self::Unresponsive { who, .. }
            | Self::RankLeft { who, .. }
            | Self::Aborted { who, .. }
            | Self::Excluded { who, .. } => {
                vec![who.rank]
            }
            Self::Timeout { from, .. } => vec![from.rank],
            Self::CollectiveTimeout { missing: ranks, .. } | Self::NoProgress { ranks, .. } => {
                ranks.iter().map(|member| member.rank).collect()
            }
            Self::CallFailed { who, kind: ErrorKind::RankLost, .. } => vec![who.rank],
            Self::JoinTimeout { missing, .. } => missing.clone(),
            _ => Vec::new(),
        }
    }

    /// Returns the class of the error.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::MissingVariable { .. } => ErrorKind::NotLaunched,
            Self::InvalidVariable { .. }
            | Self::ConflictingVariables { .. }
            | Self::DerivedSecret { .. }
            | Self::InvalidText { .. }
            | Self::NoSuchRank { .. }
            | Self::TooManyRanks { .. }
            | Self::TooLarge { .. }
            | Self::Forked { .. }
            | Self::DuplicateRank { .. } => ErrorKind::InvalidInput,
            Self::Mismatch { .. }
            | Self::ConfigMismatch { .. }
            | Self::WorldSize { .. }
            | Self::Version { .. }
            | Self::AuthenticationFailed { .. } => ErrorKind::Mismatch,
            Self::JoinTimeout { .. }
            | Self::CollectiveTimeout { .. }
            | Self::NoProgress { .. }
            | Self::Timeout { .. }
            | Self::Unreachable { .. } => ErrorKind::Timeout,
            Self::CallFailed { kind, .. } => *kind,
            Self::Died { .. }
            | Self::Unresponsive { .. }
            | Self::RankLeft { .. }
            | Self::Aborted { .. }
            | Self::Excluded { .. } => ErrorKind::RankLost,
            Self::Revoked { .. } => ErrorKind::Revoked,
            Self::Bind { .. }
            | Self::Protocol { .. }
            | Self::FrameAuthenticationFailed { .. }
            | Self::System { .. } => ErrorKind::System,
        }
    }

    /// Returns the rank that waited or failed, if the error names one. Errors of a whole group are the same on all its ranks
    /// and name none.
    pub const fn rank(&self) -> Option<u32> {
        match self {
            Self::Unreachable { rank, .. }
            | Self::Timeout { rank, .. }
            | Self::NoSuchRank { rank, .. }
            | Self::DerivedSecret { rank, .. } => Some(*rank),
            Self::RankLeft { waiting, .. } => *waiting,
            Self::Bind { .. } => Some(0),
            _ => None,
        }
    }

    /// Returns the call that failed: `barrier`.
    pub fn operation(&self) -> Option<&str> {
        match self {
            Self::CollectiveTimeout { call, .. }
            | Self::NoProgress { call, .. }
            | Self::CallFailed { call, .. }
            | Self::RankLeft { call, .. }
            | Self::Timeout { call, .. }
            | Self::TooLarge { call, .. } => Some(call),
            Self::Mismatch { first_call, .. } => Some(first_call),
            _ => None,
        }
    }

    /// Returns the rank that the failure began with. Of several ranks that are missing, the first.
    pub fn root_cause(&self) -> Option<RootCause> {
        let rank = match self {
            Self::Mismatch { second, .. }
            | Self::ConfigMismatch { second, .. }
            | Self::DuplicateRank { second, .. } => second.rank,
            Self::WorldSize { who, .. } | Self::CallFailed { who, .. } | Self::Revoked { who } => who.rank,
            Self::Unreachable { peer, .. } => *peer,
            Self::FrameAuthenticationFailed { from, .. } => *from,
            _ => *self.lost().first()?,
        };
        Some(RootCause::new(rank, self.to_string()))
    }

    /// Returns how to fix the error, for errors with a known remedy.
    pub fn help(&self) -> Option<&'static str> {
        Some(match self {
            Self::MissingVariable { .. } => {
                "start the program with `mscclpp launch`, torchrun, mpirun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
            }
            Self::Bind { .. } => {
                "set MSCCLPP_MASTER_ADDR and MSCCLPP_MASTER_PORT to an address of rank 0's host and a free port"
            }
            Self::Unreachable { peer: 0, .. } => {
                "check that rank 0 is running, and that MASTER_ADDR and MASTER_PORT are the same on all ranks"
            }
            Self::Unreachable { .. } => {
                "check that the hosts of the ranks can reach each other at this address; set \
                 MSCCLPP_MASTER_ADDR=interface:host:port to select the interface"
            }
            Self::AuthenticationFailed { .. } => {
                "set the same MSCCLPP_SECRET on all ranks of a job, and use a separate port for each job"
            }
            Self::DerivedSecret { .. } => {
                "set MSCCLPP_SECRET to the same value on all ranks, such as the output of `openssl rand -hex 16`; or set \
                 MSCCLPP_ALLOW_DERIVED_SECRET=1 on all ranks if every user who can reach their hosts is trusted"
            }
            Self::FrameAuthenticationFailed { .. } => {
                "find what changes data between the hosts of these ranks: a proxy, a relay or defective hardware; connect \
                 them directly, or select another interface with MSCCLPP_MASTER_ADDR=interface:host:port"
            }
            Self::JoinTimeout { .. } => {
                "set MSCCLPP_RENDEZVOUS_TIMEOUT to the number of seconds in which all ranks start"
            }
            Self::CollectiveTimeout { .. } | Self::NoProgress { .. } | Self::Timeout { .. } => {
                "set MSCCLPP_TIMEOUT to the number of seconds that ranks may wait for each other"
            }
            Self::Excluded { .. } => "join the other ranks again with `join_grown` when they call `grow`",
            Self::Revoked { .. } => "continue with `shrink(&[])`, which creates a new communicator of the same ranks",
            Self::Unresponsive { .. } => {
                "set MSCCLPP_HEARTBEAT_TIMEOUT to the number of seconds without a heartbeat after which a rank \
                 counts as lost; 0 disables the check"
            }
            Self::Forked { .. } => {
                "start processes before the communicator is created, or with `spawn` instead of `fork`, and create a \
                 communicator in each process that makes calls"
            }
            Self::Version { .. } | Self::ConfigMismatch { .. } => {
                "run the same build with the same settings on all ranks"
            }
            _ => return None,
        })
    }
}

/// A duration formatted for messages: `250 ms`, `30.0 s`.
struct Seconds(Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            ms @ 0..1000 => write!(f, "{ms} ms"),
            _ => write!(f, "{:.1} s", self.0.as_secs_f64()),
        }
    }
}

/// Ranks formatted for messages: `rank 2`, `ranks 1, 2 and 5`.
struct Ranks<'a>(&'a [u32]);

impl Display for Ranks<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        /// Maximum number of listed ranks; longer lists end in a count.
        const MAX_LISTED_RANKS: usize = 16;
        match self.0 {
            [] => f.write_str("no rank"),
            [one] => write!(f, "rank {one}"),
            [most @ .., last] if most.len() < MAX_LISTED_RANKS => {
                write!(f, "ranks ")?;
                list(f, most)?;
                write!(f, " and {last}")
            }
            all => {
                write!(f, "ranks ")?;
                list(f, &all[..MAX_LISTED_RANKS])?;
                write!(f, " and {} more", all.len() - MAX_LISTED_RANKS)
            }
        }
    }
}

/// The ranks that excluded a rank.
struct By<'a>(&'a [u32]);

impl Display for By<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str("the other ranks") } else { Ranks(self.0).fmt(f) }
    }
}

/// Members formatted for messages.
struct Members<'a>(&'a [RankInfo]);

impl Display for Members<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        /// Maximum number of members with process and host; longer lists have ranks only.
        const MAX_NAMED_MEMBERS: usize = 4;
        if self.0.len() > MAX_NAMED_MEMBERS {
            let ranks: Vec<u32> = self.0.iter().map(|member| member.rank).collect();
            return Ranks(&ranks).fmt(f);
        }
        list(f, self.0)
    }
}

/// The rank that waits for another one, or all ranks.
struct Waiter(Option<u32>);

impl Display for Waiter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rank) => write!(f, "rank {rank} waits"),
            None => f.write_str("all ranks wait"),
        }
    }
}

/// The ranks that waited for others.
struct Waiting<'a>(&'a [u32]);

impl Display for Waiting<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "; {} waited for it", Ranks(self.0))
    }
}

/// The rejected connections.
struct Rejections<'a>(&'a [String]);

impl Display for Rejections<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() {
            write!(f, "; rejected connections: ")?;
            list(f, self.0)?;
        }
        Ok(())
    }
}

fn list<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(f, "{separator}{item}")?;
    }
    Ok(())
}

/// Returns the beginning of a long text, with control characters escaped.
pub(crate) fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_VALUE_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_VALUE_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_lists_are_formatted_with_and() {
        let text = |ranks: &[u32]| Ranks(ranks).to_string();
        assert_eq!(text(&[2]), "rank 2");
        assert_eq!(text(&[1, 2, 5]), "ranks 1, 2 and 5");
        let many: Vec<u32> = (0..100).collect();
        assert!(text(&many).ends_with("15 and 84 more"), "{}", text(&many));
    }

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
