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
    /// Blocking flows over shortest paths: O(elements² × edges), whatever the capacities.
    pub(crate) fn max_flow(mut self, source: usize, sink: usize) -> (f64, Vec<bool>) {
        let largest = self.edges.iter().map(|(_, capacity)| *capacity).fold(0.0, f64::max);
        let (mut flow, min) = (0.0, largest * EPSILON);
        loop {
            let distance = self.distances(source, min);
            if distance[sink].is_none() || source == sink {
                return (flow, distance.iter().map(Option::is_some).collect());
            }
            flow += self.block(source, sink, &distance, min);
        }
    }

    /// Returns the numbers of edges with capacity left from the source to every element that it reaches.
    fn distances(&self, source: usize, min: f64) -> Vec<Option<u32>> {
        let mut distance = vec![None; self.outgoing.len()];
        distance[source] = Some(0);
        let mut queue = VecDeque::from([source]);
        while let Some(at) = queue.pop_front() {
            let next = distance[at].map(|edges| edges + 1);
            for &edge in &self.outgoing[at] {
                let (to, left) = self.edges[edge];
                if left > min && distance[to].is_none() {
                    distance[to] = next;
                    queue.push_back(to);
                }
            }
        }
        distance
    }

    /// Uses up an edge of every shortest path, and returns the flow through them.
    fn block(&mut self, source: usize, sink: usize, distance: &[Option<u32>], min: f64) -> f64 {
        // Per element, the first of its edges that may be on a shortest path.
        let mut next = vec![0; self.outgoing.len()];
        let mut path: Vec<usize> = Vec::new();
        let mut flow = 0.0;
        loop {
            let at = path.last().map_or(source, |edge| self.edges[*edge].0);
            if at == sink {
                let amount = path.iter().map(|edge| self.edges[*edge].1).fold(f64::INFINITY, f64::min);
                for &edge in &path {
                    self.edges[edge].1 -= amount;
                    self.edges[edge ^ 1].1 += amount;
                }
                flow += amount;
                let used = path.iter().position(|edge| self.edges[*edge].1 <= min);
                path.truncate(used.unwrap_or(0));
                continue;
            }
            let closer = |edge: usize| {
                let (to, left) = self.edges[edge];
                left > min && distance[to].is_some() && distance[to] == distance[at].map(|edges| edges + 1)
            };
            match self.outgoing[at][next[at]..].iter().position(|edge| closer(*edge)) {
                Some(skipped) => {
                    next[at] += skipped;
                    path.push(self.outgoing[at][next[at]]);
                }
                // No path leads on from here.
                None => match path.pop() {
                    Some(edge) => next[self.edges[edge ^ 1].0] += 1,
                    None => return flow,
                },
            }
        }
    }
}
