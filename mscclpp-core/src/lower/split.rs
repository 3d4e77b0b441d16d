//! Division of chunk ranges that instances cannot share into single chunks.
//!
//! Instance k of n processes the k-th part of every range. Two operations then access the same memory in the same
//! instance only if they name the shared memory in equal ranges. If a range that is written overlaps an unequal one,
//! some chunk would be written by one instance and used by another, without synchronization between them. Such
//! operations are split: piece j processes chunk j of every range, and since the parts of single chunks are equal in
//! all ranges, the accesses are in the same instance again.
//!
//! Splitting propagates: the other ranges of a split operation are now single chunks too, and so must be all ranges
//! that overlap them. A plan with chunks of one size, or with unequal ranges in unwritten memory only, is unchanged. So
//! are packets that are written once: a read waits for the flag, whichever instance writes the packet.

use std::collections::BTreeMap;

use super::access::{Form, accesses};
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::{BufferRef, Op, OpKind, PlanTree, RankPlan};
use crate::types::BufferKind;

/// Splits the operations that instances could not share, in a plan whose operands have rank-level numbers.
///
/// # Errors
/// [`Code::MixedSizes`] for such an operation in a pipelined loop (its pieces would not be as long as the loop's span)
/// or in a thread-block group (its members would access other chunks than before).
pub(super) fn split(plan: &mut PlanTree) -> Result<(), Diagnostics> {
    if !has_long_ranges(plan) {
        return Ok(());
    }
    let mut clusters = Clusters::of(plan);
    if !clusters.any_split() {
        return Ok(());
    }
    clusters.unite(plan);
    let mut found = Diagnostics::default();
    for rank in 0..plan.ranks.len() {
        for block in 0..plan.ranks[rank].blocks.len() {
            let ops = std::mem::take(&mut plan.ranks[rank].blocks[block].ops);
            let mut out = Vec::with_capacity(ops.len());
            for op in ops {
                let in_loop = op
                    .body
                    .as_ref()
                    .and_then(|body| body.ops.iter().find(|inner| clusters.must_split(plan, rank, inner)));
                if let Some(inner) = in_loop {
                    found.push(refuse(plan, inner, "in a pipelined loop"));
                }
                if !clusters.must_split(plan, rank, &op) {
                    out.push(op);
                } else if op.slice.is_some() {
                    found.push(refuse(plan, &op, "in a thread-block group"));
                } else {
                    out.extend((0..op.srcs[0].size).map(|chunk| piece(&op, chunk)));
                }
            }
            plan.ranks[rank].blocks[block].ops = out;
        }
    }
    found.into_result(())
}

/// Returns whether any range is longer than a chunk. Most plans have none, and nothing to split.
fn has_long_ranges(plan: &PlanTree) -> bool {
    fn any(ops: &[Op]) -> bool {
        ops.iter().any(|op| {
            op.srcs.first().is_some_and(|range| range.size > 1) || op.body.as_ref().is_some_and(|body| any(&body.ops))
        })
    }
    plan.ranks.iter().flat_map(|rank| &rank.blocks).any(|block| any(&block.ops))
}

fn refuse(plan: &PlanTree, op: &Op, place: &str) -> Diagnostic {
    let site = plan.origins.get(op.origin).map_or(Site::None, |place| Site::Source(place.clone()));
    let message = format!(
        "several instances cannot share the chunks of this `{}` of {} chunks {place}: other operations use the same \
         memory in other ranges",
        op.kind.name(),
        op.srcs[0].size,
    );
    Diagnostic::new(Code::MixedSizes, site, message)
        .help("use equal chunk ranges in all operations that access the same memory, or one instance")
}

/// Returns the part of an operation that processes one chunk of every range.
fn piece(op: &Op, chunk: u32) -> Op {
    let mut piece = op.clone();
    for range in piece.srcs.iter_mut().chain(&mut piece.dsts) {
        range.index = range.index.saturating_add(chunk);
        range.size = 1;
    }
    // One signal is for all pieces, so only the last one sends it.
    if op.kind.signals() && chunk + 1 < op.srcs[0].size {
        piece.kind = OpKind::Put;
    }
    piece
}

/// A buffer of a rank; input and output of an in-place collective are one.
type BufferId = (u32, BufferKind);

/// A range of chunks of a buffer: its begin and end.
type Range = (BufferId, u64, u64);

/// The clusters of a plan's ranges: connected components of overlapping ranges, per buffer.
struct Clusters {
    /// The begin of each cluster, and its number.
    starts: BTreeMap<(BufferId, u64), usize>,
    clusters: Vec<Cluster>,
}

struct Cluster {
    end: u64,
    /// Whether its users must be in the same instance.
    same_instance: bool,
    /// Whether its ranges must become single chunks.
    split: bool,
    /// A cluster that shares operations with this one; itself at the root.
    parent: usize,
}

impl Clusters {
    fn of(plan: &PlanTree) -> Self {
        // Every distinct range, and its uses.
        let mut ranges: BTreeMap<Range, RangeUse> = BTreeMap::new();
        each(plan, &mut |op| {
            for (range, used) in op {
                ranges.entry(*range).or_default().add(*used);
            }
        });
        let mut found = Self { starts: BTreeMap::new(), clusters: Vec::new() };
        let mut owner = None;
        let mut all = RangeUse::default();
        // The end of the written ranges of the last cluster.
        let mut written_end = 0;
        for ((memory, start, end), used) in ranges {
            let reach = if used.writes > 0 { end } else { 0 };
            match found.clusters.last_mut() {
                Some(cluster) if owner == Some(memory) && start < cluster.end => {
                    let (writes, over_written) = (used.writes > 0, start < written_end);
                    all.writes = all.writes.saturating_add(used.writes);
                    all.again |= used.again || writes && over_written;
                    all.plain |= used.plain;
                    // Two unequal ranges overlap, and one of them is written.
                    cluster.split |= writes || over_written;
                    cluster.end = cluster.end.max(end);
                    written_end = written_end.max(reach);
                }
                _ => {
                    found.close(all);
                    let number = found.clusters.len();
                    found.clusters.push(Cluster { end, same_instance: true, split: false, parent: number });
                    found.starts.insert((memory, start), number);
                    owner = Some(memory);
                    all = used;
                    written_end = reach;
                }
            }
        }
        found.close(all);
        found
    }

    /// Completes the last cluster, given all of its uses.
    fn close(&mut self, all: RangeUse) {
        if let Some(cluster) = self.clusters.last_mut() {
            cluster.same_instance = all.writes > 0 && (all.plain || all.again);
            cluster.split &= cluster.same_instance;
        }
    }

    fn any_split(&self) -> bool {
        self.clusters.iter().any(|cluster| cluster.split)
    }

    /// Returns the cluster that contains a range; `None` if its users need not be in the same instance: if no operation
    /// writes it, or if it consists of packets that are written once.
    fn cluster(&self, (memory, start, _): &Range) -> Option<usize> {
        let (_, &number) = self.starts.range(..=(*memory, *start)).next_back()?;
        self.clusters[number].same_instance.then_some(number)
    }

    fn root(&mut self, mut number: usize) -> usize {
        while self.clusters[number].parent != number {
            let parent = self.clusters[number].parent;
            self.clusters[number].parent = self.clusters[parent].parent;
            number = parent;
        }
        number
    }

    /// Unites the clusters of every operation on several chunks: they are split together or not at all.
    fn unite(&mut self, plan: &PlanTree) {
        each(plan, &mut |op| {
            let mut first = None;
            for (range, _) in op.iter().filter(|((_, start, end), _)| end - start > 1) {
                let Some(number) = self.cluster(range) else { continue };
                let root = self.root(number);
                let first = *first.get_or_insert(root);
                let split = self.clusters[root].split;
                self.clusters[first].split |= split;
                self.clusters[root].parent = first;
            }
        });
        for number in 0..self.clusters.len() {
            let root = self.root(number);
            self.clusters[number].split = self.clusters[root].split;
        }
    }

    fn must_split(&self, plan: &PlanTree, rank: usize, op: &Op) -> bool {
        let mut ranges = Vec::new();
        place(plan, rank, op, &mut ranges);
        op.srcs.first().is_some_and(|range| range.size > 1)
            && ranges.iter().any(|(range, _)| self.cluster(range).is_some_and(|number| self.clusters[number].split))
    }
}

/// The uses of a range by operations.
#[derive(Clone, Copy, Default)]
struct RangeUse {
    /// Number of operations that write it; the members of a group count as one.
    writes: u32,
    /// Whether a part of it is written twice.
    again: bool,
    /// Whether it holds plain data.
    plain: bool,
}

impl RangeUse {
    /// Adds another use of the same range.
    fn add(&mut self, other: Self) {
        self.again |= other.again || self.writes > 0 && other.writes > 0;
        self.writes = self.writes.saturating_add(other.writes);
        self.plain |= other.plain;
    }
}

/// Calls `visit` with the ranges of every data operation, each with its use.
fn each(plan: &PlanTree, visit: &mut impl FnMut(&[(Range, RangeUse)])) {
    let mut ranges = Vec::new();
    for (rank, tables) in plan.ranks.iter().enumerate() {
        for outer in tables.blocks.iter().flat_map(|block| &block.ops) {
            let inner = outer.body.as_ref().map_or(std::slice::from_ref(outer), |body| body.ops.as_slice());
            for op in inner {
                ranges.clear();
                place(plan, rank, op, &mut ranges);
                // A loop uses its ranges repeatedly.
                let looped = outer.body.is_some();
                ranges.iter_mut().for_each(|(_, used)| used.again |= looped && used.writes > 0);
                visit(&ranges);
            }
        }
    }
}

/// Appends the canonical ranges of an operation.
fn place(plan: &PlanTree, rank: usize, op: &Op, out: &mut Vec<(Range, RangeUse)>) {
    let tables: &RankPlan = &plan.ranks[rank];
    let leader = op.slice.is_none_or(|slice| slice.index == 0);
    for access in accesses(op) {
        let writes = u32::from(access.write && leader);
        let used = RangeUse { writes, again: false, plain: access.form == Form::Plain };
        let mut add = |owner: u32, buffer: BufferKind| {
            let collective = &plan.collective;
            let (buffer, start) =
                collective.canonical_chunk(owner, buffer, access.range.index, collective.chunk_factor);
            let start = u64::from(start);
            if access.range.size > 0 {
                out.push((((owner, buffer), start, start + u64::from(access.range.size)), used));
            }
        };
        match access.range.buffer {
            BufferRef::Local(buffer) => add(rank as u32, buffer),
            BufferRef::Remote(number) => {
                if let Some(remote) = tables.remote_buffers.get(number as usize) {
                    add(remote.rank, remote.buffer);
                }
            }
            BufferRef::Switch(number) => {
                if let Some((buffer, group)) = tables.switch_channels().nth(number as usize) {
                    group.iter().for_each(|&member| add(member, buffer));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split;
    use crate::diag::Code;
    use crate::testing::{plan, text};

    #[track_caller]
    fn check(blocks: &[&[&str]], expected: &[&str]) {
        let mut plan = plan(blocks);
        split(&mut plan).unwrap();
        for (rank, expected) in plan.ranks.iter().zip(expected) {
            assert_eq!(text(&rank.blocks[0].ops), *expected);
        }
    }

    #[test]
    fn equal_and_unwritten_ranges_stay() {
        for ops in [
            "copy i0+2 > s0+2; put.m#0 s0+2 > r0:0+2",
            "copy i0+4 > s0+4; copy i0 > o0; copy i1+2 > o4+2",
            "copy i0+2 > s0+2; copy i2 > s2",
        ] {
            check(&[&[ops], &[""]], &[ops, ""]);
        }
    }

    #[test]
    fn unequal_ranges_become_chunks() {
        check(
            &[&["copy i0+2 > s0+2; nop; put.m#0 s1 > r0:0", ""], &[""]],
            &["copy i0 > s0; copy i1 > s1; nop; put.m#0 s1 > r0:0", ""],
        );
        // Shifted ranges of one size are unequal too.
        check(
            &[&["copy i0+2 > s0+2; copy s1+2 > o0+2"], &[""]],
            &["copy i0 > s0; copy i1 > s1; copy s1 > o0; copy s2 > o1", ""],
        );
    }

    #[test]
    fn splitting_propagates_along_written_memory() {
        // Rank 1 puts into rank 0's scratch, which is read in parts; the source of the put is its own scratch.
        check(
            &[&["copy s0 > o0"], &["copy i0+2 > s4+2; put.m#0 s4+2 > r0:0+2; copy i0+2 > o0+2"]],
            &["copy s0 > o0", "copy i0 > s4; copy i1 > s5; put.m#0 s4 > r0:0; put.m#0 s5 > r0:1; copy i0+2 > o0+2"],
        );
    }

    #[test]
    fn packets_that_are_written_once_stay() {
        let ops = "ppkt.m i0+2 > r0:0+2; upkt s0 > o0; upkt s1 > o1";
        check(&[&[ops], &[ops]], &[ops, ops]);
        let ops = "ppkt.m/0:2 i0+2 > r0:0+2; upkt s0 > o0; upkt s1 > o1";
        check(&[&[ops], &[ops]], &[ops, ops]);
        let ops = "ppkt.m i0 > r0:0; ppkt.m i1 > r0:1; upkt s0+2 > o0+2";
        check(&[&[ops], &[ops]], &[ops, ops]);
        // An operation that writes a packet again must be in the same instance as its earlier readers.
        check(
            &[&["ppkt.m i0+2 > r0:0+2; ppkt.m i0 > r0:0"], &["upkt s0+2 > o0+2"]],
            &["ppkt.m i0 > r0:0; ppkt.m i1 > r0:1; ppkt.m i0 > r0:0", "upkt s0 > o0; upkt s1 > o1"],
        );
        // Data that is unpacked in one range and used in another must be in the same instance, which propagates to the
        // packets' readers only.
        check(
            &[&["ppkt.m i0+2 > r0:0+2"], &["upkt s0+2 > o0+2; copy o0 > s4"]],
            &["ppkt.m i0+2 > r0:0+2", "upkt s0 > o0; upkt s1 > o1; copy o0 > s4"],
        );
    }

    #[test]
    fn only_the_last_piece_signals() {
        check(
            &[&["pws.p#0 i0+3 > r0:0+3"], &["copy s1 > o0"]],
            &["put.p#0 i0 > r0:0; put.p#0 i1 > r0:1; pws.p#0 i2 > r0:2", "copy s1 > o0"],
        );
    }

    #[test]
    fn unequal_ranges_in_loops_and_groups_are_rejected() {
        for ops in ["loop 64x2 { copy i0+2 > s0+2 }; copy s0 > o0", "copy/0:2 i0+2 > s0+2; copy s0 > o0"] {
            let mut plan = plan(&[&[ops], &[""]]);
            assert_eq!(split(&mut plan).unwrap_err().iter().next().unwrap().code, Code::MixedSizes);
        }
    }
}
