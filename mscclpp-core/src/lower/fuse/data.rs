//! Fusion of data operations.

use super::Scope;
use crate::plan::{Op, OpKind};
use crate::types::ChannelKind;

/// Tries to merge `b` into `a`; returns whether `b` was merged.
///
/// The result does what both did, one after the other: a fusion that would change the result in memory is not done.
pub(super) fn try_fuse(a: &mut Op, b: &mut Op, scope: &Scope) -> bool {
    use OpKind as K;
    if !a.kind.is_data()
        || !b.kind.is_data()
        || a.slice != b.slice
        || b.srcs.is_empty()
        || b.dsts.is_empty()
        || a.srcs.is_empty()
        || a.dsts.is_empty()
    {
        return false;
    }
    let kind = match (a.kind, b.kind) {
        (K::Get, K::Get) if pairs(a, b) => K::Get,
        (K::Put | K::PutPackets, kind) if kind == a.kind && pairs(a, b) && one_source_buffer(a, b) => kind,
        // The pairs of a put are unordered, so two signals of one operation on one channel could announce each other's
        // data.
        (K::PutWithSignal | K::PutWithSignalAndFlush, kind) if kind == a.kind && pairs(a, b) && disjoint(a, b) => kind,
        (K::ReadPutPackets, K::ReadPutPackets) if a.srcs == b.srcs && a.channel == b.channel => {
            b.srcs.clear();
            K::ReadPutPackets
        }
        (K::Reduce | K::ReducePackets | K::ReadReduce, kind) if kind == a.kind && accumulates(a, b, scope) => {
            b.srcs.remove(0);
            b.dsts.clear();
            kind
        }
        (K::Reduce | K::ReduceSend, K::Put) if sends_result(a, b, 0) => K::ReduceSend,
        (K::ReadReduce | K::ReadReduceSend, K::Put) if sends_result(a, b, 0) => K::ReadReduceSend,
        (K::ReducePackets | K::ReduceSendPackets, K::PutPackets) if sends_result(a, b, 0) => K::ReduceSendPackets,
        (K::ReduceCopyPackets | K::ReduceCopySendPackets, K::PutPackets) if sends_result(a, b, 0) => {
            K::ReduceCopySendPackets
        }
        (K::ReduceCopyPackets | K::ReduceCopySendPackets, K::ReadPutPackets) if sends_result(a, b, 1) => {
            K::ReduceCopySendPackets
        }
        (K::ReducePackets, K::CopyPackets) if b.srcs[0] == a.dsts[0] => {
            b.srcs.clear();
            K::ReduceCopyPackets
        }
        (K::SwitchReduce, K::SwitchBroadcast) if stores_result(a, b, scope) => {
            a.dsts.clear();
            b.srcs.clear();
            b.ids.clear();
            K::SwitchReduceBroadcast
        }
        _ => return false,
    };
    if matches!(b.kind, K::Put | K::PutPackets | K::ReadPutPackets) && a.kind.is_reduce() {
        b.srcs.clear();
        a.channel = b.channel;
    }
    a.kind = kind;
    append(&mut a.srcs, &b.srcs);
    append(&mut a.dsts, &b.dsts);
    append(&mut a.ids, &b.ids);
    true
}

/// Minimum additional capacity of a list that is full.
const MIN_CAPACITY: usize = 7;

/// Adds items to a list, mostly a single one.
pub(super) fn append<A: smallvec::Array<Item: Copy>>(list: &mut smallvec::SmallVec<A>, more: &[A::Item]) {
    // An operation that was fused once mostly is again.
    if list.len() + more.len() > list.capacity() {
        list.reserve(MIN_CAPACITY.max(more.len()));
    }
    more.iter().for_each(|item| list.push(*item));
}

/// Returns whether two lists of pairs can be one: same kind of channel, chunks of one size.
fn pairs(a: &Op, b: &Op) -> bool {
    a.channel == b.channel && a.srcs[0].size == b.srcs[0].size
}

/// Returns whether one base address is enough for the sources of a put through memory. Ports address every source
/// separately.
fn one_source_buffer(a: &Op, b: &Op) -> bool {
    a.channel != Some(ChannelKind::Memory) || a.srcs[0].buffer == b.srcs[0].buffer
}

fn disjoint(a: &Op, b: &Op) -> bool {
    !b.ids.iter().any(|id| a.ids.contains(id))
}

/// Returns whether `b` adds further sources to the result of `a`, in place, without reading that result as a source
/// once more.
fn accumulates(a: &Op, b: &Op, scope: &Scope) -> bool {
    let total = a.dsts[0];
    a.channel == b.channel
        && a.reduce == b.reduce
        && a.dsts == b.dsts
        && b.srcs[0] == total
        && !b.srcs[1..].iter().any(|source| scope.overlap(source, &total))
}

/// Returns whether `b` sends, through memory, exactly what `a` leaves in its destination number `position`.
fn sends_result(a: &Op, b: &Op, position: usize) -> bool {
    b.channel == Some(ChannelKind::Memory)
        && a.dsts.get(position).is_some_and(|result| b.srcs.iter().all(|source| source == result))
}

/// Returns whether `b` stores, through the switch channel from which `a` loads, what `a` leaves in its destination, and
/// no operation reads that destination afterward.
fn stores_result(a: &Op, b: &Op, scope: &Scope) -> bool {
    let (window, result) = (a.srcs[0], a.dsts[0]);
    b.srcs[0] == result
        && b.dsts[0].buffer == window.buffer
        && b.dsts[0].size == window.size
        && scope.dead.can_drop(scope.rank, &result, &b.dsts[0])
}
