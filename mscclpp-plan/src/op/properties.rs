//! Properties of the kinds of operations, and what follows from them.

use super::kinds::{Flow, Function, OpClass, OpKind, PROPERTIES};
use crate::types::ChannelKind::{self, Port};

/// The properties of a kind of operation.
pub(super) struct Properties {
    class: OpClass,
    channels: &'static [ChannelKind],
    ids: IdList,
    srcs: Side,
    dsts: Side,
    /// Of a put, whether a signal, and whether a flush follows it.
    then_signal: bool,
    then_flush: bool,
    /// Whether it exchanges counts, or processes a number of elements that a count states.
    counted: bool,
    /// Why the reference executor cannot run it, and the help; `None` if it can.
    not_in_reference: Option<(&'static str, &'static str)>,
}

/// The meaning of an operation's list of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdList {
    /// There are none.
    Nothing,
    /// One or more channels of the thread block, each once.
    Channels,
    /// A channel for every pair of source and destination.
    ChannelPerPair,
    /// A channel for every destination, over ports.
    ChannelPerPortDestination,
    /// One or more semaphores of the rank.
    Semaphores,
    /// One barrier of the rank.
    Barrier,
}

/// The numbers of local, remote and switch operands of a side, local ones first, and which of them are packets.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    /// Minimum and maximum number of operands in the rank's own buffers.
    pub local: (usize, usize),
    /// Those in remote buffers.
    pub remote: (usize, usize),
    /// Those in the window of a switch channel.
    pub switch: (usize, usize),
    /// Which operands are packets.
    pub packets: Packets,
}

/// Which operands of a side are packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packets {
    /// None is.
    Nothing,
    /// All are.
    All,
    /// All but the first are.
    Rest,
}

impl Packets {
    /// Returns whether the operand at a position of the side is packets.
    #[inline]
    pub const fn at(self, position: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Rest => position > 0,
        }
    }
}

/// How an operation assigns the elements of its operands to the threads of its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// By vectors of plain data.
    Vector,
    /// By operands of a multicast instruction.
    Multicast,
    /// By payloads of packets.
    Packet,
    /// Every thread reads all bytes of a row, and may write any of them.
    Row,
}

const MANY: usize = usize::MAX;
const NOTHING: Side = Side { local: (0, 0), remote: (0, 0), switch: (0, 0), packets: Packets::Nothing };
pub(super) const LOCAL: Side = Side { local: (1, 1), ..NOTHING };
pub(super) const TWO_LOCAL: Side = Side { local: (2, 2), ..NOTHING };
pub(super) const LOCALS: Side = Side { local: (1, MANY), ..NOTHING };
/// Sources of a reduction.
pub(super) const SOURCES: Side = Side { local: (2, MANY), ..NOTHING };
pub(super) const REMOTE: Side = Side { remote: (1, 1), ..NOTHING };
pub(super) const REMOTES: Side = NOTHING.and_remotes();
pub(super) const WINDOW: Side = Side { switch: (1, 1), ..NOTHING };

#[doc(hidden)]
impl Side {
    /// Returns minimum and maximum number of local, remote and switch operands.
    pub const fn ranges(&self) -> [(usize, usize); 3] {
        [self.local, self.remote, self.switch]
    }

    /// Returns whether the side may have these numbers of local, remote and switch operands.
    pub fn fits(&self, counts: [usize; 3]) -> bool {
        self.ranges().iter().zip(counts).all(|(&(min, max), count)| (min..=max).contains(&count))
    }

    pub(super) const fn and_remotes(self) -> Self {
        Self { remote: (1, MANY), ..self }
    }

    pub(super) const fn packets(self) -> Self {
        Self { packets: Packets::All, ..self }
    }

    pub(super) const fn rest_packets(self) -> Self {
        Self { packets: Packets::Rest, ..self }
    }
}

pub(super) const fn control(class: OpClass) -> Properties {
    Properties {
        class,
        channels: &[],
        ids: IdList::Nothing,
        srcs: NOTHING,
        dsts: NOTHING,
        then_signal: false,
        then_flush: false,
        counted: false,
        not_in_reference: None,
    }
}

pub(super) const fn channels(class: OpClass, channels: &'static [ChannelKind]) -> Properties {
    control(class).with_ids(channels, IdList::Channels)
}

pub(super) const fn data(flow: Flow, function: Function, srcs: Side, dsts: Side) -> Properties {
    Properties { srcs, dsts, ..control(OpClass::Data(flow, function)) }
}

/// Copies source i to destination i.
pub(super) const fn pairs(srcs: Side, dsts: Side) -> Properties {
    data(Flow::Pairs, Function::Copy, srcs, dsts)
}

/// Copies a source to every destination.
pub(super) const fn spread(srcs: Side, dsts: Side) -> Properties {
    data(Flow::All, Function::Copy, srcs, dsts)
}

/// Reduces all sources into every destination.
pub(super) const fn combine(srcs: Side, dsts: Side) -> Properties {
    data(Flow::All, Function::Reduce, srcs, dsts)
}

pub(super) const fn port_put(then_flush: bool) -> Properties {
    let put = pairs(LOCALS, REMOTES).with_ids(&[Port], IdList::ChannelPerPair);
    Properties { then_signal: true, then_flush, ..put }
}

/// An operation of a plan whose sizes are counts that are known at run time.
pub(super) const fn counted(properties: Properties) -> Properties {
    let why = "depends on counts, which the reference executor does not have";
    Properties { counted: true, ..properties }.not_in_reference(why, "run the plan with this runtime")
}

impl Properties {
    /// Sets the kinds of channel, of which the operation uses one, and what its ids are.
    pub(super) const fn with_ids(self, channels: &'static [ChannelKind], ids: IdList) -> Self {
        Self { channels, ids, ..self }
    }

    pub(super) const fn over(self, channels: &'static [ChannelKind]) -> Self {
        self.with_ids(channels, IdList::Nothing)
    }

    pub(super) const fn not_in_reference(self, why: &'static str, help: &'static str) -> Self {
        Self { not_in_reference: Some((why, help)), ..self }
    }
}

impl OpKind {
    /// Returns whether this is one of the operations that carry a [`BlockSync`](crate::types::BlockSync) while a
    /// program is lowered.
    pub const fn is_sync(self) -> bool {
        use OpClass as C;
        match self.class() {
            C::Signal { .. } | C::Wait { .. } | C::Flush | C::Acquire | C::Release => true,
            C::BlockSync | C::Barrier | C::Data(..) | C::Pipeline | C::ExchangeCounts => false,
        }
    }

    /// Returns whether this operation exchanges counts, or processes as many elements as a count states.
    pub const fn is_counted(self) -> bool {
        self.properties().counted
    }

    /// Returns whether this operation moves or combines data.
    pub const fn is_data(self) -> bool {
        matches!(self.class(), OpClass::Data(..))
    }

    /// Returns whether this operation reduces.
    pub const fn is_reduce(self) -> bool {
        matches!(self.function(), Some(Function::Reduce))
    }
}

#[doc(hidden)]
impl OpKind {
    #[inline]
    const fn properties(self) -> &'static Properties {
        &PROPERTIES[self as usize]
    }

    /// Returns what the operation does.
    #[inline]
    pub const fn class(self) -> OpClass {
        self.properties().class
    }

    /// Returns from which sources a data operation computes each destination; `None` for other operations.
    #[inline]
    pub const fn flow(self) -> Option<Flow> {
        match self.class() {
            OpClass::Data(flow, _) => Some(flow),
            _ => None,
        }
    }

    /// Returns what a data operation computes; `None` for other operations.
    #[inline]
    pub const fn function(self) -> Option<Function> {
        match self.class() {
            OpClass::Data(_, function) => Some(function),
            _ => None,
        }
    }

    /// Returns the kinds of channel, of which the operation has one; none if it uses no channels or remote buffers.
    pub const fn channels(self) -> &'static [ChannelKind] {
        self.properties().channels
    }

    /// Returns the meaning of the operation's ids.
    #[inline]
    pub const fn ids(self) -> IdList {
        self.properties().ids
    }

    /// Returns whether the ids are numbers of the rank, not positions in the tables of the thread block.
    pub const fn has_ids_of_rank(self) -> bool {
        matches!(self.ids(), IdList::Semaphores | IdList::Barrier)
    }

    /// Returns whether an operation lists its channels: some always do, those that send data only over ports.
    pub const fn lists_channels(self, channel: Option<ChannelKind>) -> bool {
        match self.ids() {
            IdList::Channels | IdList::ChannelPerPair => true,
            IdList::ChannelPerPortDestination => matches!(channel, Some(Port)),
            IdList::Nothing | IdList::Semaphores | IdList::Barrier => false,
        }
    }

    /// Returns the sources that the operation requires.
    #[inline]
    pub const fn srcs(self) -> &'static Side {
        &self.properties().srcs
    }

    /// Returns the destinations that the operation requires.
    #[inline]
    pub const fn dsts(self) -> &'static Side {
        &self.properties().dsts
    }

    /// Returns whether the operation synchronizes the threads of its block.
    pub const fn is_block_sync(self) -> bool {
        matches!(self.class(), OpClass::BlockSync | OpClass::Barrier)
    }

    /// Returns whether the operation signals on its channels.
    pub const fn signals(self) -> bool {
        matches!(self.class(), OpClass::Signal { .. }) || self.properties().then_signal
    }

    /// Returns whether the operation waits for signals on its channels.
    pub const fn waits(self) -> bool {
        matches!(self.class(), OpClass::Wait { .. })
    }

    /// Returns whether the operation waits for signals or for units of semaphores.
    pub const fn acquires(self) -> bool {
        matches!(self.class(), OpClass::Wait { .. } | OpClass::Acquire)
    }

    /// Returns whether the operation is a signal or a wait that orders execution only.
    pub const fn is_relaxed(self) -> bool {
        matches!(self.class(), OpClass::Signal { relaxed: true } | OpClass::Wait { relaxed: true })
    }

    /// Returns whether the operation acquires or releases semaphores.
    pub const fn is_semaphore(self) -> bool {
        matches!(self.ids(), IdList::Semaphores)
    }

    /// Returns whether the operation is a put that a flush follows.
    pub const fn then_flushes(self) -> bool {
        self.properties().then_flush
    }

    /// Returns why the reference executor cannot run the operation, and the help; `None` if it can.
    pub const fn not_in_reference(self) -> Option<(&'static str, &'static str)> {
        self.properties().not_in_reference
    }

    /// Returns whether the operation reads or writes packets.
    pub const fn has_packets(self) -> bool {
        !matches!((self.srcs().packets, self.dsts().packets), (Packets::Nothing, Packets::Nothing))
    }

    /// Returns whether threads wait for the packets that the operation reads. A port moves the bytes of pairs without
    /// reading their flags.
    pub const fn awaits_packets(self, port: bool) -> bool {
        !(port && matches!(self.flow(), Some(Flow::Pairs)))
    }

    /// Returns which sources are packets: those of a port are what it writes.
    pub const fn source_packets(self, channel: Option<ChannelKind>) -> Packets {
        let moves_bytes = !self.awaits_packets(matches!(channel, Some(Port)));
        if moves_bytes { self.dsts().packets } else { self.srcs().packets }
    }

    /// Returns how threads share the elements of the operands.
    pub const fn grain(self) -> Grain {
        if self.has_packets() {
            Grain::Packet
        } else if self.srcs().switch.1 + self.dsts().switch.1 > 0 {
            Grain::Multicast
        } else if matches!(self.function(), Some(Function::RowNorm)) {
            Grain::Row
        } else {
            Grain::Vector
        }
    }
}
