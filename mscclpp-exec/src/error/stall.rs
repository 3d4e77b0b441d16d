//! The report of a plan that cannot go on.

use std::fmt;

use mscclpp_core::diag::{Code, Diagnostic, Site};
use mscclpp_core::origin::SourceLocation;
use mscclpp_core::plan::OpKind;
use mscclpp_core::types::ChannelKind;

/// A launch in which every thread block either had finished or waited for something that could no longer happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The plan's name.
    pub plan: String,
    /// Which launch of the world, counted from 1.
    pub launch: u64,
    /// Thread blocks of all ranks.
    pub blocks: usize,
    /// Those that wait, the ones that nobody will release first, then by rank and block.
    pub blocked: Vec<BlockedThreadBlock>,
}

/// One waiting thread block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedThreadBlock {
    /// Its rank.
    pub rank: u32,
    /// Its number in the rank.
    pub block: u32,
    /// Flat index of the operation that waits: a pipeline's body counts on behind its header.
    pub op: u32,
    /// What the operation is.
    pub kind: OpKind,
    /// Iteration of the pipeline around it, counted from 0.
    pub iteration: Option<u64>,
    /// Where it was written, if that is known.
    pub place: Option<SourceLocation>,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// What would have released it.
    pub released: UnblockedBy,
}

/// What a thread block waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A signal.
    Signal {
        /// Kind of the channel.
        channel: ChannelKind,
        /// Its number on the waiting rank.
        id: u32,
        /// The rank at its other end.
        peer: u32,
        /// Signals that must have come, over all launches.
        expected: u64,
        /// Signals that have come.
        seen: u64,
    },
    /// A unit of a semaphore.
    Semaphore {
        /// Its number on the rank.
        id: u32,
        /// Its value; positive ones can be taken.
        value: i64,
    },
    /// The other blocks of a barrier.
    Barrier {
        /// Its number on the rank.
        id: u32,
        /// Blocks that have come.
        arrived: u32,
        /// Blocks that must come.
        expected: u32,
    },
    /// A packet.
    Packet {
        /// First scratch chunk of the reference.
        chunk: u32,
        /// The packet in that reference, counted from 0.
        packet: u64,
        /// The flag of this launch.
        expected: u32,
        /// The flag that is there.
        seen: u32,
    },
    /// Other ranks, before whose beginning it must not or cannot go on.
    Peers {
        /// Ranks that have not begun this launch. If there are none it could go on: its own rank does not get there.
        ranks: Vec<u32>,
    },
    /// The proxy of its rank, which cannot happen unless the executor is at fault.
    Proxy,
}

/// What would have released a waiting thread block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnblockedBy {
    /// An operation that was not reached.
    By {
        /// Its rank.
        rank: u32,
        /// Its thread block.
        block: u32,
        /// Its flat index.
        op: u32,
        /// What it is.
        kind: OpKind,
        /// Where it was written, if that is known.
        place: Option<SourceLocation>,
    },
    /// The beginning of the ranks that it waits for.
    PeerStart,
    /// Nothing that was still to come.
    ByNothing,
}

impl BlockedThreadBlock {
    /// `rank 3 / thread block 0 / operation 5 (wait)`.
    pub fn path(&self) -> String {
        path(self.rank, self.block, self.op, self.kind)
    }

    fn site(&self) -> Site {
        self.place.clone().map_or_else(|| Site::Path(self.path()), Site::Source)
    }
}

/// Where an operation is in a plan.
pub(crate) fn path(rank: u32, block: u32, op: u32, kind: OpKind) -> String {
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
        if let Some(place) = &self.place {
            write!(f, " at {place}")?;
        }
        if let Some(iteration) = self.iteration {
            write!(f, " in iteration {iteration}")?;
        }
        write!(f, " waits for {}", self.waits_for)?;
        match &self.released {
            UnblockedBy::By { rank, block, op, kind, place } => {
                write!(f, "; {} would unblock it, but was not reached", path(*rank, *block, *op, *kind))?;
                if let Some(place) = place {
                    write!(f, ", at {place}")?;
                }
                Ok(())
            }
            UnblockedBy::PeerStart => Ok(()),
            UnblockedBy::ByNothing => f.write_str("; no remaining operation would unblock it"),
        }
    }
}

/// Thread blocks that a text names.
const NAMED: usize = 8;

impl Stall {
    fn summary(&self) -> String {
        let waiting = self.blocked.len();
        format!(
            "plan `{}` stalled in launch {}: {waiting} of {} thread block{} {} blocked forever",
            self.plan,
            self.launch,
            self.blocks,
            if self.blocks == 1 { "" } else { "s" },
            if waiting == 1 { "is" } else { "are" },
        )
    }

    fn rest(&self) -> Option<String> {
        self.blocked.len().checked_sub(NAMED + 1).map(|rest| format!("and {} more", rest + 1))
    }

    /// As a finding under `code`; `cause` comes first, if there is one.
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
