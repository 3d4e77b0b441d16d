//! The sizes of a chunk for which a plan is executed.

use std::collections::BTreeSet;
use std::ops::Range;

use super::super::place::each;
use super::super::view::View;
use crate::conditions::{Condition, applies};
use crate::rates::Rate;
use mscclpp_plan::diag::{Code, Diagnostic, Site};
use mscclpp_plan::raw::{LoopBody, PlanTree, Slice};

/// The size of a chunk, the resolution of addresses, and the trip counts of loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Size {
    /// Addresses of a chunk.
    chunk: u64,
    /// Addresses per byte, so that slices of all groups begin and end at an address.
    parts: u64,
    /// Alignment of slices in addresses, if chunks are not divided evenly: then the first slices are longer by this. 1
    /// if chunks are divided evenly.
    grain: u64,
    /// Number of scratch windows that the iterations of loops share in turn; each has its own if 0.
    windows: u64,
    around: Around,
    /// Whether the execution must prove what holds for more iterations, too (`race::every`).
    proves: bool,
    /// Whether packets of members that may be empty are ignored ([`slices`](super::super::slices)).
    conservative: bool,
}

/// The trip counts of loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Around {
    /// The trip counts of the chunk size.
    Real,
    /// One iteration, with one window that is the whole operand; two iterations with two windows for loops of some
    /// rate.
    Few(Option<Rate>),
}

/// An iteration of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) iteration: u64,
    pub(super) trips: u64,
    /// Bytes.
    pub(super) unit: u64,
}

/// Maximum number of steps of all executions of a plan; more would take too long.
const MAX_STEPS: usize = 1 << 20;

/// Maximum number of rates of loops that are executed regardless of the number of steps.
const FEW_RATES: usize = 4;

/// Addresses per byte beyond which slices of several groups share one.
const MAX_PARTS: u64 = 1 << 20;

/// Maximum number of addresses of a buffer; far more than useful plans have.
const MAX_POSITIONS: u128 = 1 << 60;

/// Returns the sizes at which a plan is executed. Plans without loops are executed equally at every size. One iteration
/// of a loop represents all, and where two iterations of a rate overlap, two of them do
/// (`race::every`): so all loops are executed with one iteration, and then those of one rate
/// with two, rate by rate.
///
/// `None` if buffers would have more addresses, or the plan more rates, than the limits allow.
pub(in super::super) fn sizes(view: View) -> Option<Vec<Size>> {
    let Shapes { rates, groups } = Shapes::of(view);
    if rates.is_empty() {
        return Some(vec![Size::even(view.plan, 1, &groups)?]);
    }
    if rates.len() > FEW_RATES && view.operations().saturating_mul(rates.len()) > MAX_STEPS {
        return None;
    }
    // Slices have halves.
    let even = Size { proves: true, ..Size::even(view.plan, 2, &groups)? };
    let twice = rates.into_iter().filter(|_| applies(Condition::Twice)).map(Some);
    let around = std::iter::once(None).chain(twice);
    Some(around.map(|rate| Size { around: Around::Few(rate), ..even }).collect())
}

/// Returns the size of messages without data, at which no loop makes an iteration. `None` if the plan has no loops or
/// no such messages.
pub(in super::super) fn empty(view: View) -> Option<Size> {
    let has_loops = !rates(view).is_empty();
    (has_loops && view.plan.min_message_size == 0).then(|| Size::real(view, 0, 1)).flatten()
}

/// Returns a size at which loops make a few iterations, if there are not too many of them.
pub(in super::super) fn example(view: View) -> Option<Size> {
    let Shapes { rates, groups } = Shapes::of(view);
    let longest = rates.into_iter().map(|rate| rate.last_size(3)).max().unwrap_or(1);
    let size = Size::even(view.plan, u64::try_from(longest).ok()?.max(1), &groups);
    size.filter(|size| size.steps(view) <= MAX_STEPS as u128).or_else(|| sizes(view)?.pop())
}

/// Properties of a plan that determine its sizes.
#[derive(Default)]
struct Shapes {
    rates: BTreeSet<Rate>,
    /// The numbers of slices into which ranges are cut.
    groups: BTreeSet<u32>,
}

impl Shapes {
    fn of(view: View) -> Self {
        let mut shapes = Self::default();
        each(view, &mut |at| {
            if let Some(body) = &at.op.body {
                shapes.rates.insert(Rate::of(body, 1));
            }
            if let Some(slice) = at.op.slice {
                shapes.groups.insert(slice.count);
            }
        });
        shapes
    }
}

/// Returns the rates of a plan's loops.
pub(in super::super) fn rates(view: View) -> BTreeSet<Rate> {
    Shapes::of(view).rates
}

/// Returns the finding about a plan for which [`sizes`] returns `None`.
pub(in super::super) fn too_many_atoms(view: View) -> Diagnostic {
    let mut site = Site::None;
    each(view, &mut |at| {
        if at.op.body.is_some() && site == Site::None {
            site = at.site(view.plan);
        }
    });
    let message = "the loops of the plan have more distinct rates, or divide memory, together with thread-block \
        groups, into more ranges, than the analysis supports";
    let help = "use fewer distinct units and spans, or groups of fewer distinct sizes";
    Diagnostic::new(Code::BadLoop, site, message).help(help)
}

impl Size {
    /// Returns a chunk of the given number of bytes, which groups of these sizes divide evenly. `None` if buffers would
    /// have more addresses than the limit.
    fn even(plan: &PlanTree, chunk_bytes: u64, groups: &BTreeSet<u32>) -> Option<Self> {
        let parts = groups.iter().fold(1, |parts, &size| least_common_multiple(parts, u64::from(size)));
        let chunk = chunk_bytes.checked_mul(parts).filter(|chunk| is_countable(plan, u128::from(*chunk)))?;
        Some(Self { chunk, parts, grain: 1, windows: 0, around: Around::Real, proves: false, conservative: false })
    }

    /// Returns a chunk of the given number of units, without scaling. `None` if buffers would have more addresses than
    /// the limit.
    pub(in super::super) fn real(view: View, units: u64, unit_bytes: u64) -> Option<Self> {
        let one = Self::even(view.plan, units.checked_mul(unit_bytes)?, &BTreeSet::new())?;
        Some(Self { grain: unit_bytes, ..one })
    }

    /// Returns a chunk of the given number of units, whose slices have whole units. `None` as [`sizes`].
    pub(in super::super) fn uneven(plan: &PlanTree, units: u64, unit_bytes: u64) -> Option<Self> {
        let chunk = units.checked_mul(unit_bytes).filter(|chunk| is_countable(plan, u128::from(*chunk)))?;
        Some(Self {
            chunk,
            parts: 1,
            grain: unit_bytes,
            windows: 0,
            around: Around::Few(None),
            proves: true,
            conservative: false,
        })
    }

    /// Returns a chunk of the given number of bytes, with the given number of scratch windows and groups of these
    /// sizes, at which an execution proves what holds for more iterations, too. `None` as [`sizes`].
    pub(in super::super) fn wrapped(
        plan: &PlanTree,
        chunk_bytes: u64,
        windows: u64,
        groups: &BTreeSet<u32>,
    ) -> Option<Self> {
        Some(Self { windows, proves: true, ..Self::even(plan, chunk_bytes, groups)? })
    }

    /// Returns the same size for an execution that ignores packets of members that may be empty.
    pub(in super::super) fn conservative(self) -> Self {
        Self { conservative: true, ..self }
    }

    /// Returns whether an execution ignores packets of members that may be empty.
    pub(in super::super) fn is_conservative(&self) -> bool {
        self.conservative
    }

    /// Returns whether the execution must prove what holds for more iterations, too.
    pub(in super::super) fn proves(&self) -> bool {
        self.proves
    }

    /// Returns the number of operations of a plan's loops in all iterations.
    pub(in super::super) fn steps(&self, view: View) -> u128 {
        let mut steps = 0u128;
        each(view, &mut |at| {
            if let Some(body) = &at.op.body {
                steps =
                    steps.saturating_add(u128::from(self.trips(body)).saturating_mul(body.ops.len().max(1) as u128));
            }
        });
        steps
    }

    /// Returns the window of scratch that an iteration of a loop uses.
    pub(super) fn scratch_window(&self, window: Window) -> Window {
        Window { iteration: window.iteration.checked_rem(self.windows).unwrap_or(window.iteration), ..window }
    }

    /// Returns whether slices are cut as they are at no other size.
    pub(in super::super) fn is_uneven(&self) -> bool {
        self.grain > 1 && self.around != Around::Real
    }

    /// Returns whether loops make one or two iterations, which represent any number.
    pub(super) fn makes_few(&self) -> bool {
        self.around != Around::Real
    }

    /// Returns the number of addresses of a chunk.
    pub(in super::super) fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Returns the trip count of a loop.
    pub(in super::super) fn trips(&self, body: &LoopBody) -> u64 {
        let rate = Rate::of(body, 1);
        match self.around {
            Around::Few(twice) => 1 + u64::from(twice == Some(rate)),
            Around::Real => u64::try_from(rate.trips(self.chunk / self.parts)).unwrap_or(u64::MAX),
        }
    }

    /// Returns the addresses of a range of chunks: the slice of its operation, in a window of its loop.
    pub(super) fn range(&self, slice: Option<Slice>, window: Option<Window>, index: u32, size: u32) -> Range<u64> {
        let start = u64::from(index) * self.chunk();
        let length = u64::from(size) * self.chunk();
        let (from, to) = match slice {
            None => (0, length),
            Some(slice) => {
                let (units, of) = (u128::from(length / self.grain), u128::from(slice.count.max(1)));
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
            Some(Window { iteration, trips, unit }) => {
                let unit = match self.around {
                    Around::Real => unit.saturating_mul(self.parts),
                    Around::Few(_) => length.div_ceil(trips),
                };
                let begin = from.saturating_add(iteration.saturating_mul(unit));
                start + begin.min(to)..start + begin.saturating_add(unit).min(to)
            }
        }
    }
}

/// Returns whether the addresses of a plan's buffers are within the limit, with this many per chunk.
fn is_countable(plan: &PlanTree, chunk: u128) -> bool {
    let chunks = plan.ranks.iter().map(|rank| rank.input_chunks.max(rank.output_chunks).max(rank.scratch_chunks));
    u128::from(chunks.max().unwrap_or(0).max(1)).checked_mul(chunk).is_some_and(|positions| positions <= MAX_POSITIONS)
}

fn least_common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b.max(1));
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).saturating_mul(b.max(1)).min(MAX_PARTS)
}
