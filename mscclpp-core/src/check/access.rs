//! What an operation does to memory, on whichever rank.

use super::place::{LocatedOp, remotes, switch};
use super::shape::{Packets, demand};
use crate::plan::{BufferRef, OpKind, Operand, PlanTree};
use crate::types::{BufferKind, ChannelKind};

/// One range of one rank's buffer that an operation reads or writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) owner: u32,
    pub(super) buffer: BufferKind,
    /// Position of the reference on its side of the operation.
    pub(super) position: usize,
    /// The chunks, and the slice of them, as in the reference, of the instance that is looked at.
    pub(super) range: Operand,
    pub(super) write: bool,
    /// Whether the range holds packets.
    pub(super) packets: bool,
}

/// Calls `visit` with every effect of an operation, reads first. A switch reference touches every member's buffer.
///
/// The plan has passed the shape rule; what cannot be looked up is left out.
pub(super) fn accesses(plan: &PlanTree, at: &LocatedOp, visit: &mut impl FnMut(Access)) {
    let op = at.op;
    if !op.kind.is_data() {
        return;
    }
    let demand = demand(op.kind);
    let port = op.channel == Some(ChannelKind::Port);
    let remote = remotes(plan, at);
    let port_packets = port && op.kind == OpKind::PutPackets;
    let read = if port_packets { Packets::All } else { demand.srcs.packets };
    let mut side = |list: &[Operand], packets: Packets, write: bool| {
        for (position, range) in list.iter().enumerate() {
            let own = at.rank as u32;
            let (buffer, owners) = match range.place {
                BufferRef::Local(buffer) => (buffer, std::slice::from_ref(&own)),
                BufferRef::Remote(index) => match remote(index) {
                    Some(remote) => (remote.buffer, std::slice::from_ref(&remote.rank)),
                    None => continue,
                },
                BufferRef::Switch(index) => match switch(plan, at, index) {
                    Some(window) => window,
                    None => continue,
                },
            };
            let (range, packets) = (at.range(range), packets.at(position));
            for &owner in owners {
                visit(Access { owner, buffer, position, range, write, packets });
            }
        }
    };
    side(&op.srcs, read, false);
    side(&op.dsts, demand.dsts.packets, true);
}
