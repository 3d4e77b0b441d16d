//! Queues of what happens at which time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nodes with the time at which something happens to them, and a number that says what: the earliest time first, then the lowest node.
///
/// An entry is one integer, time first, whose order is that of the entries: numbers that are not negative have the order of their bits.
#[derive(Default)]
pub(super) struct Queue(BinaryHeap<Reverse<u128>>);

impl Queue {
    fn entry(time: f64, node: u32, what: u32) -> Reverse<u128> {
        debug_assert!(time >= 0.0, "{time}");
        Reverse(u128::from(time.to_bits()) << 64 | u128::from(node) << 32 | u128::from(what))
    }

    /// Adds an entry for a time that is not negative.
    pub(super) fn push(&mut self, time: f64, node: u32, what: u32) {
        self.0.push(Self::entry(time, node, what));
    }

    /// Returns the first time, with node and number.
    pub(super) fn first(&self) -> Option<(f64, u32, u32)> {
        let Reverse(entry) = *self.0.peek()?;
        Some((f64::from_bits((entry >> 64) as u64), (entry >> 32) as u32, entry as u32))
    }

    /// Removes the first entry.
    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    /// Replaces all entries: faster than many insertions.
    pub(super) fn replace(&mut self, entries: impl Iterator<Item = (f64, u32, u32)>) {
        let mut all = std::mem::take(&mut self.0).into_vec();
        all.clear();
        all.extend(entries.map(|(time, node, what)| Self::entry(time, node, what)));
        self.0 = BinaryHeap::from(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_ordered_by_time_and_node() {
        let mut queue = Queue::default();
        queue.replace([(1e-300, 9, 1), (0.5, 7, u32::MAX)].into_iter());
        for (time, node, what) in [(0.5, 3, 2), (f64::INFINITY, 0, 3), (0.0, u32::MAX, 4)] {
            queue.push(time, node, what);
        }
        let mut found = Vec::new();
        while let Some(first) = queue.first() {
            found.push(first);
            queue.pop();
        }
        let expected = [(0.0, u32::MAX, 4), (1e-300, 9, 1), (0.5, 3, 2), (0.5, 7, u32::MAX), (f64::INFINITY, 0, 3)];
        assert_eq!(found, expected);
    }
}
