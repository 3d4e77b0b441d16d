//! Chunk ranges that instances cannot share as they stand become single chunks.
//!
//! Instance k of n works on the k-th part of every range. Two operations then meet in the same instance only if they
//! name the memory they share in equal ranges. Where a range that is written overlaps an unequal one, some chunk would
//! be written by one instance and used by another, with nothing between them. Such operations are taken apart: piece j
//! works on chunk j of every range, and since the parts of single chunks are equal for everybody, they meet again.
//!
//! Taking apart spreads: the other ranges of a split operation are now single chunks too, and so must be whatever they
//! overlap. A plan with chunks of one size, or with unequal ranges in unwritten memory only, stays as it is.

use std::collections::BTreeMap;

use super::access::accesses;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::{Op, OpKind, Place, PlanTree, RankPlan};
use crate::vocab::BufferKind;

/// Splits the operations that instances could not share, in a plan whose references carry rank-level numbers.
///
/// # Errors
/// [`Code::MixedSizes`] for such an operation in a pipelined loop (its pieces would not be as long as the loop's span)
/// or in a thread-block group (its members would touch other chunks than before).
pub(super) fn split(plan: &mut PlanTree) -> Result<(), Diagnostics> {
    let mut clusters = Clusters::of(plan);
    if !clusters.any_unequal() {
        return Ok(());
    }
    while clusters.spread(plan) {}
    let mut found = Diagnostics::default();
    for rank in 0..plan.ranks.len() {
        for block in 0..plan.ranks[rank].blocks.len() {
            let ops = std::mem::take(&mut plan.ranks[rank].blocks[block].ops);
            let mut out = Vec::with_capacity(ops.len());
            for op in ops {
                let in_loop = op.body.as_ref().and_then(|body| {
                    body.ops
                        .iter()
                        .find(|inner| clusters.must_split(plan, rank, inner))
                });
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

fn refuse(plan: &PlanTree, op: &Op, place: &str) -> Diagnostic {
    let site = plan
        .origins
        .get(op.origin)
        .map_or(Site::None, |place| Site::Source(place.clone()));
    let message = format!(
        "several instances cannot share the chunks of this `{}` of {} chunks {place}: other operations use the same \
         memory in other ranges",
        op.kind.name(),
        op.srcs[0].size,
    );
    Diagnostic::new(Code::MixedSizes, site, message)
        .help("use the same chunk ranges in all operations that share memory, or one instance")
}

/// The part of an operation that works on one chunk of every range.
fn piece(op: &Op, chunk: u32) -> Op {
    let mut piece = op.clone();
    for range in piece.srcs.iter_mut().chain(&mut piece.dsts) {
        range.index = range.index.saturating_add(chunk);
        range.size = 1;
    }
    // The signal stands for all pieces, so only the last one sends it.
    if matches!(
        op.kind,
        OpKind::PutWithSignal | OpKind::PutWithSignalAndFlush
    ) && chunk + 1 < op.srcs[0].size
    {
        piece.kind = OpKind::Put;
    }
    piece
}

/// A buffer of a rank, input and output of an in-place collective being one.
type Memory = (u32, BufferKind);

/// Per memory, the groups of ranges that hang together by overlapping: where each begins, and what is known of it.
struct Clusters {
    starts: BTreeMap<(Memory, u64), Cluster>,
}

struct Cluster {
    end: u64,
    written: bool,
    /// Whether its ranges must become single chunks.
    split: bool,
}

impl Clusters {
    fn of(plan: &PlanTree) -> Self {
        // Every distinct range, and whether anybody writes it.
        let mut ranges: BTreeMap<(Memory, u64, u64), bool> = BTreeMap::new();
        each(plan, &mut |_, op| {
            for (key, write) in op {
                *ranges.entry(*key).or_default() |= *write;
            }
        });
        let mut starts = BTreeMap::new();
        // The cluster at hand, and how far its written ranges reach.
        let mut open: Option<((Memory, u64), Cluster, u64)> = None;
        for ((memory, start, end), written) in ranges {
            match &mut open {
                Some(((owner, _), cluster, written_end))
                    if *owner == memory && start < cluster.end =>
                {
                    cluster.split |= written || start < *written_end;
                    cluster.written |= written;
                    cluster.end = cluster.end.max(end);
                    *written_end = (*written_end).max(if written { end } else { 0 });
                }
                _ => {
                    if let Some((key, cluster, _)) = open.take() {
                        starts.insert(key, cluster);
                    }
                    let reach = if written { end } else { 0 };
                    open = Some((
                        (memory, start),
                        Cluster {
                            end,
                            written,
                            split: false,
                        },
                        reach,
                    ));
                }
            }
        }
        if let Some((key, cluster, _)) = open {
            starts.insert(key, cluster);
        }
        Self { starts }
    }

    fn any_unequal(&self) -> bool {
        self.starts.values().any(|cluster| cluster.split)
    }

    fn cluster(
        &self,
        (memory, start, _): &(Memory, u64, u64),
    ) -> Option<(&(Memory, u64), &Cluster)> {
        self.starts.range(..=(*memory, *start)).next_back()
    }

    /// Marks the clusters of every operation that has a range in a marked one; whether that marked any.
    fn spread(&mut self, plan: &PlanTree) -> bool {
        let mut marks = Vec::new();
        each(plan, &mut |_, op| {
            let touches = |(key, _): &(Key, bool)| {
                self.cluster(key).is_some_and(|(_, cluster)| cluster.split)
            };
            if op.iter().all(|((_, start, end), _)| end - start <= 1) || !op.iter().any(touches) {
                return;
            }
            for (key, _) in op {
                if let Some((start, cluster)) = self.cluster(key)
                    && cluster.written
                    && !cluster.split
                {
                    marks.push(*start);
                }
            }
        });
        for start in &marks {
            if let Some(cluster) = self.starts.get_mut(start) {
                cluster.split = true;
            }
        }
        !marks.is_empty()
    }

    fn must_split(&self, plan: &PlanTree, rank: usize, op: &Op) -> bool {
        let mut ranges = Vec::new();
        place(plan, rank, op, &mut ranges);
        op.srcs.first().is_some_and(|range| range.size > 1)
            && ranges
                .iter()
                .any(|(key, _)| self.cluster(key).is_some_and(|(_, cluster)| cluster.split))
    }
}

type Key = (Memory, u64, u64);

/// Calls `visit` with the ranges of every data operation, each with whether it is written.
fn each(plan: &PlanTree, visit: &mut impl FnMut(&Op, &[(Key, bool)])) {
    let mut ranges = Vec::new();
    for (rank, tables) in plan.ranks.iter().enumerate() {
        for op in tables.blocks.iter().flat_map(|block| &block.ops) {
            let inner = op
                .body
                .as_ref()
                .map_or(std::slice::from_ref(op), |body| body.ops.as_slice());
            for op in inner {
                ranges.clear();
                place(plan, rank, op, &mut ranges);
                visit(op, &ranges);
            }
        }
    }
}

/// Appends where an operation's ranges really are.
fn place(plan: &PlanTree, rank: usize, op: &Op, out: &mut Vec<(Key, bool)>) {
    let tables: &RankPlan = &plan.ranks[rank];
    for access in accesses(op) {
        let mut add = |owner: u32, buffer: BufferKind| {
            let collective = &plan.collective;
            let (buffer, start) =
                collective.canonical(owner, buffer, access.range.index, collective.chunk_factor);
            let start = u64::from(start);
            if access.range.size > 0 {
                out.push((
                    ((owner, buffer), start, start + u64::from(access.range.size)),
                    access.write,
                ));
            }
        };
        match access.range.place {
            Place::Local(buffer) => add(rank as u32, buffer),
            Place::Remote(number) => {
                if let Some(remote) = tables.remote_buffers.get(number as usize) {
                    add(remote.rank, remote.buffer);
                }
            }
            Place::Switch(number) => {
                if let Some((buffer, group)) = tables.switch_channels().nth(number as usize) {
                    group.iter().for_each(|&member| add(member, buffer));
                }
            }
        }
    }
}
