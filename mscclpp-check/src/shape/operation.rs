//! Checks of one operation against the requirements of its kind and the tables of its plan.

use std::fmt::Write;

use smallvec::SmallVec;

use super::super::place::{LocatedOp, remotes, switch};
use super::{Findings, overlap};
use mscclpp_plan::diag::{Code, Diagnostic};
use mscclpp_plan::raw::{BufferRef, Count, Flow, IdList, Op, OpKind, Operand, PlanTree, RemoteBuffer, Side};
use mscclpp_plan::types::{BlockSync, BufferKind};

/// Reports the first finding about an operation.
pub(super) fn check(plan: &PlanTree, at: &LocatedOp, found: &mut Findings) {
    if at.op.kind == OpKind::Nop && is_bare(at.op) {
        return;
    }
    let verdict = kind(plan, at)
        .and_then(|()| counts(plan, at))
        .and_then(|()| ids(plan, at))
        .and_then(|()| loops(plan, at))
        // An operation that moves no data has no operands, as their number has been checked.
        .and_then(|()| if at.op.kind.is_data() { data(plan, at) } else { Ok(()) });
    if let Err((code, message)) = verdict {
        let message = format!("{} ({}) {message}", at.display_name(plan), at.agent());
        found.push(Diagnostic::new(code, at.site(plan), message));
    }
}

/// Returns whether an operation has only its kind.
fn is_bare(op: &Op) -> bool {
    (op.channel, op.reduce, op.sync, op.slice, op.count, op.num_blocks) == (None, None, BlockSync::None, None, None, 0)
        && op.srcs.is_empty()
        && op.dsts.is_empty()
        && op.ids.is_empty()
        && op.body.is_none()
}

fn data(plan: &PlanTree, at: &LocatedOp) -> Verdict {
    references(plan, at).and_then(|()| channels(plan, at)).and_then(|()| overlap::check(plan, at))
}

pub(super) type Verdict = Result<(), (Code, String)>;

pub(super) fn bad<T>(code: Code, message: String) -> Result<T, (Code, String)> {
    Err((code, message))
}

/// Checks the attributes that belong to some kinds only.
fn kind(plan: &PlanTree, at: &LocatedOp) -> Verdict {
    let op = at.op;
    let channels = op.kind.channels();
    let fits = match op.channel {
        Some(kind) => channels.contains(&kind),
        None => channels.is_empty(),
    };
    if !fits {
        let mut expected = String::new();
        for (i, kind) in channels.iter().enumerate() {
            let _ = write!(expected, "{}{kind}", if i > 0 { " or " } else { "" });
        }
        let expected = if expected.is_empty() { "none".to_owned() } else { expected };
        let given = op.channel.map_or("none".to_owned(), |kind| kind.to_string());
        return bad(Code::BadOperands, format!("uses channel type {given}, expected {expected}"));
    }
    if op.reduce.is_some() != op.kind.is_reduce() {
        let message = if op.kind.is_reduce() {
            "has no reduction operation"
        } else {
            "has a reduction operation, but does not reduce"
        };
        return bad(Code::BadOperands, message.to_owned());
    }
    if op.sync != BlockSync::None {
        return bad(Code::BadOperands, "has a sync attribute, but plans represent block syncs as `nop`".to_owned());
    }
    let ranks = plan.ranks.len() as u32;
    match op.count {
        None if op.kind.is_counted() && op.kind.is_data() => {
            return bad(Code::BadOperands, "has no count".to_owned());
        }
        Some(_) if !(op.kind.is_counted() && op.kind.is_data()) => {
            return bad(Code::BadOperands, "has a count, but is not counted".to_owned());
        }
        Some(count) if count.sender.max(count.receiver) >= ranks => {
            let Count { sender, receiver } = count;
            let message = format!("has the count of ranks {sender} and {receiver}, expected ranks below {ranks}");
            return bad(Code::RankOutOfRange, message);
        }
        _ => {}
    }
    match op.slice {
        Some(_) if !op.kind.is_data() => {
            bad(Code::BadGroup, "has a slice of a thread-block group, but moves no data".to_owned())
        }
        Some(slice) if slice.index >= slice.count => bad(
            Code::BadGroup,
            format!("is slice {} of {}, expected one below {}", slice.index, slice.count, slice.count),
        ),
        _ => Ok(()),
    }
}

/// Checks the number of operands, and the buffers to which they refer.
fn counts(_: &PlanTree, at: &LocatedOp) -> Verdict {
    let kind = at.op.kind;
    side("source", &at.op.srcs, kind.srcs())?;
    side("destination", &at.op.dsts, kind.dsts())?;
    let (srcs, dsts) = (at.op.srcs.len(), at.op.dsts.len());
    if kind.flow() == Some(Flow::Pairs) && srcs != dsts {
        return bad(Code::BadOperands, format!("has {srcs} sources and {dsts} destinations, expected equally many"));
    }
    Ok(())
}

/// Returns whether an operand is local, remote or a switch's.
fn group(range: &Operand) -> usize {
    match range.buffer {
        BufferRef::Local(_) => 0,
        BufferRef::Remote(_) => 1,
        BufferRef::Switch(_) => 2,
    }
}

#[inline]
fn side(name: &str, list: &[Operand], demand: &Side) -> Verdict {
    let (mut counts, mut last, mut sorted) = ([0; 3], 0, true);
    for group in list.iter().map(group) {
        sorted &= last <= group;
        last = group;
        counts[group] += 1;
    }
    if !sorted {
        return bad(
            Code::BadOperands,
            format!("has its {name}s out of order, expected local, then remote, then switch operands"),
        );
    }
    if demand.fits(counts) {
        return Ok(());
    }
    let words = ["local", "remote", "switch"];
    for (number, ((least, most), count)) in demand.ranges().into_iter().zip(counts).enumerate() {
        if !(least..=most).contains(&count) {
            let expected = amount((least, most));
            let message = format!("has {count} {} {name}s, expected {expected}", words[number]);
            return bad(Code::BadOperands, message);
        }
    }
    Ok(())
}

fn amount((least, most): (usize, usize)) -> String {
    match most {
        0 => "none".to_owned(),
        usize::MAX => format!("{least} or more"),
        _ => least.to_string(),
    }
}

/// Checks channels, semaphores and barriers: their number, and whether they exist.
fn ids(plan: &PlanTree, at: &LocatedOp) -> Verdict {
    let op = at.op;
    let demand = op.kind.ids();
    let (expected, what) = match demand {
        IdList::Nothing => ((0, 0), "channels"),
        IdList::Channels => ((1, usize::MAX), "channels"),
        IdList::Semaphores => ((1, usize::MAX), "semaphores"),
        IdList::Barrier => ((1, 1), "barriers"),
        IdList::ChannelPerPair | IdList::ChannelPerPortDestination => {
            let count = if op.kind.lists_channels(op.channel) { op.dsts.len() } else { 0 };
            ((count, count), "channels")
        }
    };
    let count = op.ids.len();
    if !(expected.0..=expected.1).contains(&count) {
        return bad(Code::BadOperands, format!("names {count} {what}, expected {}", amount(expected)));
    }
    if count > plan.threads_per_block as usize {
        let threads = plan.threads_per_block;
        return bad(
            Code::TooFewThreads,
            format!("names {count} {what}, expected at most {threads}, one per thread of the block"),
        );
    }
    if (op.num_blocks > 0) != (demand == IdList::Barrier) {
        let message = match op.num_blocks {
            0 => "has no barrier participants".to_owned(),
            count => format!("has {count} barrier participants, but is not a barrier"),
        };
        return bad(Code::BadOperands, message);
    }
    if count == 0 {
        return Ok(());
    }
    match (demand, op.channel) {
        (IdList::Semaphores, _) => {
            let known = plan.ranks[at.rank].semaphores.len();
            match op.ids.iter().map(|&id| at.number(id)).find(|&id| id as usize >= known) {
                Some(id) => bad(Code::IndexOutOfRange, format!("names semaphore {id}, expected one below {known}")),
                None => Ok(()),
            }
        }
        (_, Some(kind)) => {
            let known = plan.ranks[at.rank].blocks[at.block].channels(kind);
            if let Some(id) = op.ids.iter().find(|&&id| id as usize >= known.len()) {
                let known = known.len();
                let message = format!("names {kind} channel {id} of its thread block, expected one below {known}");
                return bad(Code::IndexOutOfRange, message);
            }
            if demand != IdList::Channels || op.ids.len() == 1 {
                return Ok(());
            }
            let mut numbers: SmallVec<[_; 16]> = op.ids.iter().map(|&id| known[id as usize]).collect();
            if !numbers.is_sorted() {
                numbers.sort_unstable();
            }
            match numbers.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(pair) => {
                    let number = pair[0];
                    bad(Code::BadOperands, format!("names {kind} channel {number} of its rank twice"))
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn loops(plan: &PlanTree, at: &LocatedOp) -> Verdict {
    let op = at.op;
    match (&op.body, op.kind) {
        (None, OpKind::Pipeline) => return bad(Code::BadLoop, "is a pipeline without a body".to_owned()),
        (Some(_), kind) if kind != OpKind::Pipeline => {
            return bad(Code::BadLoop, "has a body, but is not a pipeline".to_owned());
        }
        _ => {}
    }
    if op.kind == OpKind::Pipeline && at.inside.is_some() {
        return bad(Code::BadLoop, "is inside another pipeline".to_owned());
    }
    if let Some(body) = &op.body {
        // Windows hold whole vectors, packets and elements of every type, so that none is divided: loops whose units
        // and spans are proportional make equally many iterations.
        let alignment = u64::from(plan.buffer_alignment.max(16));
        if body.unit == 0 || body.unit % alignment != 0 {
            let message = format!("has a unit of {} bytes, expected a positive multiple of {alignment}", body.unit);
            return bad(Code::BadLoop, message);
        }
        if body.num_chunks == 0 {
            return bad(Code::BadLoop, "covers no chunks".to_owned());
        }
    }
    let span = at.inside.and_then(|(_, pipeline)| pipeline.body.as_ref()).map(|body| body.num_chunks);
    if let Some(span) = span
        && let Some(range) = op.srcs.iter().chain(&op.dsts).find(|range| range.size != span)
    {
        let chunks = if range.size == 1 { "chunk" } else { "chunks" };
        let message = format!("has an operand of {} {chunks} in a loop with a span of {span}", range.size);
        return bad(Code::BadLoop, message);
    }
    Ok(())
}

/// Checks that chunks are inside their buffers, packets are in scratch, and operands have equally many chunks.
fn references(plan: &PlanTree, at: &LocatedOp) -> Verdict {
    let op = at.op;
    let remote = remotes(plan, at);
    let fits = |range: &Operand, packets: bool| {
        let (rank, buffer) = match range.buffer {
            BufferRef::Local(buffer) => (at.rank, buffer),
            BufferRef::Remote(index) => remote(index).map(|remote| (remote.rank as usize, remote.buffer))?,
            BufferRef::Switch(_) => return None,
        };
        let end = range.index.checked_add(range.size)?;
        let lies = end <= plan.ranks[rank].chunks(buffer) && range.size > 0;
        (lies && (!packets || buffer == BufferKind::Scratch)).then_some(())
    };
    let sides = [(&op.srcs, op.kind.source_packets(op.channel)), (&op.dsts, op.kind.dsts().packets)];
    let (mut size, mut all_equal) = (None, true);
    for (list, packets) in sides {
        for (position, range) in list.iter().enumerate() {
            let (range, packets) = (at.range(range), packets.at(position));
            // Nearly all are valid; the others need a detailed check.
            if fits(&range, packets).is_none() {
                reference(plan, at, &remote, &range, packets)?;
            }
            all_equal &= *size.get_or_insert(range.size) == range.size;
        }
    }
    if all_equal {
        return Ok(());
    }
    let unequal = if op.kind.flow() == Some(Flow::Pairs) {
        op.srcs.iter().zip(&op.dsts).map(|(src, dst)| (src.size, dst.size)).find(|(a, b)| a != b)
    } else {
        let mut sizes = op.srcs.iter().chain(&op.dsts).map(|range| range.size);
        let first = sizes.next().unwrap_or(0);
        sizes.find(|&size| size != first).map(|size| (first, size))
    };
    match unequal {
        Some((a, b)) => bad(Code::SizeMismatch, format!("has operands of {a} and of {b} chunks")),
        None => Ok(()),
    }
}

fn reference<'p>(
    plan: &'p PlanTree,
    at: &LocatedOp,
    remote: impl Fn(u32) -> Option<&'p RemoteBuffer>,
    range: &Operand,
    packets: bool,
) -> Verdict {
    let owners: (BufferKind, &[u32]) = match range.buffer {
        BufferRef::Local(buffer) => (buffer, &[at.rank as u32]),
        BufferRef::Remote(index) => match remote(index) {
            Some(remote) => (remote.buffer, std::slice::from_ref(&remote.rank)),
            None => {
                let message = format!("names remote buffer {index}, which its thread block does not list");
                return bad(Code::IndexOutOfRange, message);
            }
        },
        BufferRef::Switch(index) => match switch(plan, at, index) {
            Some(window) => window,
            None => {
                let message = format!("names switch channel {index}, which its thread block does not list");
                return bad(Code::IndexOutOfRange, message);
            }
        },
    };
    let (buffer, owners) = owners;
    if range.size == 0 {
        return bad(Code::EmptyChunk, format!("has an empty operand at {buffer} chunk {}", range.index));
    }
    if packets && buffer != BufferKind::Scratch {
        return bad(Code::NotScratch, format!("accesses packets in {buffer} chunk {}", range.index));
    }
    let end = u64::from(range.index) + u64::from(range.size);
    for &owner in owners {
        let chunks = plan.ranks[owner as usize].chunks(buffer);
        if end > u64::from(chunks) {
            let message = format!("uses {buffer} chunks {}..{end} of rank {owner}, which has {chunks}", range.index);
            return bad(Code::ChunkOutOfRange, message);
        }
    }
    Ok(())
}

/// Checks that channels lead to the ranks of the buffers.
fn channels(plan: &PlanTree, at: &LocatedOp) -> Verdict {
    let op = at.op;
    if let ([Operand { buffer: BufferRef::Switch(a), .. }], [Operand { buffer: BufferRef::Switch(b), .. }]) =
        (&op.srcs[..], &op.dsts[..])
        && a != b
    {
        return bad(Code::WrongChannel, format!("reduces over switch channel {a} and stores over {b}"));
    }
    let Some(kind) = op.channel.filter(|_| op.kind.is_data()) else { return Ok(()) };
    if op.ids.is_empty() {
        return Ok(());
    }
    let (tables, remote) = (&plan.ranks[at.rank], remotes(plan, at));
    let (channels, peers) = (tables.blocks[at.block].channels(kind), tables.peers(kind));
    let ranges = op.srcs.iter().chain(&op.dsts).filter(|range| range.is_remote());
    for (&id, range) in op.ids.iter().zip(ranges) {
        let BufferRef::Remote(index) = range.buffer else { continue };
        let peer = channels.get(id as usize).and_then(|number| peers.get(*number as usize));
        let owner = remote(index).map(|remote| &remote.rank);
        if peer != owner {
            let (peer, owner) = (peer.copied().unwrap_or_default(), owner.copied().unwrap_or_default());
            let message = format!("moves data of rank {owner} over a {kind} channel to rank {peer}");
            return bad(Code::WrongChannel, message);
        }
    }
    Ok(())
}
