//! Selection of the sizes that are enough.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::cut::{Columns, Component, Cut};
use super::packets::Packets;
use super::parts::Parts;

/// Maximum number of entries of signatures that are examined.
const MAX_ENTRIES: u64 = 1 << 25;

/// Maximum number of entries of a component whose pairs are compared.
const MAX_COMPARED: usize = 64;

/// The sizes that are kept, and the signatures and orders that they have.
pub(super) struct Selection<'p> {
    packets: Option<Packets<'p>>,
    components: Vec<Shown<'p>>,
    /// Orders in which agents wait for as much as in any other.
    waits: Vec<Seen>,
    kept: BTreeSet<u64>,
    /// Entries that may still be examined.
    left: u64,
}

/// The signatures of connected chunks that have occurred.
struct Shown<'p> {
    columns: Columns<'p>,
    /// By signature, the orders of packets in which it occurred that no other one makes superfluous.
    seen: BTreeMap<Vec<u32>, Vec<Seen>>,
}

/// An order that has occurred.
#[derive(Clone, Copy)]
struct Seen {
    order: u32,
    /// Whether it occurs at the usual size.
    usual: bool,
    /// At how many of the kept sizes it occurs.
    times: u32,
}

impl<'p> Selection<'p> {
    /// Returns the units of a chunk at which a plan must be executed, or conservatively executed; the cuts that take
    /// too long if there are any.
    pub(super) fn of(
        parts: &'p Parts,
        components: &'p BTreeSet<Component>,
        conservative: bool,
    ) -> Result<Vec<u64>, Vec<Cut>> {
        let all_cuts = || parts.uneven().into_iter().collect::<Vec<_>>();
        let pairs = components.iter().map(|component| (component.entries.len() as u64).saturating_pow(2));
        let left = MAX_ENTRIES.checked_sub(pairs.fold(0, u64::saturating_add)).ok_or_else(all_cuts)?;
        let packets = parts.has_packets.then(|| Packets::of(parts, conservative));
        let blocks = parts.blocks();
        let accessed_together = |one, other| blocks.iter().any(|cuts| cuts.contains(&one) && cuts.contains(&other));
        let shown = |component: &'p Component| {
            let all = parts.has_packets || component.entries.len() > MAX_COMPARED;
            Shown {
                columns: Columns::new(component, |one, other| all || accessed_together(one, other)),
                seen: BTreeMap::new(),
            }
        };
        // All members of a range that counts as a single chunk have a column at the usual size, and without packets
        // nothing else is required.
        let needs_look = |Component { span, entries }: &&Component| {
            let mut uneven = entries.iter().filter(|entry| entry.cut.is_uneven());
            parts.has_packets || uneven.next().is_none_or(|entry| entry.cut.len > *span) || uneven.next().is_some()
        };
        let components: Vec<_> = components.iter().filter(needs_look).map(shown).collect();
        let all = 0..components.len();
        let mut selection = Self { packets, components, waits: Vec::new(), kept: BTreeSet::new(), left };
        // The order depends on all packets of the plan.
        let groups = if parts.has_packets { vec![all.clone()] } else { all.clone().map(|one| one..one + 1).collect() };
        for group in groups {
            let cuts =
                if parts.has_packets { parts.uneven() } else { selection.components[group.start].columns.cuts() };
            selection.keep(group, &cuts).ok_or_else(|| cuts.into_iter().collect::<Vec<_>>())?;
        }
        selection.thin_out(all).ok_or_else(all_cuts)
    }

    /// Keeps sizes until all signatures and orders of some components have occurred. `None` if there are too many
    /// entries.
    fn keep(&mut self, components: Range<usize>, cuts: &BTreeSet<Cut>) -> Option<()> {
        let most = cuts.iter().map(|cut| u64::from(cut.of)).max().unwrap_or(1);
        let period = cuts.iter().try_fold(1, |all, cut| least_common_multiple(all, cut.period()))?;
        let periods = most / 4 + if self.packets.is_some() { 3 } else { 2 };
        let bound = period.checked_mul(periods).filter(|bound| *bound <= MAX_ENTRIES)?;
        // The usual size, at which all members have equal slices.
        self.is_new(period, components.clone(), true)?;
        let kept: Vec<u64> = self.kept.iter().copied().collect();
        for units in kept {
            self.is_new(units, components.clone(), false)?;
        }
        for units in 1..=bound {
            if self.is_new(units, components.clone(), false)? {
                self.kept.insert(units);
            }
        }
        Some(())
    }

    /// Returns whether a size, possibly the usual one, has a signature that has not occurred, and records it.
    fn is_new(&mut self, units: u64, components: Range<usize>, usual: bool) -> Option<bool> {
        let mut new = false;
        let mut order = 0;
        self.visit(units, components, &mut |packets, seen, members, now, signature| {
            order = now;
            let is_seen = |key: &[u32]| {
                let orders = seen.get(key).into_iter().flatten();
                orders.into_iter().any(|seen| is_enough(packets, seen.order, now))
            };
            // A result where all extents differ also holds where some are equal.
            if is_seen(&signature[..members]) || is_seen(signature) {
                return;
            }
            let orders = seen.entry(signature.to_vec()).or_default();
            orders.retain(|seen| !is_enough(packets, now, seen.order));
            orders.push(Seen { order, usual, times: 0 });
            new = true;
        })?;
        if let Some(packets) = &self.packets
            && !self.waits.iter().any(|seen| packets.waits_as(seen.order, order))
        {
            self.waits.retain(|seen| !packets.waits_as(order, seen.order));
            self.waits.push(Seen { order, usual, times: 0 });
            new = true;
        }
        Some(new)
    }

    /// Returns the kept sizes, without those that show nothing that the others do not show.
    fn thin_out(mut self, all: Range<usize>) -> Option<Vec<u64>> {
        for Shown { columns, seen } in &mut self.components {
            let members = columns.members();
            let apart: BTreeMap<Vec<u32>, Vec<u32>> = seen
                .iter()
                .filter(|(key, _)| key.len() == members)
                .map(|(key, orders)| (key.clone(), orders.iter().map(|seen| seen.order).collect()))
                .collect();
            for (key, orders) in seen.iter_mut().filter(|(key, _)| key.len() > members) {
                let apart = apart.get(&key[..members]).into_iter().flatten();
                apart.for_each(|one| orders.retain(|seen| !is_enough(self.packets.as_ref(), *one, seen.order)));
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
            failed |= self.count(*units, all.clone(), |seen| needed |= !seen.usual && seen.times == 1).is_none();
            if !needed {
                failed |= self.count(*units, all.clone(), |seen| seen.times = seen.times.saturating_sub(1)).is_none();
            }
            needed
        });
        (!failed).then_some(sizes)
    }

    /// Counts everything that a size shows once.
    fn count(&mut self, units: u64, components: Range<usize>, mut note: impl FnMut(&mut Seen)) -> Option<()> {
        let mut order = 0;
        for component in components {
            let mut here = BTreeSet::new();
            self.visit(units, component..component + 1, &mut |packets, seen, _, now, signature| {
                order = now;
                if !here.insert(signature.to_vec()) {
                    return;
                }
                for seen in seen.get_mut(signature).into_iter().flatten() {
                    if is_enough(packets, now, seen.order) {
                        note(seen);
                    }
                }
            })?;
        }
        if let Some(packets) = &self.packets {
            self.waits.iter_mut().filter(|seen| packets.waits_as(order, seen.order)).for_each(note);
        }
        Some(())
    }

    /// Visits the signatures of some components at a size, with the order of packets and what has occurred for the
    /// component.
    fn visit(&mut self, units: u64, components: Range<usize>, visit: &mut Visit) -> Option<()> {
        let (mut looked, left) = (1, self.left);
        let order = match &mut self.packets {
            Some(packets) => {
                looked += packets.cost(units);
                self.left.checked_sub(looked)?;
                packets.order(units)
            }
            None => 0,
        };
        let packets = self.packets.as_ref();
        for Shown { columns, seen } in &mut self.components[components] {
            let members = columns.members();
            columns.visit(units, &mut |signature| {
                looked += signature.len() as u64;
                if looked <= left {
                    visit(packets, seen, members, order, signature);
                }
                looked <= left
            });
        }
        self.left = left.checked_sub(looked)?;
        Some(())
    }
}

/// Called with what has occurred for a component, the members in its signatures, the order of packets and a signature.
type Visit<'v> = dyn FnMut(Option<&Packets>, &mut BTreeMap<Vec<u32>, Vec<Seen>>, usize, u32, &[u32]) + 'v;

/// Returns whether the clocks include as much in another order of packets as in one.
fn is_enough(packets: Option<&Packets>, one: u32, other: u32) -> bool {
    one == other || packets.is_some_and(|packets| packets.is_enough(one, other))
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b.max(1));
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b.max(1))
}
