//! The rule of the reference implementation: the `nop`s of its plans.

use super::super::access::{Access, Form, accesses};
use super::segments::Segments;
use crate::plan::{BufferRef, Op};
use crate::types::{BufferKind, ChannelKind};

/// The last access to every chunk since the last sync.
///
/// Only the last access is kept, so a read is forgotten when a later operation reads the chunk too; and a conflict
/// discards what the conflicting operation itself had recorded before. Input and output are always two buffers here.
#[derive(Default)]
pub(super) struct ReferenceRule {
    last: [Segments<Last>; BufferKind::ALL.len()],
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Last {
    op: usize,
    write: bool,
}

impl ReferenceRule {
    pub(super) fn clear(&mut self) {
        self.last.iter_mut().for_each(Segments::clear);
    }

    /// Records the accesses of the operation with this number. Returns whether they conflict with recorded ones.
    pub(super) fn note(&mut self, op: &Op, number: usize) -> bool {
        if let Some(body) = &op.body {
            return body.ops.iter().fold(false, |conflict, inner| self.note(inner, number) | conflict);
        }
        let mut conflict = false;
        for access in accesses(op).filter(|access| counts(op, access)) {
            let BufferRef::Local(buffer) = access.range.buffer else {
                continue;
            };
            let start = access.range.index;
            // A later check rejects what is beyond the last number.
            let end = start.saturating_add(access.range.size);
            if start == end {
                continue;
            }
            let new = Last { op: number, write: access.write };
            let last = &self.last[buffer as usize];
            if last.overlapping(start, end).iter().any(|old| old.value.op != number && (old.value.write || new.write)) {
                conflict = true;
                self.clear();
            }
            self.last[buffer as usize].set(start, end, new);
        }
        conflict
    }
}

/// Returns whether the reference implementation counts an access: plain data, on operations without a switch channel.
/// Of a packet reduction it counts the destination only. A port's put of packets counts as a read.
fn counts(op: &Op, access: &Access) -> bool {
    let plain = access.form == Form::Plain || !op.kind.awaits_packets(op.channel == Some(ChannelKind::Port));
    let reduces_packets = op.kind.is_reduce() && op.kind.has_packets();
    let through_switch = op.channel == Some(ChannelKind::Switch);
    plain && !through_switch && (access.write || !reduces_packets)
}
