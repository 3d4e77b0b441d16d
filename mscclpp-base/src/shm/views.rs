//! Memory that one rank of several processes accesses in its launches.

use std::ops::Range;
use std::sync::Arc;

use super::Segment;
use crate::memory::{Lent, LentSlices, Loan};

/// Slices by number, as in a [`Table`](crate::memory::Table): parts of segments, which stay, and loans for the duration of a
/// launch.
pub struct Views {
    list: Vec<Lent>,
    /// Keeps the segments of the parts mapped.
    segments: Vec<Option<Arc<Segment>>>,
}

impl Views {
    /// Creates empty slices.
    pub fn new(slices: usize) -> Self {
        Self { list: vec![Lent::EMPTY; slices], segments: vec![None; slices] }
    }

    /// Makes a part of a segment slice `number`, for reading and writing, and returns whether the segment has that
    /// part.
    ///
    /// Other processes access the part in any way. At these addresses, this one accesses it in atomic units only, except
    /// while its owner holds it as a slice; then no launch uses it.
    pub fn set(&mut self, number: usize, segment: &Arc<Segment>, part: Range<u64>) -> bool {
        let inside = part.start <= part.end && part.end <= segment.len() as u64;
        if inside {
            let base = segment.base().as_ptr().wrapping_add(part.start as usize);
            // SAFETY: the part is in the segment, which `segments` keeps mapped, for reading and writing, until another
            // slice replaces this one; this borrows the list exclusively. Accessed as documented above.
            self.list[number] = unsafe { Lent::new(base, (part.end - part.start) as usize, false) };
            if self.segments[number].as_ref().is_none_or(|segments| !Arc::ptr_eq(segments, segment)) {
                self.segments[number] = Some(Arc::clone(segment));
            }
        }
        inside
    }

    /// Lends slices while `run` runs, and takes them back also on a panic. Each gets one number or two.
    pub fn lend<'a, const N: usize, R>(
        &mut self,
        loans: [(Loan<'a>, usize, Option<usize>); N],
        run: impl FnOnce(&mut Self) -> R,
    ) -> R {
        struct TakeBack<'v, const N: usize>(&'v mut Views, [(usize, Option<usize>); N]);
        impl<const N: usize> Drop for TakeBack<'_, N> {
            fn drop(&mut self) {
                for number in self.1.into_iter().flat_map(|(one, other)| [Some(one), other]).flatten() {
                    self.0.list[number] = Lent::EMPTY;
                    self.0.segments[number] = None;
                }
            }
        }

        let guard = TakeBack(self, loans.each_ref().map(|(_, one, other)| (*one, *other)));
        for (loan, one, other) in loans {
            // SAFETY: the loan is borrowed, exclusively if it is written to, until `run` has returned, and the guard takes
            // it back before that borrow ends. Only `run` can reach it, through `LentSlices`, which access units.
            let lent = unsafe {
                match loan {
                    Loan::Read(bytes) => Lent::new(bytes.as_ptr().cast_mut(), bytes.len(), true),
                    Loan::Write(bytes) => Lent::new(bytes.as_mut_ptr(), bytes.len(), false),
                }
            };
            for number in [Some(one), other].into_iter().flatten() {
                guard.0.list[number] = lent;
                guard.0.segments[number] = None;
            }
        }
        run(guard.0)
    }

    /// Returns access to the slices.
    pub fn memory(&self) -> LentSlices<'_> {
        // A part of a segment stays mapped while `segments` holds it; a loan lives until `lend` returns, which takes it
        // back, and the result cannot outlive the borrow that `lend` passes to its closure.
        LentSlices::new(&self.list)
    }
}
