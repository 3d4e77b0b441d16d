//! The size of a scaled-down plan.

use std::collections::{BTreeMap, BTreeSet};

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::raw::{LoopBody, Op, PlanTree, RankPlan};
use mscclpp_core::types::ChannelKind;

use crate::random::Random;

/// Cells that one thread moves at a time in plain operations, and the granularity of every boundary.
pub(super) const VECTOR: u64 = 2;

/// Vectors per chunk that every plan may have.
const MIN_VECTORS: u64 = 40;

/// Approximate maximum of the steps of a launch, beyond which a chunk has no more vectors, and of the cells of all
/// memory.
const MAX_STEPS: u64 = 1 << 20;
const MAX_CELLS: u64 = 1 << 20;

/// Maximum message size, in bytes, from which on a plan is for messages with all remainders.
const MIN_UNBOUNDED: u64 = 1 << 20;

/// The sizes of a scaled-down plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Cells of a chunk.
    pub(super) chunk: u64,
    /// Threads of a block, unless an operation needs more.
    pub(super) threads: u32,
    /// Bytes of a plan's windows that correspond to one vector.
    pub(super) grain: u64,
    /// Whether multicast instructions process cells rather than vectors.
    pub(super) narrow_multicast: bool,
    /// Whether callers write poison to the outputs.
    pub(super) poisons: bool,
    /// Cells that the message lacks at the end of every part, so that chunks there are shorter or empty.
    pub(super) missing: u64,
}

impl Scale {
    /// Selects a size at which loops make few iterations, or a few more than the signals and units outside of loops,
    /// since from there on the loops wait for each other. With `trips`, the longest loop makes that many, if it can.
    pub(super) fn random(plan: &PlanTree, random: &mut Random, trips: Option<u64>) -> Self {
        let loops: Vec<_> = ops(plan).filter_map(|(_, op)| op.body.as_ref()).collect();
        let grain = loops.iter().fold(0, |all, body| gcd(all, body.unit)).max(1);
        let threads = 2 + random.below(4) as u32;
        let mut vectors = [1, 1, 2, 2, 3, 4, 5][random.below(7) as usize];
        // Maximum number of vectors for which a loop makes at most the given number of iterations.
        let up_to =
            |body: &LoopBody, trips: u64| trips.saturating_mul(body.unit / grain) / u64::from(body.num_chunks.max(1));
        if let Some(trips) = trips {
            let up_to = |trips| loops.iter().map(|body| up_to(body, trips)).min().unwrap_or(vectors);
            let (most, less) = (up_to(trips), up_to(trips.saturating_sub(1)));
            vectors = most - random.below(most.saturating_sub(less).max(1));
        } else if !loops.is_empty() {
            let body = loops[random.below(loops.len() as u64) as usize];
            let beside: Vec<_> = beside_loops(plan).into_iter().collect();
            let trips = match random.below(2) {
                1 if !beside.is_empty() => {
                    beside[random.below(beside.len() as u64) as usize].saturating_add(1 + random.below(3) / 2)
                }
                _ => 1 + random.below(4),
            };
            vectors = up_to(body, trips).saturating_add(random.below(3) / 2);
        }
        Self {
            chunk: vectors.clamp(1, max_vectors(plan, grain, threads)) * VECTOR,
            threads,
            grain,
            narrow_multicast: random.below(2) == 0,
            poisons: random.below(2) == 0,
            missing: 0,
        }
    }

    /// Selects how many cells a message lacks, so that chunks at the end of its parts are short: in half of the runs none. Executors
    /// pad a part by less than one alignment unit per chunk; the least messages of a plan with a minimum by less than one, at least.
    pub(super) fn random_missing(plan: &PlanTree, random: &mut Random) -> u64 {
        let (_, chunks) = parts(plan);
        let is_bounded = plan.max_message_size < MIN_UNBOUNDED;
        if plan.collective.dividing || is_bounded || random.below(2) == 0 {
            return 0;
        }
        let padded = if plan.min_message_size == 0 { u64::from(chunks) } else { 1 };
        random.below((padded * VECTOR).max(1))
    }

    /// Returns the cells of a window of the given number of bytes.
    pub(super) fn window(&self, unit: u64) -> u64 {
        (unit / self.grain).max(1).saturating_mul(VECTOR)
    }

    /// Returns the part `index` of `of` of a range of `len` cells, as first cell and length: whole vectors, the first
    /// parts one longer if they do not divide.
    pub(super) fn slice(len: u64, index: u32, of: u32) -> (u64, u64) {
        let (units, of) = (len / VECTOR, u64::from(of.max(1)));
        let boundary = |i: u64| (i * (units / of) + i.min(units % of)) * VECTOR;
        let (start, end) = (boundary(index.into()), boundary(u64::from(index) + 1));
        (start, end - start)
    }
}

/// Returns the number of parts of the larger of a rank's input and output, and of chunks of a part.
pub(super) fn parts(plan: &PlanTree) -> (u32, u32) {
    use CollectiveKind as K;
    let most = |chunks: fn(&RankPlan) -> u32| plan.ranks.iter().map(chunks).max().unwrap_or(0);
    let (input, output) = (most(|rank| rank.input_chunks), most(|rank| rank.output_chunks));
    let parts = match plan.collective.kind {
        K::AllGather | K::ReduceScatter | K::AllToAll | K::AllToAllV => (plan.ranks.len() as u32).max(1),
        _ => 1,
    };
    (parts, input.max(output) / parts)
}

/// Returns the operations of a plan outside of loops, and the loops, with their rank and block.
fn ops(plan: &PlanTree) -> impl Iterator<Item = ((usize, usize), &Op)> {
    plan.ranks.iter().enumerate().flat_map(|(rank, tables)| {
        let blocks = tables.blocks.iter().enumerate();
        blocks.flat_map(move |(block, list)| list.ops.iter().map(move |op| ((rank, block), op)))
    })
}

/// Returns how often counters of a plan with loops are raised, or lowered, outside of loops, including initial values.
fn beside_loops(plan: &PlanTree) -> BTreeSet<u64> {
    // By rank, kind of channel (none for semaphores), number and direction.
    let mut counts: BTreeMap<(usize, Option<ChannelKind>, u32, bool), u64> = BTreeMap::new();
    for (rank, tables) in plan.ranks.iter().enumerate() {
        for (number, &value) in (0..).zip(&tables.semaphores) {
            counts.insert((rank, None, number, true), u64::try_from(value).unwrap_or(0));
        }
    }
    for ((rank, block), op) in ops(plan) {
        if !(op.kind.signals() || op.kind.acquires() || op.kind.is_semaphore()) {
            continue;
        }
        let raises = !op.kind.acquires();
        for &id in &op.ids {
            let number = match op.channel {
                None => Some(id),
                Some(kind) => plan.ranks[rank].blocks[block].channels(kind).get(id as usize).copied(),
            };
            if let Some(number) = number {
                *counts.entry((rank, op.channel, number, raises)).or_default() += 1;
            }
        }
    }
    counts.into_values().filter(|&count| count > 0).collect()
}

/// Returns the maximum number of vectors of a chunk for which a launch does not take too long.
fn max_vectors(plan: &PlanTree, grain: u64, threads: u32) -> u64 {
    let cells = plan.ranks.iter().map(|tables| {
        // Scratch can hold packets, twice.
        let all = [tables.input_chunks, tables.output_chunks].map(u64::from).iter().sum::<u64>();
        all + 4 * u64::from(tables.scratch_chunks)
    });
    let moved = |op: &Op| op.srcs.iter().chain(&op.dsts).map(|range| u64::from(range.size)).max().unwrap_or(0);
    let steps = ops(plan).map(|(_, op)| match &op.body {
        None => moved(op),
        Some(body) => {
            let turns = (body.ops.len() as u64).saturating_mul(threads.into());
            let trips = u64::from(body.num_chunks).saturating_mul(grain).div_ceil(body.unit.max(1));
            trips.saturating_mul(turns).saturating_add(body.ops.iter().map(moved).fold(0, u64::saturating_add))
        }
    });
    let most = |all: u64, each: u64| all / each.max(1);
    let cells = most(MAX_CELLS, cells.fold(0, u64::saturating_add).saturating_mul(VECTOR));
    let steps = most(MAX_STEPS, steps.fold(0, u64::saturating_add));
    cells.min(steps).max(MIN_VECTORS)
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x
}
