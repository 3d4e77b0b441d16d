//! What an operation reads and writes.

use crate::plan::{Op, OpKind, Operand};
use crate::types::ChannelKind;

/// How memory holds what an access touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Elements.
    Plain,
    /// Data beside flags. Reading waits for the flag, so a read orders itself behind its write.
    Packets,
}

/// One reference of an operation with what is done to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// The range: local, remote or a switch window.
    pub(super) range: Operand,
    /// Whether it is written.
    pub(super) write: bool,
    /// How it is held.
    pub(super) form: Form,
}

/// All accesses of a data operation: reads before writes, each in the order of the references. Nothing for others.
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
        // A port moves bytes as they are: what it puts as packets must already be packets.
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
