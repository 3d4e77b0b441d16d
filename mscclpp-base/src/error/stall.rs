//! Report of a stalled launch.

use std::fmt;

use mscclpp_core::diag::{Code, Diagnostic, Site};
use mscclpp_core::origin::SourceLocation;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_core::types::ChannelKind;

/// A launch in which every thread block either has finished or is blocked forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The plan's name.
    pub plan: String,
    /// Number of the launch on its executor, counted from 1.
    pub launch: u64,
    /// Number of thread blocks of all ranks.
    pub num_blocks: usize,
    /// The blocked thread blocks: first those that no operation would unblock, then by rank and block.
    pub blocked: Vec<BlockedThreadBlock>,
}

/// A blocked thread block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedThreadBlock {
    /// Its rank.
    pub rank: u32,
    /// Its number in the rank.
    pub block: u32,
    /// Flat index of the blocked operation; the operations of a pipeline's body are numbered after its header.
    pub op: u32,
    /// Kind of the operation.
    pub kind: OpKind,
    /// Iteration of the enclosing pipeline, counted from 0.
    pub iteration: Option<u64>,
    /// Source location of the operation, if known.
    pub location: Option<SourceLocation>,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// What would have unblocked it.
    pub unblocked_by: UnblockedBy,
}

/// Event for which a thread block waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A signal.
    Signal {
        /// Kind of the channel.
        channel: ChannelKind,
        /// Its number on the waiting rank.
        id: u32,
        /// The peer.
        peer: u32,
        /// Signals that must have arrived, over all launches.
        expected: u64,
        /// Signals that have arrived.
        seen: u64,
    },
    /// A unit of a semaphore.
    Semaphore {
        /// Its number on the rank.
        id: u32,
        /// Its value; it can be acquired while this is positive.
        value: i64,
    },
    /// The other thread blocks of a barrier.
    Barrier {
        /// Its number on the rank.
        id: u32,
        /// Thread blocks that have arrived.
        arrived: u32,
        /// Thread blocks that must arrive.
        expected: u32,
    },
    /// A packet.
    Packet {
        /// First scratch chunk of the operand.
        chunk: u32,
        /// The packet in that operand, counted from 0.
        packet: u64,
        /// Flag of this launch.
        expected: u32,
        /// Flag of the packet.
        seen: u32,
    },
    /// The start of other ranks, before which it must not or cannot continue.
    Peers {
        /// Ranks that have not started this launch. If there are none, the thread block could continue, but its own
        /// rank does not execute it.
        ranks: Vec<u32>,
    },
    /// The proxy of its rank, which happens only if the executor is defective.
    Proxy,
}

/// Event that would have unblocked a thread block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnblockedBy {
    /// An operation that was not reached.
    Operation {
        /// Its rank.
        rank: u32,
        /// Its thread block.
        block: u32,
        /// Its flat index.
        op: u32,
        /// Kind of the operation.
        kind: OpKind,
        /// Its source location, if known.
        location: Option<SourceLocation>,
    },
    /// The start of the ranks for which it waits.
    PeerStart,
    /// No remaining operation.
    Nothing,
}

impl BlockedThreadBlock {
    /// Returns `rank 3 / thread block 0 / operation 5 (wait)`.
    pub fn path(&self) -> String {
        path(self.rank, self.block, self.op, self.kind)
    }

    /// Returns whether it waits for nothing any more: its rank has yet to run it.
    #[cfg(feature = "process")]
    pub fn is_ready(&self) -> bool {
        matches!(&self.waits_for, WaitsFor::Peers { ranks } if ranks.is_empty())
    }

    fn site(&self) -> Site {
        self.location.clone().map_or_else(|| Site::Path(self.path()), Site::Source)
    }
}

/// Returns the path of an operation in a plan.
pub fn path(rank: u32, block: u32, op: u32, kind: OpKind) -> String {
    format!("rank {rank} / thread block {block} / operation {op} ({})", kind.name())
}

impl fmt::Display for WaitsFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal { channel, id, peer, expected, seen } => {
                write!(f, "a signal of rank {peer} on its {channel} channel {id}: expected {expected}, found {seen}")
            }
            Self::Semaphore { id, value } => write!(f, "a unit of its semaphore {id}, whose value is {value}"),
            Self::Barrier { id, arrived, expected } => {
                write!(f, "its barrier {id}: expected {expected} thread blocks, {arrived} arrived")
            }
            Self::Packet { chunk, packet, expected, seen } => write!(
                f,
                "packet {packet} of the packets at scratch chunk {chunk}: expected flag {expected}, found {seen}"
            ),
            Self::Peers { ranks } if ranks.is_empty() => f.write_str("its own rank to make progress"),
            Self::Peers { ranks } => {
                let ranks: Vec<_> = ranks.iter().map(|rank| format!("rank {rank}")).collect();
                write!(f, "{} to start this launch", ranks.join(" and "))
            }
            Self::Proxy => f.write_str("the port proxy of its rank"),
        }
    }
}

impl fmt::Display for BlockedThreadBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())?;
        if let Some(place) = &self.location {
            write!(f, " at {place}")?;
        }
        if let Some(iteration) = self.iteration {
            write!(f, " in iteration {iteration}")?;
        }
        write!(f, " waits for {}", self.waits_for)?;
        match &self.unblocked_by {
            UnblockedBy::Operation { rank, block, op, kind, location: place } => {
                write!(f, "; {} would unblock it, but was not reached", path(*rank, *block, *op, *kind))?;
                if let Some(place) = place {
                    write!(f, ", at {place}")?;
                }
                Ok(())
            }
            UnblockedBy::PeerStart => Ok(()),
            UnblockedBy::Nothing => f.write_str("; no remaining operation would unblock it"),
        }
    }
}

/// Maximum number of thread blocks that a message names.
const NAMED: usize = 8;

impl Stall {
    fn summary(&self) -> String {
        let waiting = self.blocked.len();
        format!(
            "plan `{}` stalled in launch {}: {waiting} of {} thread block{} {} blocked forever",
            self.plan,
            self.launch,
            self.num_blocks,
            if self.num_blocks == 1 { "" } else { "s" },
            if waiting == 1 { "is" } else { "are" },
        )
    }

    fn rest(&self) -> Option<String> {
        self.blocked.len().checked_sub(NAMED + 1).map(|rest| format!("and {} more", rest + 1))
    }

    /// Returns the stall as a diagnostic with `code`; `cause` comes first, if there is one.
    pub(super) fn diagnostic(&self, code: Code, cause: Option<String>) -> Diagnostic {
        let site = self.blocked.first().map_or(Site::None, BlockedThreadBlock::site);
        let mut message = cause.map_or_else(|| self.summary(), |cause| format!("{cause}; {}", self.summary()));
        if let Some(first) = self.blocked.first() {
            message += &format!(": {first}");
        }
        let mut diagnostic = Diagnostic::new(code, site, message);
        for blocked in self.blocked.iter().skip(1).take(NAMED - 1) {
            diagnostic = diagnostic.note(format!("{} waits for {}", blocked.path(), blocked.waits_for), blocked.site());
        }
        if let Some(rest) = self.rest() {
            diagnostic = diagnostic.note(rest, Site::None);
        }
        diagnostic
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary())?;
        for blocked in self.blocked.iter().take(NAMED) {
            write!(f, "\n  {blocked}")?;
        }
        self.rest().map_or(Ok(()), |rest| write!(f, "\n  {rest}"))
    }
}

impl std::error::Error for Stall {}
