//! Fair shares of resources.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that progresses from 0 to 1, alone at its own speed, and slower where resources are shared.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Progress per microsecond without other flows.
    pub(super) alone: f64,
    /// Resources, and what the whole flow uses of each.
    pub(super) uses: Vec<(usize, f64)>,
}

/// A resource whose flows at most progress at a factor of their own speeds: the lowest factor first, then the lowest resource.
#[derive(PartialEq)]
struct Limit {
    factor: f64,
    resource: usize,
}

impl Eq for Limit {}

impl Ord for Limit {
    fn cmp(&self, other: &Self) -> Ordering {
        other.factor.total_cmp(&self.factor).then(other.resource.cmp(&self.resource))
    }
}

impl PartialOrd for Limit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Computes fair speeds. All vectors are per resource.
#[derive(Debug)]
pub(super) struct FairShare {
    capacities: Vec<f64>,
    /// What flows that have no speed yet would use, and what the others leave of the capacity.
    demand: Vec<f64>,
    left: Vec<f64>,
    /// The flows that have no speed yet, as positions in the list.
    flows: Vec<Vec<u32>>,
}

impl FairShare {
    pub(super) fn new(capacities: Vec<f64>) -> Self {
        let count = capacities.len();
        Self { capacities, demand: vec![0.0; count], left: vec![0.0; count], flows: vec![Vec::new(); count] }
    }

    /// Returns whether flows that together use this much per microsecond, alone, exceed a resource.
    pub(super) fn exceeds(&self, resource: usize, demand: f64) -> bool {
        demand > self.capacities[resource]
    }

    /// Returns the factor of its own speed at which every flow progresses, so that none of the given resources exceeds its capacity.
    /// All flows of a saturated resource are slowed down by one factor, and flows that are slowed down less elsewhere use
    /// what others leave (max-min fairness). Other resources have no limit.
    pub(super) fn factors(&mut self, flows: &[&Flow], resources: &[usize]) -> Vec<f64> {
        for &resource in resources {
            (self.demand[resource], self.left[resource]) = (0.0, self.capacities[resource]);
            self.flows[resource].clear();
        }
        // Entries of other resources are not read.
        for (number, flow) in (0..).zip(flows) {
            for &(resource, amount) in &flow.uses {
                self.demand[resource] += amount * flow.alone;
                self.flows[resource].push(number);
            }
        }
        let limit =
            |share: &Self, resource: usize| Limit { factor: share.left[resource] / share.demand[resource], resource };
        let mut limits: BinaryHeap<Limit> = resources.iter().map(|&resource| limit(self, resource)).collect();
        let mut factors = vec![None; flows.len()];
        // Factors of resources only grow while flows get their speeds; what rounding takes from them is undone.
        let mut min = 0.0_f64;
        while let Some(Limit { factor, resource }) = limits.pop().filter(|limit| limit.factor < 1.0) {
            if self.flows[resource].iter().all(|flow| factors[*flow as usize].is_some()) {
                continue;
            }
            let current = limit(self, resource);
            if current.factor > factor {
                limits.push(current);
                continue;
            }
            min = min.max(factor);
            for number in std::mem::take(&mut self.flows[resource]) {
                if factors[number as usize].is_some() {
                    continue;
                }
                factors[number as usize] = Some(min);
                let flow = flows[number as usize];
                for &(used, amount) in &flow.uses {
                    self.demand[used] -= amount * flow.alone;
                    self.left[used] -= amount * flow.alone * min;
                }
            }
        }
        // Vectors of resources that are not given are not cleared at the start.
        flows.iter().flat_map(|flow| &flow.uses).for_each(|&(resource, _)| self.flows[resource].clear());
        factors.into_iter().map(|factor| factor.unwrap_or(1.0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_share_a_resource_and_use_what_others_leave() {
        let flow = |alone, uses: &[(usize, f64)]| Flow { alone, uses: uses.to_vec() };
        let factors = |flows: &[Flow], capacities: &[f64]| {
            let all: Vec<usize> = (0..capacities.len()).collect();
            FairShare::new(capacities.to_vec()).factors(&flows.iter().collect::<Vec<_>>(), &all)
        };
        // Two flows want all of resource 0; one of them is limited to a quarter by resource 1.
        let flows = [flow(1.0, &[(0, 100.0)]), flow(1.0, &[(0, 100.0), (1, 100.0)])];
        assert_eq!(factors(&flows, &[100.0, 25.0]), [0.75, 0.25]);
        assert_eq!(factors(&flows, &[100.0, 1000.0]), [0.5, 0.5]);
        assert_eq!(factors(&[flow(0.5, &[])], &[]), [1.0]);
    }
}
