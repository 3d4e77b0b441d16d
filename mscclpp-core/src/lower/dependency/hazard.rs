//! Hazards: accesses by which different threads of a block may access one element unordered.

use super::super::access::{Access, Form, accesses};
use super::Scope;
use super::segments::{Segment, Segments};
use crate::plan::raw::Grain;
use crate::plan::{BufferRef, Op, Slice};
use crate::types::{BufferKind, ChannelKind};

/// The reads and writes of every chunk since the last sync.
///
/// Input and output of an in-place collective are one buffer. Packets in scratch are a separate buffer: plain data and
/// packets never share scratch, and a packet chunk's bytes are not those of the plain chunk of its number.
#[derive(Default)]
pub(super) struct HazardRule {
    memories: [Segments<Touched>; MEMORIES],
}

const MEMORIES: usize = BufferKind::ALL.len() + 1;
const PACKETS: usize = BufferKind::ALL.len();

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Touched {
    read: By,
    written: By,
}

/// The threads that accessed an element.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum By {
    #[default]
    None,
    /// The threads of one mapping.
    Threads(Mapping),
    Unknown,
}

/// How an operation assigns the elements of a range to the threads of its block. Accesses of equal mappings access
/// every element in the same thread, hence in order.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mapping {
    grain: Grain,
    start: u32,
    end: u32,
    slice: Option<Slice>,
    /// Bytes per iteration, seen from outside of a pipeline; 0 for a whole range at once.
    window: u64,
}

/// An access with its buffer and range.
struct Placed {
    memory: usize,
    start: u32,
    end: u32,
    write: bool,
    /// Whether the access waits for its data.
    waits: bool,
    by: By,
}

impl HazardRule {
    pub(super) fn clear(&mut self) {
        self.memories.iter_mut().for_each(Segments::clear);
    }

    /// Returns whether an operation's accesses, or those at the beginning of a pipeline's body, conflict with recorded
    /// ones.
    pub(super) fn conflicts(&self, op: &Op, scope: &Scope) -> bool {
        any(op, before_syncs, scope, &mut |placed| {
            self.memories[placed.memory].overlapping(placed.start, placed.end).iter().any(
                |Segment { value: touched, .. }| {
                    let apart = |by: By| by != By::None && (by == By::Unknown || by != placed.by);
                    apart(touched.written) && !placed.waits || placed.write && apart(touched.read)
                },
            )
        })
    }

    /// Records an operation's accesses.
    pub(super) fn note(&mut self, op: &Op, scope: &Scope) {
        any(op, after_syncs, scope, &mut |placed| {
            self.touch(&placed);
            false
        });
    }

    fn touch(&mut self, placed: &Placed) {
        self.memories[placed.memory].update(placed.start, placed.end, |before| {
            let mut touched = before.unwrap_or_default();
            let by = if placed.write { &mut touched.written } else { &mut touched.read };
            *by = if *by == By::None || *by == placed.by { placed.by } else { By::Unknown };
            touched
        });
    }
}

/// Returns whether `test` holds for any access of an operation to the rank's own memory, or of that `part` of a
/// pipeline's body.
fn any(op: &Op, part: fn(&[Op]) -> &[Op], scope: &Scope, test: &mut impl FnMut(Placed) -> bool) -> bool {
    let (ops, window) = match &op.body {
        Some(body) => (part(&body.ops), body.unit.max(1)),
        None => (std::slice::from_ref(op), 0),
    };
    ops.iter().any(|op| accesses(op).any(|access| place(op, &access, window, scope).is_some_and(&mut *test)))
}

/// Returns the operations of a body before its first block sync: all others are after a sync.
fn before_syncs(body: &[Op]) -> &[Op] {
    &body[..body.iter().position(has_block_sync).unwrap_or(body.len())]
}

/// Returns the operations of a body after its last block sync.
fn after_syncs(body: &[Op]) -> &[Op] {
    &body[body.iter().rposition(has_block_sync).unwrap_or(0)..]
}

/// Returns whether an operation contains a block sync, before or after it if it accesses no memory, and before it
/// otherwise.
fn has_block_sync(op: &Op) -> bool {
    op.kind.is_block_sync() || op.sync.is_before() || op.kind.is_sync() && op.sync.is_after()
}

/// Returns the location of an access; `None` for another rank's memory and for empty ranges.
fn place(op: &Op, access: &Access, window: u64, scope: &Scope) -> Option<Placed> {
    let buffer = match access.range.buffer {
        BufferRef::Local(buffer) => buffer,
        BufferRef::Remote(_) => return None,
        // A switch channel's window includes the rank's own buffer.
        BufferRef::Switch(number) => *scope.windows.get(number as usize)?,
    };
    let collective = &scope.collective;
    let (memory, start) = match access.form {
        Form::Packets => (PACKETS, access.range.index),
        Form::Plain => {
            let (buffer, index) =
                collective.canonical_chunk(scope.rank, buffer, access.range.index, collective.chunk_factor);
            (buffer as usize, index)
        }
    };
    // A later check rejects what is beyond the last number.
    let end = start.saturating_add(access.range.size);
    if start == end {
        return None;
    }
    let mapping = Mapping { grain: op.kind.grain(), start, end, slice: op.slice, window };
    Some(Placed {
        memory,
        start,
        end,
        write: access.write,
        waits: access.form == Form::Packets
            && !access.write
            && op.kind.awaits_packets(op.channel == Some(ChannelKind::Port)),
        by: if keeps_threads(op, scope) { By::Threads(mapping) } else { By::Unknown },
    })
}

/// Returns whether the range determines which thread accesses an element. Ports access memory from outside of the
/// block, and all threads of a row norm read all of a row.
fn keeps_threads(op: &Op, scope: &Scope) -> bool {
    op.channel != Some(ChannelKind::Port) && op.kind.grain() != Grain::Row && scope.vectors_keep_threads
}
