//! Collects what moves between ranks, by kind of transfer.

use std::collections::{BTreeMap, BTreeSet};

use crate::raw::Packets;
use crate::text::{BlockNames, RankNames};
use crate::types::{BufferKind, ChannelKind};
use crate::{BufferRef, Op, OpClass, OpKind, Operand, PlanTree, RankPlan};

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
    #[cfg(test)]
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

/// What one rank sends another one in a step, by one kind of transfer.
#[derive(Clone, Debug, Default)]
pub(super) struct Transfer {
    pub(super) amount: Amount,
    /// The first chunks that it moves: `input[0] to scratch[3]`.
    chunks: BTreeSet<String>,
}

/// Maximum number of chunks of a transfer that are named.
const MAX_NAMED: usize = 8;

impl Transfer {
    fn add(&mut self, amount: Amount, chunks: impl IntoIterator<Item = String>) {
        self.amount.add(amount);
        for text in chunks {
            if self.chunks.len() < MAX_NAMED {
                self.chunks.insert(text);
            }
        }
    }

    /// Returns its chunks, after its amount.
    pub(super) fn text(&self) -> String {
        let all = self.chunks.iter().cloned().collect::<Vec<_>>().join(", ");
        if all.is_empty() { all } else { format!(", {all}") }
    }

    /// Returns the only chunks that it moves.
    pub(super) fn label(&self) -> Option<&str> {
        self.chunks.first().filter(|_| self.chunks.len() == 1).map(String::as_str)
    }
}

/// The sum of all transfers between ranks.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// By step, source, destination and kind. A multicast counts once for each other member of its group.
    pub(super) between: BTreeMap<(u32, u32, u32, TransferKind), Transfer>,
    /// Per step and rank, its reductions and the operations on its own buffers, by name.
    pub(super) local: BTreeMap<(u32, u32), BTreeMap<&'static str, u64>>,
}

/// What one rank transfers through one of its switch channels in one direction: step, rank, channel, kind.
type Switched = (u32, u32, u32, TransferKind);

/// Collects transfers.
struct Visit<'a> {
    moves: Moves,
    /// Multicasts, summed before they are distributed over their groups, which may be large.
    switched: BTreeMap<Switched, Amount>,
    plan: &'a PlanTree,
    /// The step of the current thread block: the number of times that it has waited for others between operations on data.
    step: u32,
    /// Whether it has waited since its last operation on data, and whether that has only read packets.
    has_waited: bool,
    has_read_packets: bool,
}

impl Moves {
    /// Returns what moves in a plan, or to and from one of its ranks.
    pub(super) fn of(plan: &PlanTree, only: Option<u32>) -> Self {
        let (moves, switched) = (Self::default(), BTreeMap::new());
        let mut visit = Visit { moves, switched, plan, step: 0, has_waited: false, has_read_packets: false };
        for (rank, tables) in (0..).zip(&plan.ranks) {
            let names = RankNames::new(tables);
            for block in &tables.blocks {
                (visit.step, visit.has_waited, visit.has_read_packets) = (0, false, false);
                visit.ops(&block.ops, rank, &BlockNames::new(&names, block));
            }
        }
        visit.spread();
        let mut moves = visit.moves;
        if let Some(only) = only {
            moves.between.retain(|(_, from, to, _), _| [*from, *to].contains(&only));
            moves.local.retain(|(_, rank), _| *rank == only);
        }
        moves.number();
        moves
    }

    /// Returns the number of steps.
    pub(super) fn num_steps(&self) -> usize {
        let last = |step: Option<u32>| step.map_or(0, |step| step as usize + 1);
        let between = self.between.keys().next_back().map(|(step, ..)| *step);
        last(between).max(last(self.local.keys().next_back().map(|(step, _)| *step)))
    }

    /// Numbers the steps in which something moves.
    fn number(&mut self) {
        let steps: BTreeSet<u32> =
            self.between.keys().map(|(step, ..)| *step).chain(self.local.keys().map(|(step, _)| *step)).collect();
        let number: BTreeMap<u32, u32> = steps.into_iter().zip(0..).collect();
        let between = std::mem::take(&mut self.between);
        self.between = between.into_iter().map(|((step, a, b, way), all)| ((number[&step], a, b, way), all)).collect();
        let local = std::mem::take(&mut self.local);
        self.local = local.into_iter().map(|((step, rank), all)| ((number[&step], rank), all)).collect();
    }
}

impl Visit<'_> {
    fn ops(&mut self, ops: &[Op], rank: u32, names: &BlockNames<'_>) {
        for op in ops {
            match op.kind.class() {
                OpClass::Wait { .. } | OpClass::Acquire | OpClass::ExchangeCounts => self.has_waited = true,
                OpClass::Data(..) => {
                    let reads_packets = op.kind.has_packets() && op.kind.srcs().packets != Packets::Nothing;
                    let sends = op.dsts.iter().any(|at| at.local_buffer().is_none());
                    // Operations that only read packets, one after the other, are of one step.
                    if self.has_waited || (reads_packets && !self.has_read_packets) {
                        self.step += 1;
                    }
                    (self.has_waited, self.has_read_packets) = (false, reads_packets && !sends);
                    self.op(op, rank, names);
                }
                _ => {}
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
            chosen.and_then(|at| Some(chunks(at.local_buffer()?, at)))
        };
        let mut within = true;
        for (write, refs, others) in [(false, &op.srcs, &op.dsts), (true, &op.dsts, &op.srcs)] {
            for (i, at) in refs.iter().enumerate() {
                let amount = Amount { transfers: 1, chunks: f64::from(at.size) * part };
                let way = TransferKind::of(channel, write && op.kind.dsts().packets.at(i), write);
                match at.buffer {
                    BufferRef::Local(_) => continue,
                    BufferRef::Remote(index) => {
                        let Some((other, buffer)) = names.remote(index, op.channel) else { continue };
                        if other != rank {
                            // A reduction sends its result, which is in its first destination; other operations send a source.
                            let own = if write && op.kind.is_reduce() { local(&op.dsts, 0) } else { local(others, i) };
                            let there = chunks(buffer, at);
                            let text = own.map(|own| match write {
                                true => format!("{own} to {there}"),
                                false => format!("{there} to {own}"),
                            });
                            let (from, to, way) = ends(write, rank, other, way);
                            self.moves.between.entry((self.step, from, to, way)).or_default().add(amount, text);
                        }
                    }
                    BufferRef::Switch(index) => {
                        let Some((number, _)) = names.switch(index) else { continue };
                        self.switched.entry((self.step, rank, number, way)).or_default().add(amount);
                    }
                }
                within = false;
            }
        }
        if within || op.kind.is_reduce() {
            *self.moves.local.entry((self.step, rank)).or_default().entry(name(op.kind)).or_default() += 1;
        }
    }

    /// Counts multicasts for each member of their groups.
    fn spread(&mut self) {
        for ((step, rank, number, way), amount) in std::mem::take(&mut self.switched) {
            let write = way == TransferKind::SwitchStore;
            let Some(tables) = self.plan.ranks.get(rank as usize) else { continue };
            for member in BTreeSet::from_iter(members(tables, number)) {
                if *member != rank {
                    let (from, to, way) = ends(write, rank, *member, way);
                    self.moves.between.entry((step, from, to, way)).or_default().add(amount, None);
                }
            }
        }
    }
}

/// Returns source and destination of a read from or a write to another rank.
const fn ends(write: bool, rank: u32, other: u32, way: TransferKind) -> (u32, u32, TransferKind) {
    if write { (rank, other, way) } else { (other, rank, way) }
}

/// Returns a text such as `input[0]` or `scratch[2..4]`.
fn chunks(buffer: BufferKind, at: &Operand) -> String {
    let (start, end) = (u64::from(at.index), u64::from(at.index) + u64::from(at.size));
    if at.size == 1 { format!("{buffer}[{start}]") } else { format!("{buffer}[{start}..{end}]") }
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
