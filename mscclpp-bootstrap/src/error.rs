//! What can go wrong between the ranks of a job, in words that every rank can print.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::rank_info::RankInfo;

/// Why a group of ranks could not come together, or cannot go on.
///
/// An error that concerns the whole group travels: all ranks return the same value, with the same names in it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
#[non_exhaustive]
pub enum Error {
    /// No launcher's names in the environment, or only some of them.
    #[error("cannot determine {what}: expected environment variable {looked_for}")]
    MissingVariable {
        /// What is wanted: `which rank this is`.
        what: String,
        /// The variables that could have said it.
        looked_for: String,
    },
    /// A variable that cannot be read.
    #[error("{variable}={value}: expected {expected}")]
    InvalidVariable {
        /// The variable.
        variable: String,
        /// What it holds; shortened if it is long.
        value: String,
        /// What it should hold.
        expected: String,
    },
    /// Two variables that contradict each other.
    #[error("{first} conflicts with {second}: {why}")]
    ConflictingVariables {
        /// The one, with its value.
        first: String,
        /// The other, with its value.
        second: String,
        /// What does not fit.
        why: String,
    },
    /// An address, a unique id or a secret in text that cannot be read.
    #[error("cannot parse {what} `{text}`: expected {expected}")]
    InvalidText {
        /// What the text should be.
        what: String,
        /// The text; shortened if it is long, left out if it is a secret.
        text: String,
        /// What was expected.
        expected: String,
    },
    /// Rank 0 cannot listen where the others look for it.
    #[error("rank 0 cannot listen on {address}: {reason}")]
    Bind {
        /// Where it should listen.
        address: String,
        /// What the system said, and what lives there.
        reason: String,
    },
    /// A rank did not answer: rank 0 to one that comes, or the other end of a stream.
    #[error("rank {rank} did not reach rank {peer} at {address} within {}: {reason}", Seconds(*waited))]
    Unreachable {
        /// Who tried.
        rank: u32,
        /// Whom it looked for.
        peer: u32,
        /// Where that one should listen.
        address: SocketAddr,
        /// How long it tried.
        waited: Duration,
        /// How the last attempt ended.
        reason: String,
    },
    /// Somebody at the other end who does not speak our language.
    #[error("bootstrap protocol error from {peer}: {what}")]
    Protocol {
        /// Address or rank of the other end.
        peer: String,
        /// What was wrong.
        what: String,
    },
    /// Two versions of the protocol.
    #[error("{peer} uses version {theirs} of the bootstrap protocol, this process uses version {ours}")]
    Version {
        /// Address or rank of the other end.
        peer: String,
        /// Our version.
        ours: u16,
        /// Theirs.
        theirs: u16,
    },
    /// Two secrets.
    #[error(
        "authentication with {peer} failed: it belongs to another job, or MSCCLPP_SECRET differs between the ranks"
    )]
    AuthenticationFailed {
        /// Address of the other end.
        peer: String,
    },
    /// Two processes with one rank.
    #[error("two processes have rank {}: {} and {}", .first.rank, .first.place(), .second.place())]
    DuplicateRank {
        /// Who came first.
        first: Box<RankInfo>,
        /// Who came second.
        second: Box<RankInfo>,
    },
    /// Two ideas of how many ranks there are.
    #[error("{} expects {theirs} ranks, but rank 0 expects {ours} ranks", who)]
    WorldSize {
        /// Who differs from rank 0.
        who: Box<RankInfo>,
        /// The size that it expects.
        theirs: u32,
        /// The size that rank 0 expects.
        ours: u32,
    },
    /// A rank that is not in the group, or a group of no rank.
    #[error("there is no rank {rank} in a communicator of {ranks} ranks")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Ranks of the group.
        ranks: u32,
    },
    /// More ranks than a group may have.
    #[error("expected a communicator of at most {limit} ranks, found {ranks} ranks")]
    TooManyRanks {
        /// Ranks asked for.
        ranks: u32,
        /// The limit.
        limit: u32,
    },
    /// Ranks that did not come before the deadline.
    #[error("{} did not join within {}{}", Ranks(missing), Seconds(*waited), Rejections(rejections))]
    JoinTimeout {
        /// Who did not come.
        missing: Vec<u32>,
        /// How long rank 0 waited for them.
        waited: Duration,
        /// Who came in their place and was turned away, and why; the first few.
        rejections: Vec<String>,
    },
    /// A rank whose connection closed without a goodbye, or whose thread panicked.
    #[error("{who} died: {how}")]
    Died {
        /// Who.
        who: Box<RankInfo>,
        /// How it was noticed.
        how: String,
    },
    /// A rank whose process runs no more, though its connection is open.
    #[error("no heartbeat from {who} for {}: its process is suspended or its host is unreachable", Seconds(*silent))]
    Unresponsive {
        /// Who.
        who: Box<RankInfo>,
        /// For how long.
        silent: Duration,
    },
    /// Ranks that did not come to a collective call.
    #[error("{} did not enter {call} within {}; {} waited for it", Members(missing), Seconds(*waited), Ranks(waiting))]
    CollectiveTimeout {
        /// The call: `barrier (call 5)`.
        call: String,
        /// Who did not come.
        missing: Vec<RankInfo>,
        /// Who did.
        waiting: Vec<u32>,
        /// How long the first of them waited.
        waited: Duration,
    },
    /// Two ranks that make different calls.
    #[error("ranks make different calls: {first} calls {first_call}, {second} calls {second_call}")]
    Mismatch {
        /// The one.
        first: Box<RankInfo>,
        /// Its call.
        first_call: String,
        /// The other.
        second: Box<RankInfo>,
        /// Its call.
        second_call: String,
    },
    /// A rank that ended in order, while others still want something of it.
    #[error("{who} has left the communicator, but rank {waiting} waits for it in {call}")]
    RankLeft {
        /// Who left.
        who: Box<RankInfo>,
        /// Who waits.
        waiting: u32,
        /// In which call.
        call: String,
    },
    /// A message that did not come.
    #[error("rank {rank} received no {call} from {from} within {}", Seconds(*waited))]
    Timeout {
        /// Who waited.
        rank: u32,
        /// From whom.
        from: Box<RankInfo>,
        /// For what: `message with tag 7`.
        call: String,
        /// How long.
        waited: Duration,
    },
    /// Ranks that were built or configured differently.
    #[error("{name} differs: {first} has `{first_value}`, {second} has `{second_value}`")]
    ConfigMismatch {
        /// What differs: `version`.
        name: String,
        /// The one.
        first: Box<RankInfo>,
        /// Its value.
        first_value: String,
        /// The other.
        second: Box<RankInfo>,
        /// Its value.
        second_value: String,
    },
    /// A rank gave up and said why.
    #[error("{who} aborted: {reason}")]
    Aborted {
        /// Who.
        who: Box<RankInfo>,
        /// Its words.
        reason: String,
    },
    /// More bytes than a call takes.
    #[error("expected at most {limit} bytes for {call}, found {bytes} bytes")]
    TooLarge {
        /// The call.
        call: String,
        /// Bytes asked for.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refused something.
    #[error("{what}: {reason}")]
    System {
        /// What was wanted.
        what: String,
        /// What the system said.
        reason: String,
    },
}

impl std::fmt::Debug for Error {
    /// The message, for those who return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The ranks that the group has lost by this: who died, is silent, left, gave up or did not come, as ranks of the job.
    /// None if nobody is gone.
    pub fn lost(&self) -> Vec<u32> {
        match self {
            Self::Died { who, .. }
            | Self::Unresponsive { who, .. }
            | Self::RankLeft { who, .. }
            | Self::Aborted { who, .. } => {
                vec![who.rank]
            }
            Self::Timeout { from, .. } => vec![from.rank],
            Self::CollectiveTimeout { missing, .. } => missing.iter().map(|member| member.rank).collect(),
            Self::JoinTimeout { missing, .. } => missing.clone(),
            _ => Vec::new(),
        }
    }

    /// What to do about it, where there is something to say.
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
            Self::JoinTimeout { .. } | Self::CollectiveTimeout { .. } | Self::Timeout { .. } => {
                "set MSCCLPP_TIMEOUT to the number of seconds that ranks may wait for each other"
            }
            Self::Unresponsive { .. } => {
                "set MSCCLPP_HEARTBEAT_TIMEOUT to the number of seconds without a heartbeat after which a rank \
                 counts as lost; 0 disables the check"
            }
            Self::Version { .. } | Self::ConfigMismatch { .. } => {
                "run the same build with the same settings on all ranks"
            }
            _ => return None,
        })
    }
}

/// A time as people read it: `250 ms`, `30.0 s`.
struct Seconds(Duration);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            ms @ 0..1000 => write!(f, "{ms} ms"),
            _ => write!(f, "{:.1} s", self.0.as_secs_f64()),
        }
    }
}

/// Ranks as people list them: `rank 2`, `ranks 1, 2 and 5`.
struct Ranks<'a>(&'a [u32]);

impl Display for Ranks<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        /// Longer lists end in a number.
        const SHOWN: usize = 16;
        match self.0 {
            [] => f.write_str("no rank"),
            [one] => write!(f, "rank {one}"),
            [most @ .., last] if most.len() < SHOWN => {
                write!(f, "ranks ")?;
                list(f, most)?;
                write!(f, " and {last}")
            }
            all => {
                write!(f, "ranks ")?;
                list(f, &all[..SHOWN])?;
                write!(f, " and {} more", all.len() - SHOWN)
            }
        }
    }
}

/// Members as people list them.
struct Members<'a>(&'a [RankInfo]);

impl Display for Members<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        /// More than a few are named by rank alone.
        const NAMED: usize = 4;
        if self.0.len() > NAMED {
            let ranks: Vec<u32> = self.0.iter().map(|member| member.rank).collect();
            return Ranks(&ranks).fmt(f);
        }
        list(f, self.0)
    }
}

/// Who else was at the door.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed_as_people_do() {
        let text = |ranks: &[u32]| Ranks(ranks).to_string();
        assert_eq!(text(&[2]), "rank 2");
        assert_eq!(text(&[1, 2, 5]), "ranks 1, 2 and 5");
        let many: Vec<u32> = (0..100).collect();
        assert!(text(&many).ends_with("15 and 84 more"), "{}", text(&many));
    }

    #[test]
    fn a_missing_rank_is_named_with_who_came_instead() {
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
