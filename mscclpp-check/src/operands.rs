//! The operands and channels that every kind of operation requires.

use mscclpp_plan::raw::OpKind;
use mscclpp_plan::types::ChannelKind;

/// The requirements of a kind of operation.
pub(super) struct Demand {
    /// Kinds of channel, one of which it has; none at all if empty.
    pub(super) channels: &'static [ChannelKind],
    pub(super) ids: Ids,
    pub(super) srcs: Side,
    pub(super) dsts: Side,
}

/// The meaning of the list of ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    Nothing,
    /// One or more channels of the thread block, each once.
    Channels,
    /// A channel for every pair of source and destination.
    ChannelPerPair,
    /// A channel for every destination, over ports.
    ChannelPerPortDestination,
    /// One or more semaphores of the rank.
    Semaphores,
    /// One barrier.
    Barrier,
}

/// The numbers of local, remote and switch operands of a side, local ones first, and which of them are packets.
pub(super) struct Side {
    pub(super) local: Count,
    pub(super) remote: Count,
    pub(super) switch: Count,
    pub(super) packets: Packets,
    /// Whether no operand at all is enough, and whether a single one is: local, remote, switch.
    pub(super) none: bool,
    pub(super) one: [bool; 3],
}

/// Minimum and maximum.
pub(super) type Count = (usize, usize);

/// Which operands of a side are packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Packets {
    Nothing,
    All,
    /// All but the first.
    Rest,
}

impl Packets {
    /// Returns whether the operand at a position of the side is packets.
    pub(super) const fn at(self, position: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Rest => position > 0,
        }
    }
}

const MANY: usize = usize::MAX;
const NOTHING: Side = side((0, 0), (0, 0), (0, 0), Packets::Nothing);

const fn side(local: Count, remote: Count, switch: Count, packets: Packets) -> Side {
    const fn fits(count: Count, given: usize) -> bool {
        count.0 <= given && given <= count.1
    }
    let none = [fits(local, 0), fits(remote, 0), fits(switch, 0)];
    let one = [
        fits(local, 1) && none[1] && none[2],
        fits(remote, 1) && none[0] && none[2],
        fits(switch, 1) && none[0] && none[1],
    ];
    Side { local, remote, switch, packets, none: none[0] && none[1] && none[2], one }
}

const fn local(least: usize, most: usize, packets: Packets) -> Side {
    side((least, most), (0, 0), (0, 0), packets)
}

const fn remote(least: usize, most: usize, packets: Packets) -> Side {
    side((0, 0), (least, most), (0, 0), packets)
}

const fn result_and_remotes(locals: usize, packets: Packets) -> Side {
    side((locals, locals), (1, MANY), (0, 0), packets)
}

const WINDOW: Side = side((0, 0), (0, 0), (1, 1), Packets::Nothing);

/// Returns the requirements of a kind.
pub(super) fn demand(kind: OpKind) -> &'static Demand {
    &DEMANDS[kind as usize]
}

/// By kind.
static DEMANDS: [Demand; OpKind::ALL.len()] = {
    let mut all = [const { of(OpKind::Nop) }; OpKind::ALL.len()];
    let mut number = 0;
    while number < all.len() {
        all[number] = of(OpKind::ALL[number]);
        number += 1;
    }
    all
};

const fn of(kind: OpKind) -> Demand {
    use ChannelKind::{Memory, Port, Switch};
    use OpKind as K;
    use Packets::{All, Nothing, Rest};
    let (channels, ids, srcs, dsts): (&'static [ChannelKind], _, _, _) = match kind {
        K::Nop | K::Pipeline => (&[], Ids::Nothing, NOTHING, NOTHING),
        K::Barrier => (&[], Ids::Barrier, NOTHING, NOTHING),
        K::SemaphoreAcquire | K::SemaphoreRelease => (&[], Ids::Semaphores, NOTHING, NOTHING),
        K::Signal | K::Wait | K::RelaxedSignal | K::RelaxedWait => (&[Memory, Port], Ids::Channels, NOTHING, NOTHING),
        K::Flush => (&[Port], Ids::Channels, NOTHING, NOTHING),
        K::Copy => (&[], Ids::Nothing, local(1, 1, Nothing), local(1, 1, Nothing)),
        K::CopyPackets => (&[], Ids::Nothing, local(1, 1, Nothing), local(1, 1, All)),
        K::UnpackPackets => (&[], Ids::Nothing, local(1, 1, All), local(1, 1, Nothing)),
        K::Put => (&[Memory, Port], Ids::ChannelPerPortDestination, local(1, MANY, Nothing), remote(1, MANY, Nothing)),
        K::PutWithSignal | K::PutWithSignalAndFlush => {
            (&[Port], Ids::ChannelPerPortDestination, local(1, MANY, Nothing), remote(1, MANY, Nothing))
        }
        // Over ports the sources are packets too; `operation::check` verifies that.
        K::PutPackets => {
            (&[Memory, Port], Ids::ChannelPerPortDestination, local(1, MANY, Nothing), remote(1, MANY, All))
        }
        K::ReadPutPackets => (&[Memory, Port], Ids::ChannelPerPortDestination, local(1, 1, All), remote(1, MANY, All)),
        K::Get => (&[Memory], Ids::ChannelPerPair, remote(1, MANY, Nothing), local(1, MANY, Nothing)),
        K::Reduce => (&[], Ids::Nothing, local(2, MANY, Nothing), local(1, 1, Nothing)),
        K::ReduceSend => (&[Memory], Ids::Nothing, local(2, MANY, Nothing), result_and_remotes(1, Nothing)),
        K::ReadReduce => (&[Memory], Ids::Nothing, result_and_remotes(1, Nothing), local(1, 1, Nothing)),
        K::ReadReduceSend => (&[Memory], Ids::Nothing, result_and_remotes(1, Nothing), result_and_remotes(1, Nothing)),
        K::ReducePackets => (&[], Ids::Nothing, local(2, MANY, Rest), local(1, 1, Nothing)),
        K::ReduceSendPackets => (&[Memory], Ids::Nothing, local(2, MANY, Rest), result_and_remotes(1, Rest)),
        K::ReduceCopyPackets => (&[], Ids::Nothing, local(2, MANY, Rest), local(2, 2, Rest)),
        K::ReduceCopySendPackets => (&[Memory], Ids::Nothing, local(2, MANY, Rest), result_and_remotes(2, Rest)),
        K::SwitchReduce => (&[Switch], Ids::Nothing, WINDOW, local(1, 1, Nothing)),
        K::SwitchReduceBroadcast => (&[Switch], Ids::Nothing, WINDOW, WINDOW),
        K::SwitchBroadcast => (&[Switch], Ids::Nothing, local(1, 1, Nothing), WINDOW),
        K::SwitchBroadcastPackets => (&[Switch], Ids::Nothing, local(1, 1, All), side((0, 0), (0, 0), (1, 1), All)),
    };
    Demand { channels, ids, srcs, dsts }
}
