//! The sizes of a chunk for which a plan is spelled out.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::place::each;
use super::super::view::View;
use crate::diag::{Code, Diagnostic, Site};
use crate::plan::{LoopBody, OpKind, PlanTree, Slice};

/// The size of a chunk, and how finely positions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Size {
    /// Bytes of a chunk.
    pub(in super::super) chunk_bytes: u64,
    /// Positions to a byte, so that slices of all groups begin and end at one.
    parts: u64,
    /// The positions of which slices have whole ones, the first slices one more where that does not come out even; 1 where it
    /// does.
    grain: u64,
    /// Windows of scratch that the iterations of loops take turns with; each has its own if 0.
    windows: u64,
}

/// Iterations that every loop makes at one size at least: of one that has windows before it and behind it.
const LEAST_TRIPS: u64 = 3;

/// Numbers of iterations that are tried one by one.
const MOST_TRIPS: u64 = 16;

/// Operations of all iterations; more would take too long.
const MOST_STEPS: u128 = 1 << 20;

/// Positions to a byte beyond which slices of groups share one.
const MOST_PARTS: u64 = 1 << 20;

/// Positions of a memory; far more than a plan that means anything has.
const MOST_POSITIONS: u128 = 1 << 60;

/// The sizes at which a plan is worth running. Where it has loops: one at which every loop makes a few iterations, enough to
/// use up semaphores that start above 0, so that a thread block waits if it ever does; those at which the loop of the
/// smallest windows makes each smaller number of iterations, since with fewer there is less that orders what comes behind
/// the loop; and one at which every loop makes one. Plans without loops run the same at every size.
///
/// `None` if memories would have more positions, or loops more iterations, than can be counted.
pub(in super::super) fn sizes(view: View) -> Option<Vec<Size>> {
    let plan = view.plan;
    let (mut loops, mut groups, mut highest) = (Vec::new(), BTreeSet::new(), 0);
    each(view, &mut |at| {
        if let Some(body) = &at.op.body {
            loops.push(&**body);
        }
        if let Some(slice) = at.op.slice {
            groups.insert(slice.of);
        }
        if at.inside.is_some() && at.op.kind == OpKind::SemaphoreAcquire {
            let initial = at.op.ids.iter().filter_map(|&id| plan.ranks[at.rank].semaphores.get(at.number(id) as usize));
            highest = initial.fold(highest, |highest, &initial| highest.max(initial));
        }
    });
    let trips = u64::try_from(highest).unwrap_or(0).saturating_add(2).max(LEAST_TRIPS);
    let size = |trips: u64| {
        move |body: &&LoopBody| (trips.saturating_mul(body.unit) / u64::from(body.num_chunks.max(1))).max(1)
    };
    let longest = loops.iter().map(size(trips)).max();
    let shorter = (2..=trips.min(MOST_TRIPS)).rev().filter_map(|trips| loops.iter().map(size(trips)).min());
    let mut sizes: Vec<u64> = longest.into_iter().chain(shorter).chain([1]).collect();
    sizes.dedup();
    let steps = |body: &&LoopBody| trips_of(body, sizes[0]).saturating_mul(body.ops.len().max(1) as u128);
    if loops.iter().map(steps).fold(0, u128::saturating_add) > MOST_STEPS {
        return None;
    }
    sizes.into_iter().map(|chunk_bytes| Size::even(plan, chunk_bytes, &groups)).collect()
}

/// The finding about a plan of which [`sizes`] knows none.
pub(in super::super) fn too_fine(view: View) -> Diagnostic {
    let mut site = Site::None;
    each(view, &mut |at| {
        if at.op.body.is_some() && site == Site::None {
            site = at.site(view.plan);
        }
    });
    let message = "the plan's loops make more iterations before they depend on each other, or cut its memory into more pieces \
                   together with thread-block groups, than can be followed";
    let help = "take units that differ less, semaphores that start lower, or groups of fewer different sizes";
    Diagnostic::new(Code::BadLoop, site, message).help(help)
}

impl Size {
    /// A chunk of so many bytes, which groups of these sizes divide evenly. `None` if memories would have more positions than
    /// can be counted.
    fn even(plan: &PlanTree, chunk_bytes: u64, groups: &BTreeSet<u32>) -> Option<Self> {
        let parts = groups.iter().fold(1, |parts, &size| least_common_multiple(parts, u64::from(size)));
        is_countable(plan, u128::from(chunk_bytes) * u128::from(parts)).then_some(Self {
            chunk_bytes,
            parts,
            grain: 1,
            windows: 0,
        })
    }

    /// A chunk of so many units, of which slices have whole ones. `None` as [`sizes`].
    pub(in super::super) fn uneven(plan: &PlanTree, units: u64, unit_bytes: u64) -> Option<Self> {
        let chunk_bytes = units.checked_mul(unit_bytes)?;
        is_countable(plan, chunk_bytes.into()).then_some(Self { chunk_bytes, parts: 1, grain: unit_bytes, windows: 0 })
    }

    /// A chunk of so many bytes, with so many windows of scratch and groups of these sizes. `None` as [`sizes`].
    pub(in super::super) fn wrapped(
        plan: &PlanTree,
        chunk_bytes: u64,
        windows: u64,
        groups: &BTreeSet<u32>,
    ) -> Option<Self> {
        Some(Self { windows, ..Self::even(plan, chunk_bytes, groups)? })
    }

    /// The window of scratch that an iteration of a loop has.
    pub(super) fn scratch_window(&self, (iteration, unit): (u64, u64)) -> (u64, u64) {
        (iteration.checked_rem(self.windows).unwrap_or(iteration), unit)
    }

    /// Whether slices are cut as they are at no other size.
    pub(in super::super) fn is_uneven(&self) -> bool {
        self.grain > 1
    }

    /// Positions of a chunk.
    pub(in super::super) fn chunk(&self) -> u64 {
        self.chunk_bytes * self.parts
    }

    /// Iterations of a loop.
    pub(super) fn trips(&self, body: &LoopBody) -> u64 {
        u64::try_from(trips_of(body, self.chunk_bytes)).unwrap_or(u64::MAX)
    }

    /// Where a range of chunks lies: the slice of its operation, in the window (iteration, unit) of its loop.
    pub(super) fn range(&self, slice: Option<Slice>, window: Option<(u64, u64)>, index: u32, size: u32) -> Range<u64> {
        let start = u64::from(index) * self.chunk();
        let length = u64::from(size) * self.chunk();
        let (from, to) = match slice {
            None => (0, length),
            Some(slice) => {
                let (units, of) = (u128::from(length / self.grain), u128::from(slice.of.max(1)));
                let cut = |number: u32| {
                    let number = u128::from(number);
                    let begin = number * (units / of) + number.min(units % of);
                    (begin * u128::from(self.grain)).min(length.into()) as u64
                };
                (cut(slice.index), cut(slice.index.saturating_add(1)))
            }
        };
        match window {
            None => start + from..start + to,
            Some((iteration, unit)) => {
                let unit = unit.saturating_mul(self.parts);
                let begin = from.saturating_add(iteration.saturating_mul(unit));
                start + begin.min(to)..start + begin.saturating_add(unit).min(to)
            }
        }
    }
}

/// Whether the positions of a plan's memories can be counted, with this many to a chunk.
fn is_countable(plan: &PlanTree, chunk: u128) -> bool {
    let chunks = plan.ranks.iter().map(|rank| rank.input_chunks.max(rank.output_chunks).max(rank.scratch_chunks));
    u128::from(chunks.max().unwrap_or(0).max(1)).checked_mul(chunk).is_some_and(|positions| positions <= MOST_POSITIONS)
}

/// Iterations of a loop over chunks of so many bytes.
fn trips_of(body: &LoopBody, chunk_bytes: u64) -> u128 {
    (u128::from(body.num_chunks) * u128::from(chunk_bytes)).div_ceil(u128::from(body.unit.max(1)))
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b.max(1));
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b.max(1)).min(MOST_PARTS)
}
