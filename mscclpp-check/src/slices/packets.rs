//! The order by packets at a size.

use std::collections::BTreeMap;

use super::cut::Cut;
use super::parts::{Part, Parts};

/// Everything that determines the order by packets, as facts that hold at a size or do not. If all facts of one size
/// hold at a second one, the clocks at the second size include as much.
pub(super) struct Packets<'p> {
    /// Whether packets of members that may be empty are ignored.
    conservative: bool,
    /// Connected packets: the parts that are written, and those that are read.
    groups: Vec<(Vec<Part>, Vec<Part>)>,
    /// Slices that a thread block accesses.
    lengths: Vec<&'p Vec<(Cut, u32)>>,
    /// The size that was examined last, and its order.
    last: Option<(u64, u32)>,
    numbers: BTreeMap<Facts, u32>,
    /// The orders that occurred, by number.
    orders: Vec<Facts>,
}

/// The facts of a size.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Facts {
    /// Which read waits for which write: they overlap.
    waits: Bits,
    /// Facts that add to clocks.
    orders: Bits,
}

/// A part of some packets: its bounds at a size, and whether it is ignored.
#[derive(Clone, Copy)]
struct Extent {
    range: (u64, u64),
    is_ignored: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        if let Some(last) = self.words.last_mut() {
            *last |= u64::from(bit) << (self.len % 64);
        }
        self.len += 1;
    }

    fn are_in(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(one, other)| one & !other == 0)
    }
}

impl<'p> Packets<'p> {
    pub(super) fn of(parts: &'p Parts, conservative: bool) -> Self {
        let is_uneven = |slices: &&Vec<(Cut, u32)>| slices.iter().any(|(cut, _)| cut.is_uneven());
        let group = |group: &Vec<(Part, bool)>| {
            let parts =
                |written: bool| group.iter().filter(|(_, write)| *write == written).map(|(part, _)| *part).collect();
            (parts(true), parts(false))
        };
        Self {
            conservative,
            groups: parts.packets.iter().map(group).collect(),
            lengths: parts.lengths.iter().filter(is_uneven).collect(),
            last: None,
            numbers: BTreeMap::new(),
            orders: Vec::new(),
        }
    }

    /// Returns the approximate number of facts to compute for the order of a size.
    pub(super) fn cost(&self, units: u64) -> u64 {
        if self.last.is_some_and(|last| last.0 == units) {
            return 0;
        }
        let groups =
            self.groups.iter().map(|(writes, reads)| writes.len() as u64 * (writes.len() + 3 * reads.len()) as u64);
        let lengths = self.lengths.iter().map(|slices| (slices.len() as u64).saturating_pow(2));
        groups.chain(lengths).fold(1, u64::saturating_add)
    }

    /// Returns the number of the order of packets at a size.
    pub(super) fn order(&mut self, units: u64) -> u32 {
        if let Some((_, number)) = self.last.filter(|last| last.0 == units) {
            return number;
        }
        let mut facts = Facts::default();
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for (writes, reads) in &self.groups {
            for (parts, extents) in [(writes, &mut written), (reads, &mut read)] {
                extents.clear();
                let is_ignored = |part: &Part| self.conservative && part.may_be_empty();
                extents.extend(
                    parts.iter().map(|part| Extent { range: part.extent(units), is_ignored: is_ignored(part) }),
                );
            }
            facts.add_group(&written, &read);
        }
        for slices in &self.lengths {
            let length = |(cut, member): &(Cut, u32)| {
                let member = u64::from(*member);
                cut.begin(member + 1, units) - cut.begin(member, units)
            };
            let is_ignored = |(cut, member): &(Cut, u32)| self.conservative && cut.may_be_empty(*member);
            for (number, one) in slices.iter().enumerate() {
                for other in &slices[..number] {
                    // Only ranges of packets that are not ignored are compared with others.
                    facts.orders.push(!is_ignored(other) && length(one) <= length(other));
                    facts.orders.push(!is_ignored(one) && length(one) >= length(other));
                }
            }
        }
        let next = self.orders.len() as u32;
        let number = *self.numbers.entry(facts.clone()).or_insert(next);
        if number == next {
            self.orders.push(facts);
        }
        self.last = Some((units, number));
        number
    }

    /// Returns whether the clocks include as much in another order as in one.
    pub(super) fn is_enough(&self, one: u32, other: u32) -> bool {
        let (one, other) = (&self.orders[one as usize], &self.orders[other as usize]);
        one.orders.are_in(&other.orders)
    }

    /// Returns whether agents wait in one order for everything for which they wait in another one.
    pub(super) fn waits_as(&self, one: u32, other: u32) -> bool {
        self.orders[other as usize].waits.are_in(&self.orders[one as usize].waits)
    }
}

impl Facts {
    /// Adds the facts of connected packets, by extent.
    fn add_group(&mut self, writes: &[Extent], reads: &[Extent]) {
        let overlap = |one: (u64, u64), other: (u64, u64)| one.0.max(other.0) < one.1.min(other.1);
        for (number, Extent { range: write, is_ignored }) in writes.iter().enumerate() {
            for Extent { range: read, is_ignored: is_unread } in reads {
                let waits = overlap(*write, *read);
                self.waits.push(waits);
                let acquires = waits && !is_ignored && !is_unread;
                self.orders.push(acquires);
                self.orders.push(acquires && read.0 <= write.0 && write.1 <= read.1);
                self.orders.push(acquires && read.0 == write.0 && read.1 <= write.1);
            }
            // Of packets that are written twice, a reader cannot determine which it has read.
            for other in &writes[..number] {
                self.orders.push(!(overlap(*write, other.range) || *is_ignored && other.is_ignored));
            }
            let mut end = write.0;
            let reads = || reads.iter().map(|read| read.range);
            while let Some(next) =
                reads().filter(|read| read.0 <= end).map(|read| read.1).max().filter(|next| *next > end)
            {
                end = next;
            }
            self.orders.push(!is_ignored && end >= write.1);
        }
    }
}
