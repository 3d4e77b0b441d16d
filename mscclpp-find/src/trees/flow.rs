//! Maximum flows with integer capacities.

use std::collections::VecDeque;

/// Capacities between elements, of which the first are ranks.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) num_ranks: usize,
    pub(super) num_elements: usize,
    /// Per pair of elements, by rows.
    capacities: Vec<u32>,
    /// Per element, those to which it has or had a link.
    next: Vec<Vec<usize>>,
}

impl Graph {
    pub(super) fn new(num_ranks: usize, num_elements: usize) -> Self {
        let capacities = vec![0; num_elements * num_elements];
        Self { num_ranks, num_elements, capacities, next: vec![Vec::new(); num_elements] }
    }

    /// Returns the capacity from one element to another.
    pub(super) fn get(&self, from: usize, to: usize) -> u32 {
        self.capacities[from * self.num_elements + to]
    }

    /// Adds to the capacity from one element to another.
    pub(super) fn add(&mut self, from: usize, to: usize, amount: u32) {
        if !self.next[from].contains(&to) {
            self.next[from].push(to);
        }
        self.capacities[from * self.num_elements + to] += amount;
    }

    /// Takes from the capacity from one element to another, which has at least that much.
    pub(super) fn take(&mut self, from: usize, to: usize, amount: u32) {
        self.capacities[from * self.num_elements + to] -= amount;
    }

    /// Returns the elements to which an element has capacity.
    pub(super) fn successors(&self, from: usize) -> Vec<usize> {
        self.next[from].iter().copied().filter(|to| self.get(from, *to) > 0).collect()
    }

    /// Returns the elements that have capacity to an element.
    pub(super) fn predecessors(&self, to: usize) -> Vec<usize> {
        (0..self.num_elements).filter(|from| self.get(*from, to) > 0).collect()
    }

    /// Returns whether units that start at ranks, as many as given for each, can all reach one rank at once.
    ///
    /// Shortest augmenting paths: O(units × links).
    pub(super) fn all_reach(&self, starts: &[u32], sink: usize) -> bool {
        let mut left = starts.to_vec();
        left[sink] = 0;
        let mut missing: u32 = left.iter().sum();
        let mut residual = Residual::of(self);
        while missing > 0 {
            let amount = residual.augment(&mut left, sink);
            if amount == 0 {
                return false;
            }
            missing -= amount;
        }
        true
    }

    /// Returns whether the units can reach every rank, each rank by itself.
    pub(super) fn all_reach_all(&self, starts: &[u32]) -> bool {
        (0..self.num_ranks).all(|sink| self.all_reach(starts, sink))
    }
}

/// What flows leave of the capacities.
struct Residual {
    num_elements: usize,
    capacities: Vec<u32>,
    /// Per element, those to which it may have capacity, backwards included.
    next: Vec<Vec<usize>>,
}

impl Residual {
    fn of(graph: &Graph) -> Self {
        let mut next = graph.next.clone();
        for (from, all) in graph.next.iter().enumerate() {
            for &to in all.iter().filter(|to| !graph.next[**to].contains(&from)) {
                next[to].push(from);
            }
        }
        Self { num_elements: graph.num_elements, capacities: graph.capacities.clone(), next }
    }

    /// Sends units along a shortest path from a rank that has some left to the sink, and returns how many.
    fn augment(&mut self, left: &mut [u32], sink: usize) -> u32 {
        let elements = self.num_elements;
        let mut by: Vec<Option<usize>> = vec![None; elements];
        let starts = (0..left.len()).filter(|rank| left[*rank] > 0);
        let mut queue: VecDeque<usize> = starts.collect();
        queue.iter().for_each(|&rank| by[rank] = Some(rank));
        while let Some(at) = queue.pop_front().filter(|_| by[sink].is_none()) {
            for &to in &self.next[at] {
                if by[to].is_none() && self.capacities[at * elements + to] > 0 {
                    by[to] = Some(at);
                    queue.push_back(to);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = sink;
        while let Some(from) = by[at].filter(|from| *from != at) {
            path.push((from, at));
            at = from;
        }
        if path.is_empty() {
            return 0;
        }
        let amount = path.iter().map(|(from, to)| self.capacities[from * elements + to]).fold(left[at], u32::min);
        for (from, to) in path {
            self.capacities[from * elements + to] -= amount;
            self.capacities[to * elements + from] += amount;
        }
        left[at] -= amount;
        amount
    }
}
