//! What an operation does to memory, on whichever rank.

use super::place::{Placed, remotes, switch};
use super::shape::{Packets, demand};
use crate::plan::{OpKind, Place, PlanTree, Ref};
use crate::vocab::{BufferKind, ChannelKind};

/// One range of one rank's buffer that an operation reads or writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect {
    pub(super) owner: u32,
    pub(super) buffer: BufferKind,
    /// Position of the reference on its side of the operation.
    pub(super) position: usize,
    /// The chunks, and the slice of them, as in the reference, of the instance that is looked at.
    pub(super) range: Ref,
    pub(super) write: bool,
    /// Whether the range holds packets.
    pub(super) packets: bool,
}

/// Calls `visit` with every effect of an operation, reads first. A switch reference touches every member's buffer.
///
/// The plan has passed the shape rule; what cannot be looked up is left out.
pub(super) fn effects(plan: &PlanTree, at: &Placed, visit: &mut impl FnMut(Effect)) {
    let op = at.op;
    if !op.kind.is_data() {
        return;
    }
    let demand = demand(op.kind);
    let port = op.channel == Some(ChannelKind::Port);
    let remote = remotes(plan, at);
    for (list, packets, write) in [(&op.srcs, demand.srcs.packets, false), (&op.dsts, demand.dsts.packets, true)] {
        for (position, range) in list.iter().enumerate() {
            let packets = match packets {
                Packets::Nothing => port && op.kind == OpKind::PutPackets,
                Packets::All => true,
                Packets::Rest => position > 0,
            };
            let mut emit =
                |owner, buffer| visit(Effect { owner, buffer, position, range: at.range(range), write, packets });
            match range.place {
                Place::Local(buffer) => emit(at.rank as u32, buffer),
                Place::Remote(index) => {
                    if let Some(remote) = remote(index) {
                        emit(remote.rank, remote.buffer);
                    }
                }
                Place::Switch(index) => {
                    if let Some((buffer, group)) = switch(plan, at, index) {
                        group.iter().for_each(|&member| emit(member, buffer));
                    }
                }
            }
        }
    }
}
