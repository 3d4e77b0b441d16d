//! What moves between ranks, and how.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::plan::show::Scope;
use crate::plan::{Op, OpKind, Place, PlanTree, Ref};
use crate::vocab::{BufferKind, ChannelKind};

/// How data gets from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    MemoryPut,
    MemoryRead,
    Packets,
    PortPut,
    PortPackets,
    SwitchLoad,
    SwitchStore,
}

impl Way {
    pub(super) const ALL: [Self; 7] = [
        Self::MemoryPut,
        Self::MemoryRead,
        Self::Packets,
        Self::PortPut,
        Self::PortPackets,
        Self::SwitchLoad,
        Self::SwitchStore,
    ];

    /// What the legend calls it.
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

    /// Colours that people with any eyes can tell apart.
    pub(super) const fn colour(self) -> &'static str {
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

    /// Whether it goes through a switch.
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

/// How much goes one way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Amount {
    /// References that operations make to it.
    pub(super) transfers: u64,
    /// Chunks, or parts of them.
    pub(super) chunks: f64,
}

impl Amount {
    pub(super) fn add(&mut self, other: Self) {
        self.transfers += other.transfers;
        self.chunks += other.chunks;
    }
}

/// Chunks of one rank's buffer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chunks {
    pub(super) rank: u32,
    pub(super) buffer: BufferKind,
    /// Exclusive at the end; 64 bits hold what any file says.
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Chunks {
    pub(super) fn range(&self) -> Range<u64> {
        self.start..self.end
    }
}

/// All that moves between ranks, added up.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// By source, destination and way. A multicast counts for each other member of its group.
    pub(super) between: BTreeMap<(u32, u32, Way), Amount>,
    /// The same by chunks. A multicast has one end only here: the executing rank's.
    pub(super) chunks: BTreeMap<(Chunks, Chunks, Way), Amount>,
    /// What ranks give to switches and get from them, by rank, whether to a switch, and way. What `between` says of
    /// switches, said another way.
    pub(super) by_switch: BTreeMap<(u32, bool, Way), Amount>,
    /// By rank, what it moves and combines in its own buffers: operations by name.
    pub(super) local: BTreeMap<u32, BTreeMap<&'static str, u64>>,
}

impl Moves {
    /// What moves in a plan, or to and from one of its ranks.
    pub(super) fn of(plan: &PlanTree, only: Option<u32>) -> Self {
        let mut moves = Self::default();
        for (rank, tables) in plan.ranks.iter().enumerate() {
            for block in &tables.blocks {
                moves.visit(&block.ops, rank as u32, &Scope { tables, block });
            }
        }
        if let Some(only) = only {
            moves.between.retain(|(from, to, _), _| [*from, *to].contains(&only));
            moves.chunks.retain(|(from, to, _), _| [from.rank, to.rank].contains(&only));
            moves.local.retain(|rank, _| *rank == only);
        }
        moves
    }

    fn visit(&mut self, ops: &[Op], rank: u32, scope: &Scope<'_>) {
        for op in ops {
            if op.kind.is_data() {
                self.op(op, rank, scope);
            }
            if let Some(body) = &op.body {
                self.visit(&body.ops, rank, scope);
            }
        }
    }

    fn op(&mut self, op: &Op, rank: u32, scope: &Scope<'_>) {
        let part = op.slice.map_or(1.0, |slice| 1.0 / f64::from(slice.of.max(1)));
        let channel = op.channel.unwrap_or(ChannelKind::Memory);
        let local = |refs: &[Ref], at: usize| {
            let own = |at: &&Ref| at.local_buffer().is_some();
            let chosen = refs.get(at).filter(own).or_else(|| refs.iter().find(own));
            chosen.and_then(|at| Some(chunks(rank, at.local_buffer()?, at)))
        };
        // What a reduction sends is its result, which is where its first destination says; what others send is a source.
        let mut remote = false;
        for (write, refs, others) in [(false, &op.srcs, &op.dsts), (true, &op.dsts, &op.srcs)] {
            for (i, at) in refs.iter().enumerate() {
                let amount = Amount { transfers: 1, chunks: f64::from(at.size) * part };
                let way = Way::of(channel, write && super::super::stats::writes_packets(op.kind, i), write);
                let own = if write && op.kind.is_reduce() { local(&op.dsts, 0) } else { local(others, i) };
                let others: Vec<(u32, BufferKind)> = match at.place {
                    Place::Local(_) => continue,
                    Place::Remote(index) => scope.remote(index, op.channel).into_iter().collect(),
                    Place::Switch(index) => match scope.switch(index) {
                        Some((number, buffer)) => members(scope, number).iter().map(|rank| (*rank, buffer)).collect(),
                        None => continue,
                    },
                };
                remote = true;
                if matches!(at.place, Place::Switch(_)) {
                    self.by_switch.entry((rank, write, way)).or_default().add(amount);
                    for (member, _) in &others {
                        self.by_switch.entry((*member, !write, way)).or_default().add(amount);
                    }
                }
                for (other, buffer) in others {
                    let there = chunks(other, buffer, at);
                    let ends = if write { (rank, other) } else { (other, rank) };
                    if other != rank {
                        self.between.entry((ends.0, ends.1, way)).or_default().add(amount);
                    }
                    // A reduction within a switch has no chunk of its own in the rank that asks for it.
                    let own = own.clone().unwrap_or_else(|| Chunks { rank, ..there.clone() });
                    let ends = if write { (own, there) } else { (there, own) };
                    self.chunks.entry((ends.0, ends.1, way)).or_default().add(amount);
                }
            }
        }
        if !remote {
            *self.local.entry(rank).or_default().entry(name(op.kind)).or_default() += 1;
        }
    }
}

fn chunks(rank: u32, buffer: BufferKind, at: &Ref) -> Chunks {
    let start = u64::from(at.index);
    Chunks { rank, buffer, start, end: start + u64::from(at.size) }
}

fn members<'a>(scope: &Scope<'a>, number: u32) -> &'a [u32] {
    scope.tables.switch_channels().nth(number as usize).map_or(&[], |(_, members)| members)
}

/// What an operation within one rank is called.
const fn name(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Copy => "copy",
        OpKind::CopyPackets => "pack",
        OpKind::UnpackPackets => "unpack",
        _ => "reduce",
    }
}
