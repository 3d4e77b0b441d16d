//! Accesses of an operation to buffers, on any rank.

use super::place::{LocatedOp, remotes, switch};
use mscclpp_plan::raw::{BufferRef, Operand, Packets, PlanTree};
use mscclpp_plan::types::BufferKind;

/// One range of one rank's buffer that an operation reads or writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) owner: u32,
    pub(super) buffer: BufferKind,
    /// Position of the operand among the operation's sources or destinations.
    pub(super) position: usize,
    /// The chunks, and the slice of them, as in the operand, in the numbering of the instance.
    pub(super) range: Operand,
    pub(super) write: bool,
    /// Whether the range holds packets.
    pub(super) packets: bool,
}

/// Calls `visit` with every access of an operation, reads first. A switch operand accesses every member's buffer.
///
/// The plan has passed the shape rule; operands that cannot be resolved are skipped.
pub(super) fn accesses(plan: &PlanTree, at: &LocatedOp, visit: &mut impl FnMut(Access)) {
    let op = at.op;
    if !op.kind.is_data() {
        return;
    }
    let remote = remotes(plan, at);
    let mut side = |list: &[Operand], packets: Packets, write: bool| {
        for (position, range) in list.iter().enumerate() {
            let own = at.rank as u32;
            let (buffer, owners) = match range.buffer {
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
    side(&op.srcs, op.kind.source_packets(op.channel), false);
    side(&op.dsts, op.kind.dsts().packets, true);
}
