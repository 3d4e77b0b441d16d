//! The sizes of a chunk for which a plan is spelled out.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::place::each;
use crate::diag::{Code, Diagnostic, Site};
use crate::plan::{LoopBody, PlanTree, Slice};

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

/// Iterations of the loop that has most: enough to use up semaphores that start above 0, within reason.
const MOST_TRIPS: u64 = 16;

/// Positions to a byte beyond which slices of groups share one.
const MOST_PARTS: u64 = 1 << 20;

/// Positions of a memory; far more than a plan that means anything has.
const MOST_POSITIONS: u128 = 1 << 60;

/// The sizes at which a plan is worth running: a few iterations of the loop that has most, and one iteration of every
/// loop. Plans without loops run the same at every size.
///
/// `None` if memories would have more positions than can be counted.
pub(in super::super) fn sizes(plan: &PlanTree) -> Option<Vec<Size>> {
    let highest = plan.ranks.iter().flat_map(|rank| &rank.semaphores).max().copied().unwrap_or(0);
    let trips = u64::try_from(highest).unwrap_or(0).saturating_add(2).clamp(3, MOST_TRIPS);
    let mut most: Option<u64> = None;
    let mut groups = BTreeSet::new();
    each(plan, &mut |at| {
        if let Some(body) = &at.op.body {
            let size = trips.saturating_mul(body.unit) / u64::from(body.num_chunks.max(1));
            most = Some(most.unwrap_or(u64::MAX).min(size.max(1)));
        }
        if let Some(slice) = at.op.slice {
            groups.insert(slice.of);
        }
    });
    most.into_iter().chain([1]).map(|chunk_bytes| Size::even(plan, chunk_bytes, &groups)).collect()
}

/// The finding about a plan of which [`sizes`] knows none.
pub(in super::super) fn too_fine(plan: &PlanTree) -> Diagnostic {
    let mut site = Site::None;
    each(plan, &mut |at| {
        if at.op.body.is_some() && site == Site::None {
            site = at.site(plan);
        }
    });
    let message = "the plan's loops and thread-block groups cut its memory into more pieces than can be counted";
    Diagnostic::new(Code::BadLoop, site, message).help("take smaller units, or groups of fewer different sizes")
}

impl Size {
    /// A chunk of so many bytes, which groups of these sizes divide evenly. `None` if memories would have more positions than
    /// can be counted.
    fn even(plan: &PlanTree, chunk_bytes: u64, groups: &BTreeSet<u32>) -> Option<Self> {
        let parts = groups.iter().fold(1, |parts, &size| least_common_multiple(parts, u64::from(size)));
        let chunks = plan.ranks.iter().map(|rank| rank.input_chunks.max(rank.output_chunks).max(rank.scratch_chunks));
        let positions = u128::from(chunks.max().unwrap_or(0)) * u128::from(chunk_bytes) * u128::from(parts);
        (positions <= MOST_POSITIONS).then_some(Self { chunk_bytes, parts, grain: 1, windows: 0 })
    }

    /// A chunk of so many units, of which slices have whole ones.
    pub(super) fn uneven(units: u64, unit_bytes: u64) -> Self {
        Self { chunk_bytes: units * unit_bytes, parts: 1, grain: unit_bytes, windows: 0 }
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
        let span = u128::from(body.num_chunks) * u128::from(self.chunk_bytes);
        span.div_ceil(u128::from(body.unit.max(1))) as u64
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

pub(super) fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b.max(1));
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b.max(1)).min(MOST_PARTS)
}
