//! Accesses of an operation.

use crate::plan::{Op, OpKind, Operand};
use crate::types::ChannelKind;

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
    let reads = srcs.iter().enumerate().map(|(i, range)| (*range, false, source_form(op, i)));
    let writes = dsts.iter().enumerate().map(|(i, range)| (*range, true, destination_form(op.kind, i)));
    reads.chain(writes).map(|(range, write, form)| Access { range, write, form })
}

fn source_form(op: &Op, position: usize) -> Form {
    use OpKind as K;
    match op.kind {
        K::UnpackPackets | K::ReadPutPackets | K::SwitchBroadcastPackets => Form::Packets,
        // A port moves bytes unchanged: the source of a packet put must already contain packets.
        K::PutPackets if op.channel == Some(ChannelKind::Port) => Form::Packets,
        K::ReducePackets | K::ReduceSendPackets | K::ReduceCopyPackets | K::ReduceCopySendPackets if position > 0 => {
            Form::Packets
        }
        _ => Form::Plain,
    }
}

fn destination_form(kind: OpKind, position: usize) -> Form {
    use OpKind as K;
    match kind {
        K::CopyPackets | K::PutPackets | K::ReadPutPackets | K::SwitchBroadcastPackets => Form::Packets,
        K::ReduceSendPackets | K::ReduceCopyPackets | K::ReduceCopySendPackets if position > 0 => Form::Packets,
        _ => Form::Plain,
    }
}
