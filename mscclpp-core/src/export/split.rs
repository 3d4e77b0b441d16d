//! Splits operations that are longer than the reference executor's arrays.

use smallvec::smallvec;

use crate::check::limits::DeviceProfile;
use crate::plan::raw::{Flow, OpClass};
use crate::plan::{Ids, Op, OpKind, Operand, Operands};
use crate::types::ChannelKind;

const ROOM: DeviceProfile = DeviceProfile::REFERENCE;

/// Splits all operations that can be split, bodies of pipelines included. The parts follow one another without a sync,
/// because the entries of one operation are not synchronized either.
pub(super) fn ops(list: &mut Vec<Op>) {
    let mut out = Vec::with_capacity(list.len());
    for mut op in list.drain(..) {
        if let Some(body) = &mut op.body {
            ops(&mut body.ops);
        }
        split(op, &mut out);
    }
    *list = out;
}

fn split(op: Op, out: &mut Vec<Op>) {
    match op.kind.class() {
        OpClass::Signal { .. } | OpClass::Wait { .. } | OpClass::Flush => by_ids(op, ROOM.max_channels_per_op, out),
        OpClass::Acquire | OpClass::Release => by_ids(op, ROOM.max_semaphores, out),
        OpClass::Data(..) if op.channel == Some(ChannelKind::Switch) => out.push(op),
        OpClass::Data(Flow::Pairs, _) => pairs(op, out),
        OpClass::Data(Flow::All, _) if !op.kind.is_reduce() => copies(op, out),
        OpClass::Data(Flow::All, _) => {
            let (plain, most) = match op.kind {
                kind if kind.has_packets() => (OpKind::ReducePackets, ROOM.max_operands),
                kind if kind.srcs().remote.1 > 0 => (OpKind::ReadReduce, 1 + ROOM.max_channels_per_op),
                _ => (OpKind::Reduce, ROOM.max_operands),
            };
            sources(op, plain, most, out);
        }
        OpClass::BlockSync | OpClass::Barrier | OpClass::Pipeline | OpClass::ExchangeCounts => out.push(op),
    }
}

fn by_ids(op: Op, most: usize, out: &mut Vec<Op>) {
    if op.ids.len() <= most {
        return out.push(op);
    }
    out.extend(op.ids.chunks(most).map(|ids| Op { ids: Ids::from_slice(ids), ..op.clone() }));
}

/// Splits an operation that processes source i, destination i and channel i independently of the others.
fn pairs(op: Op, out: &mut Vec<Op>) {
    let paired = op.srcs.len() == op.dsts.len() && (op.ids.is_empty() || op.ids.len() == op.srcs.len());
    // The reference executor uses the base address of the first source for all sources.
    let one_base = matches!(op.kind, OpKind::Put | OpKind::PutPackets) && op.channel == Some(ChannelKind::Memory);
    let ends = |start: usize| {
        let same = |at: &&Operand| !one_base || at.buffer == op.srcs[start].buffer;
        start + op.srcs[start..].iter().take(ROOM.max_channels_per_op).take_while(same).count()
    };
    if !paired || op.srcs.is_empty() || ends(0) == op.srcs.len() {
        return out.push(op);
    }
    let mut start = 0;
    while start < op.srcs.len() {
        let end = ends(start);
        let mut piece = Op {
            srcs: Operands::from_slice(&op.srcs[start..end]),
            dsts: Operands::from_slice(&op.dsts[start..end]),
            ..op.clone()
        };
        if !op.ids.is_empty() {
            piece.ids = Ids::from_slice(&op.ids[start..end]);
        }
        out.push(piece);
        start = end;
    }
}

/// Splits an operation that writes one source to every destination.
fn copies(op: Op, out: &mut Vec<Op>) {
    let listed = op.ids.is_empty() || op.ids.len() == op.dsts.len();
    if op.dsts.len() <= ROOM.max_channels_per_op || !listed {
        return out.push(op);
    }
    let mut ids = op.ids.chunks(ROOM.max_channels_per_op);
    for dsts in op.dsts.chunks(ROOM.max_channels_per_op) {
        let ids = ids.next().map(Ids::from_slice).unwrap_or_default();
        out.push(Op { dsts: Operands::from_slice(dsts), ids, ..op.clone() });
    }
}

/// Splits a reduction. All parts but the last are of the plain kind and leave their result in the first destination,
/// from which the next part continues; a separate put sends what the last part has no room for.
fn sources(op: Op, plain: OpKind, most: usize, out: &mut Vec<Op>) {
    let Some(&result) = op.dsts.first() else { return out.push(op) };
    let later = op.srcs.get(most..).unwrap_or_default();
    if later.iter().any(|at| overlap(at, &result)) {
        // A part would read what an earlier part has written.
        return out.push(op);
    }
    let mut last = op;
    while last.srcs.len() > most {
        let rest = last.srcs.split_off_at(most);
        let mut piece = Op { kind: plain, dsts: smallvec![result], ..last.clone() };
        piece.channel = piece.channel.filter(|_| plain == OpKind::ReadReduce);
        out.push(piece);
        last.srcs = std::iter::once(result).chain(rest).collect();
    }
    let local = last.dsts.iter().take_while(|at| !at.is_remote()).count();
    let kept = last.dsts.len().min(local + ROOM.max_channels_per_op);
    let rest = last.dsts.split_off_at(kept);
    let put = if last.kind.has_packets() { OpKind::PutPackets } else { OpKind::Put };
    let piece = |dsts: &[Operand]| Op {
        kind: put,
        reduce: None,
        srcs: Operands::from_elem(result, dsts.len()),
        dsts: Operands::from_slice(dsts),
        ..last.clone()
    };
    let puts: Vec<Op> = rest.chunks(ROOM.max_channels_per_op).map(piece).collect();
    // Reductions and puts assign elements to the same threads only if there is no tail.
    let sync = (!puts.is_empty()).then(|| Op::new(OpKind::Nop, last.origin));
    out.push(last);
    out.extend(sync.into_iter().chain(puts));
}

/// Returns whether two operands of one block may name the same chunk.
fn overlap(a: &Operand, b: &Operand) -> bool {
    let end = |at: &Operand| u64::from(at.index) + u64::from(at.size);
    a.buffer == b.buffer && u64::from(a.index) < end(b) && u64::from(b.index) < end(a)
}

/// `Vec::split_off` for a small vector.
trait SplitOff {
    fn split_off_at(&mut self, at: usize) -> Self;
}

impl SplitOff for Operands {
    fn split_off_at(&mut self, at: usize) -> Self {
        self.drain(at.min(self.len())..).collect()
    }
}
