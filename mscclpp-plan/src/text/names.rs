//! Names of channels and remote buffers for the printer: from positions in a thread block's tables to ranks.
//!
//! A position is named only if the parser finds the same position by the name; any other is written as `#position`.

use std::collections::BTreeSet;

use crate::types::{BufferKind, ChannelKind};
use crate::{BufferRef, Op, RankPlan, ThreadBlock};

/// The channel to a peer: the `nth` of its kind, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer {
    pub(super) rank: u32,
    pub(super) nth: u32,
}

/// An entry of a rank's tables that a line of text names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    Channel(ChannelKind, u32),
    Buffer(ChannelKind, u32),
}

/// Names of a rank's channels and remote buffers, by their numbers.
pub struct RankNames<'a> {
    /// The tables that give the names.
    pub tables: &'a RankPlan,
    memory: Vec<Peer>,
    port: Vec<Peer>,
    switches: Vec<BufferKind>,
    /// Owner and buffer; `None` if an earlier entry has the same ones.
    buffers: Vec<Option<(u32, BufferKind)>>,
}

impl<'a> RankNames<'a> {
    /// Creates the names for one rank, in time linear in its tables.
    pub fn new(tables: &'a RankPlan) -> Self {
        let peers = |kind| {
            let mut counts = std::collections::BTreeMap::new();
            let name = |&rank: &u32| {
                let count = counts.entry(rank).or_insert(0);
                *count += 1;
                Peer { rank, nth: *count - 1 }
            };
            tables.peers(kind).iter().map(name).collect()
        };
        let mut seen = BTreeSet::new();
        let buffers = tables.remote_buffers.iter().map(|found| (found.rank, found.buffer));
        Self {
            tables,
            memory: peers(ChannelKind::Memory),
            port: peers(ChannelKind::Port),
            switches: tables.switch_channels().map(|(buffer, _)| buffer).collect(),
            buffers: buffers.map(|name| seen.insert(name).then_some(name)).collect(),
        }
    }

    /// Returns the peer of a memory or port channel.
    pub(super) fn peer(&self, kind: ChannelKind, number: u32) -> Option<Peer> {
        let peers = match kind {
            ChannelKind::Memory => &self.memory,
            ChannelKind::Port => &self.port,
            ChannelKind::Switch => return None,
        };
        peers.get(number as usize).copied()
    }

    /// Returns owner and kind of a remote buffer, if its number is the first with these.
    pub(super) fn buffer(&self, number: u32) -> Option<(u32, BufferKind)> {
        self.buffers.get(number as usize).copied().flatten()
    }
}

/// Names of what a thread block's operations refer to.
#[derive(Clone)]
pub struct BlockNames<'a> {
    /// The names of its rank.
    pub rank: &'a RankNames<'a>,
    /// The thread block.
    pub block: &'a ThreadBlock,
    /// Positions whose number occurs earlier in the same table, with the kind and whether the table lists buffers.
    repeated: BTreeSet<(bool, ChannelKind, u32)>,
}

impl<'a> BlockNames<'a> {
    /// Creates the names for one thread block, in time linear in its tables.
    pub fn new(rank: &'a RankNames<'a>, block: &'a ThreadBlock) -> Self {
        let mut repeated = BTreeSet::new();
        for kind in ChannelKind::ALL {
            for (buffers, table) in [(false, block.channels(kind)), (true, block.remote_buffers(kind))] {
                let mut seen = BTreeSet::new();
                let again = (0..).zip(table).filter(|(_, number)| !seen.insert(**number));
                repeated.extend(again.map(|(position, _)| (buffers, kind, position)));
            }
        }
        Self { rank, block, repeated }
    }

    /// Returns the rank-level number of the channel at a position.
    pub(super) fn channel(&self, kind: ChannelKind, position: u32) -> Option<u32> {
        let number = *self.block.channels(kind).get(position as usize)?;
        let known = kind == ChannelKind::Switch || self.rank.peer(kind, number).is_some();
        (known && !self.repeated.contains(&(false, kind, position))).then_some(number)
    }

    /// Returns the rank-level number, the owner and the kind of the remote buffer at a position.
    pub(super) fn named_buffer(&self, kind: Option<ChannelKind>, position: u32) -> Option<(u32, (u32, BufferKind))> {
        let kind = kind?;
        let number = *self.block.remote_buffers(kind).get(position as usize)?;
        let name = self.rank.buffer(number)?;
        (!self.repeated.contains(&(true, kind, position))).then_some((number, name))
    }

    /// Returns owner and kind of the remote buffer at a position, whether or not it has a name.
    pub fn remote(&self, position: u32, kind: Option<ChannelKind>) -> Option<(u32, BufferKind)> {
        let number = *self.block.remote_buffers(kind?).get(position as usize)?;
        self.rank.tables.remote_buffers.get(number as usize).map(|buffer| (buffer.rank, buffer.buffer))
    }

    /// Returns number and buffer of the switch channel at a position.
    pub fn switch(&self, position: u32) -> Option<(u32, BufferKind)> {
        let number = self.channel(ChannelKind::Switch, position)?;
        self.rank.switches.get(number as usize).map(|buffer| (number, *buffer))
    }

    /// Calls `each` with the entries that an operation's line names, in the order in which the parser adds them to
    /// tables.
    pub(super) fn uses(&self, op: &Op, each: &mut dyn FnMut(Use)) {
        for at in op.srcs.iter().chain(&op.dsts) {
            match at.buffer {
                BufferRef::Local(_) => {}
                BufferRef::Remote(position) => {
                    if let (Some(kind), Some((number, _))) = (op.channel, self.named_buffer(op.channel, position)) {
                        each(Use::Buffer(kind, number));
                    }
                }
                BufferRef::Switch(position) => {
                    if let Some((number, _)) = self.switch(position) {
                        each(Use::Channel(ChannelKind::Switch, number));
                    }
                }
            }
        }
        if let Some(kind) = op.channel.filter(|_| !op.kind.has_ids_of_rank()) {
            for id in &op.ids {
                if let Some(number) = self.channel(kind, *id) {
                    each(Use::Channel(kind, number));
                }
            }
        }
    }
}
