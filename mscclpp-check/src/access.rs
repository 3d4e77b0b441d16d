//! Accesses of an operation to buffers, on any rank.

use super::place::{LocatedOp, canonical_buffer, remotes, switch};
use mscclpp_plan::diag::Site;
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

/// Returns the location of a finding about an operation's access to a chunk of a rank's buffer: the operand that names the
/// chunk, or the operation, if none does.
pub(super) fn access_site(plan: &PlanTree, at: &LocatedOp, write: bool, chunk: (u32, BufferKind, u64)) -> Site {
    let (owner, buffer, chunk) = chunk;
    let place = |buffer, chunk| canonical_buffer(plan, owner, buffer, chunk);
    let Ok(chunk) = u32::try_from(chunk) else { return at.site(plan) };
    let wanted = place(buffer, chunk);
    let mut found = None;
    accesses(plan, at, &mut |access| {
        let Operand { index, size, .. } = access.range;
        let names = || {
            let (buffer, first) = place(access.buffer, index);
            buffer == wanted.0 && (first..first.saturating_add(size)).contains(&wanted.1)
        };
        if found.is_none() && access.write == write && access.owner == owner && names() {
            found = Some(access.range);
        }
    });
    found.map_or_else(|| at.site(plan), |operand| at.operand_site(plan, &operand))
}
