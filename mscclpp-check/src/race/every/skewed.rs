//! Operands of loops whose windows overlap those of other iterations.

use std::collections::BTreeMap;

use crate::conditions::{Condition, applies};
use crate::model::{Access, Model};
use crate::race::shadow_memory::RecordedAccess;
use mscclpp_plan::raw::Slice;

/// An operand in a loop: its agent, the position of the loop, the position in the loop, and which of the operation's
/// accesses it is.
type Reference = (u32, u32, u32, u32);

/// Operands with equal windows: two of them overlap only in iterations of equal number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// Rank and number of the buffer.
    memory: (u32, u8),
    /// The first chunk, and the number of chunks.
    start: u64,
    chunks: u64,
    /// Bytes of a window.
    unit: u64,
    /// Index and count of slices.
    slice: (u32, u32),
}

/// Which iterations of another operand, other than that of the same number, overlap an iteration of one operand at any
/// size.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Overlap {
    class: usize,
    earlier: bool,
    later: bool,
}

/// The accesses that an agent has made with an operand.
struct Track {
    by: u32,
    reference: Reference,
    /// Trip count of its loop.
    trips: usize,
    /// By iteration.
    accesses: Vec<RecordedAccess>,
}

/// Operands of loops that overlap others skewed, and their accesses.
#[derive(Default)]
pub(in crate::race) struct Skewed {
    classes: BTreeMap<Reference, usize>,
    /// Per class, those that it overlaps.
    meets: Vec<Vec<Overlap>>,
    tracks: Vec<Vec<Track>>,
}

/// Maximum number of classes of a buffer that are compared.
const MAX_CLASSES: usize = 1 << 9;

impl Skewed {
    /// Classifies the operands of loops. `None` if there are too many classes.
    pub(in crate::race) fn of(model: &Model) -> Option<Self> {
        let mut classes: BTreeMap<Class, (usize, bool)> = BTreeMap::new();
        let mut references: Vec<(Reference, usize)> = Vec::new();
        // Which of them overlap does not depend on the size.
        if !model.size.proves() || model.size.is_uneven() || !applies(Condition::Skewed) {
            return Some(Self::default());
        }
        for (agent, own) in (0..).zip(&model.agents) {
            let mut last = (0, 0);
            for step in own.steps.clone().filter(|step| model.in_loop(*step)) {
                // The first iteration shows where an operand begins; later ones have the same.
                if model.place_of(step) <= last {
                    continue;
                }
                last = model.place_of(step);
                for effect in model.effects(step) {
                    let reference = reference(model, agent, step, effect)?;
                    let next = classes.len();
                    let (number, writes) = classes.entry(class(model, agent, step, effect)?).or_insert((next, false));
                    *writes |= effect.write;
                    references.push((reference, *number));
                }
            }
        }
        let mut meets: Vec<Vec<Overlap>> = vec![Vec::new(); classes.len()];
        let all: Vec<_> = classes.iter().collect();
        for of_memory in all.chunk_by(|(one, _), (other, _)| one.memory == other.memory) {
            if of_memory.len() > MAX_CLASSES {
                return None;
            }
            for (i, (one, (a, writes))) in of_memory.iter().enumerate() {
                for (other, (b, others)) in &of_memory[i + 1..] {
                    if (*writes || *others) && may_overlap(one, other) {
                        let (earlier, later) = (!one.is_never_earlier(other), !other.is_never_earlier(one));
                        meets[*a].push(Overlap { class: *b, earlier, later });
                        meets[*b].push(Overlap { class: *a, earlier: later, later: earlier });
                    }
                }
            }
        }
        references.retain(|(_, class)| !meets[*class].is_empty());
        // They are in order.
        let classes = references.into_iter().collect();
        let tracks = meets.iter().map(|_| Vec::new()).collect();
        Some(Self { classes, meets, tracks })
    }

    /// Returns whether no two operands overlap skewed.
    pub(in crate::race) fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Records the next access of an agent in a step of a block, if it overlaps others skewed. Returns an access that
    /// is ordered neither before nor after all of it: one of an iteration that overlaps this one and does not happen
    /// before it, or the last one of an operand that has not yet executed all iterations that overlap this one.
    pub(in crate::race) fn add(
        &mut self,
        model: &Model,
        (agent, by): (usize, u32),
        effect: &Access,
        new: RecordedAccess,
        is_over: impl Fn(&RecordedAccess) -> bool,
    ) -> Option<RecordedAccess> {
        let step = new.step as usize;
        if !model.in_loop(step) {
            return None;
        }
        let reference = reference(model, agent as u32, step, effect)?;
        let class = *self.classes.get(&reference)?;
        let own = self.tracks[class].iter().position(|track| (track.by, track.reference) == (by, reference));
        let own = own.unwrap_or_else(|| {
            let trips = model.loop_of(agent, step).map_or(1, |(_, body)| model.size.trips(body));
            let trips = usize::try_from(trips).unwrap_or(usize::MAX);
            self.tracks[class].push(Track { by, reference, trips, accesses: Vec::new() });
            self.tracks[class].len() - 1
        });
        let nth = self.tracks[class][own].accesses.len();
        self.tracks[class][own].accesses.push(new);
        let met =
            self.meets[class].iter().flat_map(|meets| self.tracks[meets.class].iter().map(move |track| (meets, track)));
        let mut races = met.filter_map(|(meets, track)| {
            let first = if meets.earlier { 0 } else { nth };
            let last = if meets.later { track.trips.saturating_sub(1) } else { nth };
            let done = track.accesses.get(first)?;
            if !(done.write || new.write) {
                return None;
            }
            match track.accesses.get(last) {
                Some(old) => (!is_over(old)).then_some(*old),
                None => track.accesses.last().copied(),
            }
        });
        races.next()
    }
}

fn reference(model: &Model, agent: u32, step: usize, effect: &Access) -> Option<Reference> {
    let number = model.effects(step).iter().position(|own| std::ptr::eq(own, effect))?;
    let (index, inner) = model.place_of(step);
    Some((agent, index, inner, number as u32))
}

fn class(model: &Model, agent: u32, step: usize, effect: &Access) -> Option<Class> {
    let at = model.placed(agent as usize, step);
    let body = at.inside?.1.body.as_deref()?;
    let slice = at.op.slice.unwrap_or(Slice { index: 0, count: 1 });
    Some(Class {
        memory: (effect.owner, effect.memory as u8),
        start: model.first_chunk(at.op.slice, body.num_chunks, effect)?,
        // As the shape rule has checked.
        chunks: body.num_chunks.into(),
        unit: body.unit,
        slice: (slice.index, slice.count.max(1)),
    })
}

/// Maximum number of sizes that are tried for slices of different groups.
const MAX_UNITS: u128 = 1 << 10;

/// Returns whether two slices overlap for chunks of any number of units.
fn may_overlap(one: &Class, other: &Class) -> bool {
    let end = |class: &Class| class.start + class.chunks;
    if one.start >= end(other) || other.start >= end(one) {
        return false;
    }
    if one.slice.1 == 1 && other.slice.1 == 1 {
        return true;
    }
    if (one.start, one.chunks, one.slice.1) == (other.start, other.chunks, other.slice.1) {
        return one.slice.0 == other.slice.0;
    }
    // No two slices overlap for the first time at more units than twice a common period of both groups.
    let period = |class: &Class| u128::from(class.slice.1) / u128::from(gcd(class.slice.1.into(), class.chunks));
    let (a, b) = (period(one), period(other));
    let common = gcd(u64::try_from(a).unwrap_or(1), u64::try_from(b).unwrap_or(1));
    let period = a / u128::from(common) * b;
    let most = period.saturating_mul(2 + u128::from(one.slice.1.max(other.slice.1) / 4));
    most > MAX_UNITS
        || (1..=most).any(|units| {
            let ((a, b), (c, d)) = (one.places(units), other.places(units));
            a < d && c < b && a < b && c < d
        })
}

impl Class {
    /// Returns whether no iteration of another operand overlaps an earlier iteration of this one: this one begins and
    /// ends no sooner, so that with as many iterations it is always at least as far.
    fn is_never_earlier(&self, other: &Self) -> bool {
        // In chunks times slices. Slices may begin later, by less than a chunk.
        let start = |class: &Self| {
            u128::from(class.start) * u128::from(class.slice.1) + u128::from(class.chunks) * u128::from(class.slice.0)
        };
        let (own, others) = (start(self) * u128::from(other.slice.1), start(other) * u128::from(self.slice.1));
        let slices = u128::from(self.slice.1) * u128::from(other.slice.1);
        let (end, other_end) = (own + u128::from(self.chunks) * slices, others + u128::from(other.chunks) * slices);
        self.rate() == other.rate() && other.slice.0 == 0 && own >= others && end >= other_end
    }

    fn rate(&self) -> (u64, u64) {
        let divisor = gcd(self.unit, self.chunks);
        (self.unit / divisor, self.chunks / divisor)
    }

    /// Returns the bounds of the slice for chunks of the given number of units.
    fn places(&self, units: u128) -> (u128, u128) {
        let (length, of) = (u128::from(self.chunks) * units, u128::from(self.slice.1));
        let start = u128::from(self.start) * units;
        let cut = |number: u128| start + number * (length / of) + number.min(length % of);
        (cut(self.slice.0.into()), cut(u128::from(self.slice.0) + 1))
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
