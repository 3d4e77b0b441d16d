//! What packets order at a size.

use std::collections::{BTreeMap, BTreeSet};

use super::cut::Cut;
use super::parts::{Part, Parts};

/// All that decides on the order of packets, as facts that hold at a size or do not. Of two sizes, agents know as much at the second one
/// if all facts of the first one hold there.
pub(super) struct Packets<'p> {
    /// Packets that have to do with each other: what is written, and what is read.
    groups: Vec<(Vec<Part>, Vec<Part>)>,
    /// Slices that a thread block touches.
    lengths: Vec<&'p Vec<(Cut, u32)>>,
    /// The size that was looked at last, and its order.
    last: Option<(u64, u32)>,
    numbers: BTreeMap<Facts, u32>,
    /// The orders that were seen, by number.
    orders: Vec<Facts>,
}

/// The facts of a size.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Facts {
    /// Who waits for whom: a read overlaps a write.
    waits: Bits,
    /// What else there is to know by.
    knows: Bits,
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
    pub(super) fn of(parts: &'p Parts) -> Self {
        let is_uneven = |slices: &&Vec<(Cut, u32)>| slices.iter().any(|(cut, _)| cut.is_uneven());
        let group = |group: BTreeSet<(Part, bool)>| {
            let (writes, reads): (Vec<_>, Vec<_>) = group.into_iter().partition(|(_, write)| *write);
            let parts = |list: Vec<(Part, bool)>| list.into_iter().map(|(part, _)| part).collect();
            (parts(writes), parts(reads))
        };
        Self {
            groups: parts.packets().into_iter().map(group).collect(),
            lengths: parts.lengths.iter().filter(is_uneven).collect(),
            last: None,
            numbers: BTreeMap::new(),
            orders: Vec::new(),
        }
    }

    /// Facts to look at for the order of a size, about.
    pub(super) fn cost(&self, units: u64) -> u64 {
        if self.last.is_some_and(|last| last.0 == units) {
            return 0;
        }
        let groups =
            self.groups.iter().map(|(writes, reads)| writes.len() as u64 * (writes.len() + 3 * reads.len()) as u64);
        let lengths = self.lengths.iter().map(|slices| (slices.len() as u64).saturating_pow(2));
        groups.chain(lengths).fold(1, u64::saturating_add)
    }

    /// The number of the order of packets at a size.
    pub(super) fn order(&mut self, units: u64) -> u32 {
        if let Some((_, number)) = self.last.filter(|last| last.0 == units) {
            return number;
        }
        let mut facts = Facts::default();
        let (mut written, mut read) = (Vec::new(), Vec::new());
        for (writes, reads) in &self.groups {
            for (parts, extents) in [(writes, &mut written), (reads, &mut read)] {
                extents.clear();
                extents.extend(parts.iter().map(|part| part.extent(units)));
            }
            facts.add_group(&written, &read);
        }
        for slices in &self.lengths {
            let length = |(cut, member): &(Cut, u32)| {
                let member = u64::from(*member);
                cut.begin(member + 1, units) - cut.begin(member, units)
            };
            for (number, one) in slices.iter().enumerate() {
                for other in &slices[..number] {
                    facts.knows.push(length(one) <= length(other));
                    facts.knows.push(length(one) >= length(other));
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

    /// Whether agents know as much in another order as in one.
    pub(super) fn is_enough(&self, one: u32, other: u32) -> bool {
        let (one, other) = (&self.orders[one as usize], &self.orders[other as usize]);
        one.waits.are_in(&other.waits) && one.knows.are_in(&other.knows)
    }

    /// Whether agents wait in one order for what they wait for in another one.
    pub(super) fn waits_as(&self, one: u32, other: u32) -> bool {
        self.orders[other as usize].waits.are_in(&self.orders[one as usize].waits)
    }
}

impl Facts {
    /// Of packets that have to do with each other, by extent.
    fn add_group(&mut self, writes: &[(u64, u64)], reads: &[(u64, u64)]) {
        let overlap = |one: &(u64, u64), other: &(u64, u64)| one.0.max(other.0) < one.1.min(other.1);
        for (number, write) in writes.iter().enumerate() {
            for read in reads {
                let waits = overlap(write, read);
                self.waits.push(waits);
                self.knows.push(waits && read.0 <= write.0 && write.1 <= read.1);
                self.knows.push(waits && read.0 == write.0 && read.1 <= write.1);
            }
            // Of what is written twice nobody knows which one he has read.
            for other in &writes[..number] {
                self.knows.push(!overlap(write, other));
            }
            let mut end = write.0;
            while let Some(next) =
                reads.iter().filter(|read| read.0 <= end).map(|read| read.1).max().filter(|next| *next > end)
            {
                end = next;
            }
            self.knows.push(end >= write.1);
        }
    }
}
