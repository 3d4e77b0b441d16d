//! Collects what moves between ranks, by kind of transfer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::MOST_RANKS;
use crate::text::{BlockNames, RankNames};
use crate::types::{BufferKind, ChannelKind};
use crate::{BufferRef, Op, OpKind, Operand, PlanTree, RankPlan};

/// How data is transferred from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TransferKind {
    MemoryPut,
    MemoryRead,
    Packets,
    PortPut,
    PortPackets,
    SwitchLoad,
    SwitchStore,
}

impl TransferKind {
    pub(super) const ALL: [Self; 7] = [
        Self::MemoryPut,
        Self::MemoryRead,
        Self::Packets,
        Self::PortPut,
        Self::PortPackets,
        Self::SwitchLoad,
        Self::SwitchStore,
    ];

    /// Returns the name in the legend.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::MemoryPut => "put",
            Self::MemoryRead => "read",
            Self::Packets => "packets",
            Self::PortPut => "port put",
            Self::PortPackets => "port packets",
            Self::SwitchLoad => "switch reduce",
            Self::SwitchStore => "switch broadcast",
        }
    }

    /// Returns a color; the colors differ under any form of color blindness.
    pub(super) const fn color(self) -> &'static str {
        match self {
            Self::MemoryPut => "#0072b2",
            Self::MemoryRead => "#56b4e9",
            Self::Packets => "#d55e00",
            Self::PortPut => "#8b5fbf",
            Self::PortPackets => "#cc79a7",
            Self::SwitchLoad => "#009e73",
            Self::SwitchStore => "#b08900",
        }
    }

    /// Returns whether the transfer goes through a switch.
    pub(super) const fn by_switch(self) -> bool {
        matches!(self, Self::SwitchLoad | Self::SwitchStore)
    }

    const fn of(channel: ChannelKind, packets: bool, write: bool) -> Self {
        match (channel, packets, write) {
            (ChannelKind::Switch, _, true) => Self::SwitchStore,
            (ChannelKind::Switch, _, false) => Self::SwitchLoad,
            (ChannelKind::Port, false, _) => Self::PortPut,
            (ChannelKind::Port, true, _) => Self::PortPackets,
            (ChannelKind::Memory, true, _) => Self::Packets,
            (ChannelKind::Memory, false, true) => Self::MemoryPut,
            (ChannelKind::Memory, false, false) => Self::MemoryRead,
        }
    }
}

/// An amount of data of one kind of transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amount {
    /// Number of operands that operations transfer.
    pub(super) transfers: u64,
    /// Number of chunks, including fractions.
    pub(super) chunks: f64,
}

impl Amount {
    pub(super) fn add(&mut self, other: Self) {
        self.transfers += other.transfers;
        self.chunks += other.chunks;
    }
}

/// A range of chunks of one rank's buffer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chunks {
    pub(super) rank: u32,
    pub(super) buffer: BufferKind,
    /// Start and exclusive end; 64 bits hold the numbers of any file.
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Chunks {
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// The sum of all transfers between ranks.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// By source, destination and kind. A multicast counts once for each other member of its group.
    pub(super) between: BTreeMap<(u32, u32, TransferKind), Amount>,
    /// By chunks. A multicast has only one end here: that of the executing rank.
    pub(super) chunks: BTreeMap<(Chunks, Chunks, TransferKind), Amount>,
    /// What ranks send to switches and receive from them, by rank, whether to a switch, and kind. `between` has the
    /// same transfers by destination.
    pub(super) by_switch: BTreeMap<(u32, bool, TransferKind), Amount>,
    /// Per rank, the operations on its own buffers, by name.
    pub(super) local: BTreeMap<u32, BTreeMap<&'static str, u64>>,
}

/// What one rank transfers through one of its switch channels in one direction.
type Switched = (u32, u32, TransferKind);

/// Collects transfers.
struct Visit<'a> {
    moves: Moves,
    /// Multicasts, summed before they are distributed over their groups, which may be large.
    switched: BTreeMap<Switched, Amount>,
    /// The selected rank.
    only: Option<u32>,
    /// Whether to collect chunks of all ranks.
    all_chunks: bool,
    plan: &'a PlanTree,
}

impl Moves {
    /// Returns what moves in a plan, or to and from one of its ranks.
    pub(super) fn of(plan: &PlanTree, only: Option<u32>) -> Self {
        let all_chunks = plan.ranks.len() <= MOST_RANKS;
        let mut visit = Visit { moves: Self::default(), switched: BTreeMap::new(), only, all_chunks, plan };
        for (rank, tables) in (0..).zip(&plan.ranks) {
            let names = RankNames::new(tables);
            for block in &tables.blocks {
                visit.ops(&block.ops, rank, &BlockNames::new(&names, block));
            }
        }
        visit.spread();
        let mut moves = visit.moves;
        if let Some(only) = only {
            moves.between.retain(|(from, to, _), _| [*from, *to].contains(&only));
            moves.local.retain(|rank, _| *rank == only);
        }
        moves
    }
}

impl Visit<'_> {
    fn ops(&mut self, ops: &[Op], rank: u32, names: &BlockNames<'_>) {
        for op in ops {
            if op.kind.is_data() {
                self.op(op, rank, names);
            }
            if let Some(body) = &op.body {
                self.ops(&body.ops, rank, names);
            }
        }
    }

    fn op(&mut self, op: &Op, rank: u32, names: &BlockNames<'_>) {
        let part = op.slice.map_or(1.0, |slice| 1.0 / f64::from(slice.count.max(1)));
        let channel = op.channel.unwrap_or(ChannelKind::Memory);
        let local = |refs: &[Operand], at: usize| {
            let own = |at: &&Operand| at.local_buffer().is_some();
            let chosen = refs.get(at).filter(own).or_else(|| refs.iter().find(own));
            chosen.and_then(|at| Some(chunks(rank, at.local_buffer()?, at)))
        };
        let mut within = true;
        for (write, refs, others) in [(false, &op.srcs, &op.dsts), (true, &op.dsts, &op.srcs)] {
            for (i, at) in refs.iter().enumerate() {
                let amount = Amount { transfers: 1, chunks: f64::from(at.size) * part };
                let way = TransferKind::of(channel, write && op.kind.dsts().packets.at(i), write);
                // A reduction sends its result, which is in its first destination; other operations send a source.
                let own = if write && op.kind.is_reduce() { local(&op.dsts, 0) } else { local(others, i) };
                let group;
                let (others, buffer) = match at.buffer {
                    BufferRef::Local(_) => continue,
                    BufferRef::Remote(index) => {
                        let Some((other, buffer)) = names.remote(index, op.channel) else { continue };
                        if other != rank {
                            self.moves.between.entry(ends(write, rank, other, way)).or_default().add(amount);
                        }
                        group = [other];
                        (&group[..], buffer)
                    }
                    BufferRef::Switch(index) => {
                        let Some((number, buffer)) = names.switch(index) else { continue };
                        self.switched.entry((rank, number, way)).or_default().add(amount);
                        (members(names.rank.tables, number), buffer)
                    }
                };
                within = false;
                for &other in others.iter().take(MOST_RANKS) {
                    if !self.wants(rank, other) {
                        continue;
                    }
                    let there = chunks(other, buffer, at);
                    // A reduction within a switch has no chunk of its own in the rank that requests it.
                    let own = own.clone().unwrap_or_else(|| Chunks { rank, ..there.clone() });
                    let (from, to) = if write { (own, there) } else { (there, own) };
                    self.moves.chunks.entry((from, to, way)).or_default().add(amount);
                }
            }
        }
        if within {
            *self.moves.local.entry(rank).or_default().entry(name(op.kind)).or_default() += 1;
        }
    }

    /// Returns whether to collect the chunks that are transferred between two ranks.
    fn wants(&self, rank: u32, other: u32) -> bool {
        self.only.map_or(self.all_chunks, |only| [rank, other].contains(&only))
    }

    /// Counts multicasts for each member of their groups.
    fn spread(&mut self) {
        for ((rank, number, way), amount) in std::mem::take(&mut self.switched) {
            let write = way == TransferKind::SwitchStore;
            let Some(tables) = self.plan.ranks.get(rank as usize) else { continue };
            self.moves.by_switch.entry((rank, write, way)).or_default().add(amount);
            for member in BTreeSet::from_iter(members(tables, number)) {
                self.moves.by_switch.entry((*member, !write, way)).or_default().add(amount);
                if *member != rank {
                    self.moves.between.entry(ends(write, rank, *member, way)).or_default().add(amount);
                }
            }
        }
    }
}

/// Returns source and destination of a read from or a write to another rank.
const fn ends(write: bool, rank: u32, other: u32, way: TransferKind) -> (u32, u32, TransferKind) {
    if write { (rank, other, way) } else { (other, rank, way) }
}

fn chunks(rank: u32, buffer: BufferKind, at: &Operand) -> Chunks {
    let start = u64::from(at.index);
    Chunks { rank, buffer, start, end: start + u64::from(at.size) }
}

fn members(tables: &RankPlan, number: u32) -> &[u32] {
    tables.switch_channels().nth(number as usize).map_or(&[], |(_, members)| members)
}

/// Returns the display name of an operation within one rank.
const fn name(kind: OpKind) -> &'static str {
    match kind {
        OpKind::CopyPackets => "pack",
        OpKind::UnpackPackets => "unpack",
        kind if kind.is_reduce() => "reduce",
        kind => kind.name(),
    }
}
