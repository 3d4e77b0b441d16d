//! The nodes that wait for each node.

use mscclpp_check::execution::{Dependency, Execution};

/// Per node of an execution, the nodes that wait for it, and why.
pub(super) struct Dependents {
    all: Vec<(u32, Dependency)>,
    /// Per node, where its part begins.
    first: Vec<u32>,
}

impl Dependents {
    /// Reverses the dependencies of an execution.
    pub(super) fn of(run: &Execution) -> Self {
        let count = run.nodes.len();
        let mut first = vec![0u32; count + 1];
        for node in 0..count {
            run.dependencies(node).iter().for_each(|(before, _)| first[*before as usize + 1] += 1);
        }
        (0..count).for_each(|node| first[node + 1] += first[node]);
        let mut all = vec![(0, Dependency::Order); first[count] as usize];
        let mut next = first.clone();
        for (number, node) in (0..).zip(0..count) {
            for &(before, why) in run.dependencies(node) {
                all[next[before as usize] as usize] = (number, why);
                next[before as usize] += 1;
            }
        }
        Self { all, first }
    }

    /// Returns the nodes that wait for a node.
    pub(super) fn of_node(&self, node: u32) -> &[(u32, Dependency)] {
        &self.all[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }
}
