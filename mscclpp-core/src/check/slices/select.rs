//! Which sizes are enough.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::cut::{Columns, Cut, Entry};
use super::parts::{Part, Parts};

/// Entries of signatures that are looked at.
const MOST_ENTRIES: u64 = 1 << 25;

/// Entries of a component of which pairs are looked up.
const MOST_COMPARED: usize = 64;

/// Sizes that are kept, and what they have shown.
pub(super) struct Selection<'p> {
    packets: Option<Packets<'p>>,
    components: Vec<Component<'p>>,
    kept: BTreeSet<u64>,
    /// Entries that may still be looked at.
    left: u64,
}

/// Chunks that have to do with each other.
struct Component<'p> {
    columns: Columns<'p>,
    /// The signatures that were seen, each after the number of the order of packets.
    seen: BTreeMap<Vec<u32>, Seen>,
}

/// Where a signature was seen.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// Whether it is seen at the usual size, or another one says as much.
    elsewhere: bool,
    /// At how many of the sizes that are kept.
    times: u32,
}

impl<'p> Selection<'p> {
    /// The units of a chunk at which a plan must run; the cuts that stand in the way if that takes too long.
    pub(super) fn of(parts: &'p Parts, components: &'p BTreeSet<Vec<Entry>>) -> Result<Vec<u64>, Vec<Cut>> {
        let all_cuts = || parts.uneven().into_iter().collect::<Vec<_>>();
        let pairs = components.iter().map(|entries| (entries.len() as u64).saturating_pow(2));
        let left = MOST_ENTRIES.checked_sub(pairs.fold(0, u64::saturating_add)).ok_or_else(all_cuts)?;
        let packets = parts.has_packets.then(|| Packets::of(parts));
        let blocks = parts.blocks();
        let meet = |one, other| blocks.iter().any(|cuts| cuts.contains(&one) && cuts.contains(&other));
        let component = |entries: &'p Vec<Entry>| {
            let few = entries.len() <= MOST_COMPARED;
            Component { columns: Columns::new(entries, |one, other| !few || meet(one, other)), seen: BTreeMap::new() }
        };
        let components: Vec<_> = components.iter().map(component).collect();
        let all = 0..components.len();
        let mut selection = Self { packets, components, kept: BTreeSet::new(), left };
        // What is ordered anywhere depends on all packets.
        let groups = if parts.has_packets { vec![all.clone()] } else { all.clone().map(|one| one..one + 1).collect() };
        for group in groups {
            let cuts =
                if parts.has_packets { parts.uneven() } else { selection.components[group.start].columns.cuts() };
            selection.keep(group, &cuts).ok_or_else(|| cuts.into_iter().collect::<Vec<_>>())?;
        }
        selection.thin_out(all).ok_or_else(all_cuts)
    }

    /// Keeps sizes until all that there is of some components has been seen. `None` if there is too much to look at.
    fn keep(&mut self, components: Range<usize>, cuts: &BTreeSet<Cut>) -> Option<()> {
        let most = cuts.iter().map(|cut| u64::from(cut.of)).max().unwrap_or(1);
        let period = cuts.iter().try_fold(1, |all, cut| least_common_multiple(all, cut.period()))?;
        let periods = most / 4 + if self.packets.is_some() { 3 } else { 2 };
        let bound = period.checked_mul(periods).filter(|bound| *bound <= MOST_ENTRIES)?;
        // The usual size, at which all members have equal slices.
        let usual = Seen { elsewhere: true, times: 0 };
        self.is_new(period, components.clone(), usual)?;
        let kept: Vec<u64> = self.kept.iter().copied().collect();
        for units in kept {
            self.is_new(units, components.clone(), Seen::default())?;
        }
        for units in 1..=bound {
            if self.is_new(units, components.clone(), Seen::default())? {
                self.kept.insert(units);
            }
        }
        Some(())
    }

    /// Whether a size shows something that has not been seen; now it has.
    fn is_new(&mut self, units: u64, components: Range<usize>, now: Seen) -> Option<bool> {
        let mut new = false;
        self.visit(units, components, &mut |seen, members, key| {
            // What holds where all extents differ holds where some are equal.
            if !seen.contains_key(&key[..=members]) && !seen.contains_key(key) {
                seen.insert(key.to_vec(), now);
                new = true;
            }
        })?;
        Some(new)
    }

    /// The sizes that are kept, without those that show nothing that the others do not show.
    fn thin_out(mut self, all: Range<usize>) -> Option<Vec<u64>> {
        for Component { columns, seen } in &mut self.components {
            let members = columns.members();
            let less = seen.keys().filter(|key| key.len() > 1 + members && seen.contains_key(&key[..=members]));
            for key in less.cloned().collect::<Vec<_>>() {
                seen.remove(&key);
            }
        }
        // The first ones were kept for less than those after them show.
        let mut sizes: Vec<u64> = self.kept.iter().copied().collect();
        for units in &sizes {
            self.count(*units, all.clone(), |seen| seen.times += 1)?;
        }
        let mut failed = false;
        sizes.retain(|units| {
            let mut needed = false;
            failed |= self.count(*units, all.clone(), |seen| needed |= !seen.elsewhere && seen.times == 1).is_none();
            if !needed {
                failed |= self.count(*units, all.clone(), |seen| seen.times -= 1).is_none();
            }
            needed
        });
        (!failed).then_some(sizes)
    }

    /// Notes everything that a size shows once.
    fn count(&mut self, units: u64, components: Range<usize>, mut note: impl FnMut(&mut Seen)) -> Option<()> {
        for component in components {
            let mut here = BTreeSet::new();
            self.visit(units, component..component + 1, &mut |seen, _, key| {
                if let Some(seen) = seen.get_mut(key)
                    && here.insert(key.to_vec())
                {
                    note(seen);
                }
            })?;
        }
        Some(())
    }

    /// Visits the signatures of some components at a size, each after the order of packets.
    fn visit(
        &mut self,
        units: u64,
        components: Range<usize>,
        visit: &mut impl FnMut(&mut BTreeMap<Vec<u32>, Seen>, usize, &[u32]),
    ) -> Option<()> {
        let (order, entries) = self.packets.as_mut().map_or((0, 0), |packets| packets.order(units));
        let (mut looked, left) = (1 + entries, self.left);
        let mut key = Vec::new();
        for Component { columns, seen } in &mut self.components[components] {
            let members = columns.members();
            columns.visit(units, &mut |signature| {
                looked += signature.len() as u64;
                if looked <= left {
                    key.clear();
                    key.push(order);
                    key.extend_from_slice(signature);
                    visit(seen, members, &key);
                }
                looked <= left
            });
        }
        self.left = left.checked_sub(looked)?;
        Some(())
    }
}

/// What decides on the order of packets.
struct Packets<'p> {
    /// Packets that have to do with each other.
    groups: BTreeSet<Vec<Part>>,
    /// Slices that a thread block touches.
    lengths: Vec<&'p Vec<(Cut, u32)>>,
    /// The orders that were seen, by number.
    orders: BTreeMap<Vec<u32>, u32>,
}

impl<'p> Packets<'p> {
    fn of(parts: &'p Parts) -> Self {
        let is_uneven = |slices: &&Vec<(Cut, u32)>| slices.iter().any(|(cut, _)| cut.is_uneven());
        Self {
            groups: parts.packets(),
            lengths: parts.lengths.iter().filter(is_uneven).collect(),
            orders: BTreeMap::new(),
        }
    }

    /// The number of the order of packets at a size, and how much there was to look at.
    fn order(&mut self, units: u64) -> (u32, u64) {
        let mut order = Vec::new();
        let mut values = Vec::new();
        for group in &self.groups {
            values.clear();
            for part in group {
                let first = part.start * units;
                values.extend([0, 1].map(|next| first + part.cut.begin(u64::from(part.member) + next, units)));
            }
            rank(&values, &mut order);
        }
        for slices in &self.lengths {
            values.clear();
            values.extend(slices.iter().map(|(cut, member)| {
                let member = u64::from(*member);
                cut.begin(member + 1, units) - cut.begin(member, units)
            }));
            rank(&values, &mut order);
        }
        let (entries, next) = (order.len() as u64, self.orders.len() as u32);
        (*self.orders.entry(order).or_insert(next), entries)
    }
}

/// Adds which place each of some values has among them.
fn rank(values: &[u64], order: &mut Vec<u32>) {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    order.extend(values.iter().map(|value| sorted.partition_point(|other| other < value) as u32));
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b.max(1));
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b.max(1))
}
