//! Bounds of the members of a group in a range of chunks.

use std::collections::BTreeSet;

/// How a range of chunks is cut into slices: the number of equal parts.
///
/// A range that is cut into whole chunks counts as the part that its slice is, cut into one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cut {
    /// Chunks of the range.
    pub(super) len: u32,
    /// Members of the group, 1 if the range is not cut.
    pub(super) of: u32,
}

impl Cut {
    /// Returns whether some members begin within chunks.
    pub(super) fn is_uneven(self) -> bool {
        self.of > 1
    }

    /// Returns whether a member is empty at some sizes.
    pub(super) fn may_be_empty(self, member: u32) -> bool {
        self.is_uneven() && member >= self.len
    }

    /// Returns the units per chunk after which the same members have more of every chunk.
    pub(super) fn period(self) -> u64 {
        u64::from(self.of / greatest_common_divisor(self.len, self.of))
    }

    /// Returns the unit of the range at which a member begins, with this many units per chunk.
    pub(super) fn begin(self, member: u64, units: u64) -> u64 {
        let (all, of) = (u64::from(self.len) * units, u64::from(self.of));
        member * (all / of) + member.min(all % of)
    }

    /// Returns the member that has a unit of the range.
    pub(super) fn member(self, unit: u64, units: u64) -> u64 {
        let (all, of) = (u64::from(self.len) * units, u64::from(self.of));
        let (each, longer) = (all / of, all % of);
        let long = longer * (each + 1);
        if unit < long { unit / (each + 1) } else { longer + (unit - long) / each.max(1) }
    }
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// A chunk of a range that is cut: the cut, and the position of the chunk in the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) cut: Cut,
    pub(super) offset: u32,
}

/// Connected chunks, as they are cut: the entries of one of them, or of ranges of `span` chunks that are always
/// accessed together and count as one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Component {
    pub(super) span: u32,
    pub(super) entries: Vec<Entry>,
}

/// A column while all columns of a size are visited: the member that has it by each entry, and that member's bounds.
pub(super) struct Columns<'e> {
    /// Chunks that count as one.
    span: u64,
    entries: &'e [Entry],
    /// Pairs of entries, by position, whose slices some thread block both accesses.
    compared: Vec<(usize, usize)>,
    /// Per entry: the member, and its extent, counted from the beginning of the chunk.
    slices: Vec<(u64, i64, i64)>,
    signature: Vec<u32>,
}

impl<'e> Columns<'e> {
    /// Creates the columns of a component. Some thread block accesses slices of both cuts if `accessed_together` returns true.
    pub(super) fn new(component: &'e Component, accessed_together: impl Fn(Cut, Cut) -> bool) -> Self {
        let Component { span, entries } = component;
        let pairs = (0..entries.len()).flat_map(|one| (0..one).map(move |other| (other, one)));
        let accessed_together =
            |(one, other): &(usize, usize)| accessed_together(entries[*one].cut, entries[*other].cut);
        let compared = pairs.filter(accessed_together).collect();
        let span = u64::from(*span);
        Self { span, entries, compared, slices: Vec::with_capacity(entries.len()), signature: Vec::new() }
    }

    /// Returns the number of members in a signature.
    pub(super) fn members(&self) -> usize {
        self.entries.len()
    }

    /// Returns the uneven cuts.
    pub(super) fn cuts(&self) -> BTreeSet<Cut> {
        self.entries.iter().map(|entry| entry.cut).filter(|cut| cut.is_uneven()).collect()
    }

    /// Visits the signatures of a size, column by column, as long as `visit` returns true. Each lists the member that
    /// has the column by entry. If some slices that one thread block accesses have equal extents, the signature
    /// continues with which of these do.
    pub(super) fn visit(&mut self, units: u64, visit: &mut impl FnMut(&[u32]) -> bool) {
        self.slices.clear();
        for entry in self.entries {
            let member = entry.cut.member(u64::from(entry.offset) * units, units);
            self.slices.push(extent(*entry, member, units));
        }
        let (mut at, all) = (0, self.span * units);
        while at < all {
            self.sign();
            if !visit(&self.signature) {
                return;
            }
            let ends = self.slices.iter().map(|(_, _, end)| *end);
            at = ends.min().and_then(|end| u64::try_from(end).ok()).unwrap_or(all);
            for (entry, slice) in self.entries.iter().zip(&mut self.slices) {
                if slice.2 == at as i64 && at < all {
                    let member = entry.cut.member(u64::from(entry.offset) * units + at, units);
                    *slice = extent(*entry, member, units);
                }
            }
        }
    }

    /// Writes the signature of the current column.
    fn sign(&mut self) {
        self.signature.clear();
        self.signature.extend(self.slices.iter().map(|(member, ..)| *member as u32));
        let slices = &self.slices;
        let is_equal =
            |(one, other): &(usize, usize)| (slices[*one].1, slices[*one].2) == (slices[*other].1, slices[*other].2);
        if self.compared.iter().any(is_equal) {
            self.signature.extend(self.compared.iter().map(|pair| u32::from(is_equal(pair))));
        }
    }
}

fn extent(Entry { cut, offset }: Entry, member: u64, units: u64) -> (u64, i64, i64) {
    let chunk = i64::from(offset) * units as i64;
    (member, cut.begin(member, units) as i64 - chunk, cut.begin(member + 1, units) as i64 - chunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_the_units_between_their_boundaries() {
        for (len, of) in [(1, 1), (1, 4), (3, 4), (2, 7), (5, 2), (7, 16)] {
            let cut = Cut { len, of };
            for units in 1..40 {
                for unit in 0..u64::from(len) * units {
                    let member = cut.member(unit, units);
                    assert!(
                        (cut.begin(member, units)..cut.begin(member + 1, units)).contains(&unit),
                        "{cut:?} {units}"
                    );
                }
                assert_eq!(cut.begin(of.into(), units), u64::from(len) * units);
            }
        }
    }
}
