//! Accesses of an operation.

use crate::plan::raw::Packets;
use crate::plan::{Op, Operand};

/// Format of the data of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Elements.
    Plain,
    /// Data with flags. A read waits for the flag, so it is ordered after its write.
    Packets,
}

/// One operand of an operation with its access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// The range: local, remote or a switch window.
    pub(super) range: Operand,
    /// Whether it is written.
    pub(super) write: bool,
    /// Its format.
    pub(super) form: Form,
}

/// Returns all accesses of a data operation: reads before writes, each in the order of the operands. None for other
/// operations.
pub(super) fn accesses(op: &Op) -> impl Iterator<Item = Access> {
    let (srcs, dsts): (&[Operand], &[Operand]) = if op.kind.is_data() { (&op.srcs, &op.dsts) } else { (&[], &[]) };
    let form = |packets: Packets, position| if packets.at(position) { Form::Packets } else { Form::Plain };
    let (read, written) = (op.kind.source_packets(op.channel), op.kind.dsts().packets);
    let reads = srcs.iter().enumerate().map(move |(i, range)| (*range, false, form(read, i)));
    let writes = dsts.iter().enumerate().map(move |(i, range)| (*range, true, form(written, i)));
    reads.chain(writes).map(|(range, write, form)| Access { range, write, form })
}
