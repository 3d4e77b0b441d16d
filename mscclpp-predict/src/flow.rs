//! Maximum flow, and the minimum cut that proves it.

use std::collections::VecDeque;

/// A network with directed edges of some capacity.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// Per edge, where it ends and what is left of its capacity; the reverse of edge `e` is `e ^ 1`.
    edges: Vec<(usize, f64)>,
    outgoing: Vec<Vec<usize>>,
}

/// Part of a capacity below which the rest of it is rounding.
const EPSILON: f64 = 1e-9;

impl Network {
    pub(crate) fn new(elements: usize) -> Self {
        Self { edges: Vec::new(), outgoing: vec![Vec::new(); elements] }
    }

    pub(crate) fn add(&mut self, from: usize, to: usize, capacity: f64) {
        for (from, to, capacity) in [(from, to, capacity), (to, from, 0.0)] {
            self.outgoing[from].push(self.edges.len());
            self.edges.push((to, capacity));
        }
    }

    /// Returns the maximum flow, and for every element whether it is on the source's side of a minimum cut.
    ///
    /// Shortest augmenting paths: O(elements × edges²), whatever the capacities.
    pub(crate) fn max_flow(mut self, source: usize, sink: usize) -> (f64, Vec<bool>) {
        let largest = self.edges.iter().map(|(_, capacity)| *capacity).fold(0.0, f64::max);
        let (mut flow, least) = (0.0, largest * EPSILON);
        loop {
            let mut by: Vec<Option<usize>> = vec![None; self.outgoing.len()];
            let mut reached = vec![false; self.outgoing.len()];
            reached[source] = true;
            let mut queue = VecDeque::from([source]);
            while let Some(at) = queue.pop_front().filter(|_| !reached[sink]) {
                for &edge in &self.outgoing[at] {
                    let (to, left) = self.edges[edge];
                    if left > least && !reached[to] {
                        (reached[to], by[to]) = (true, Some(edge));
                        queue.push_back(to);
                    }
                }
            }
            if !reached[sink] || source == sink {
                return (flow, reached);
            }
            let mut path = Vec::new();
            let mut at = sink;
            while let Some(edge) = by[at] {
                path.push(edge);
                at = self.edges[edge ^ 1].0;
            }
            let amount = path.iter().map(|edge| self.edges[*edge].1).fold(f64::INFINITY, f64::min);
            for edge in path {
                self.edges[edge].1 -= amount;
                self.edges[edge ^ 1].1 += amount;
            }
            flow += amount;
        }
    }
}
