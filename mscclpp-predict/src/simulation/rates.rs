//! Fair shares of resources.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that progresses from 0 to 1, alone at its own speed, and slower where resources are shared.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// Progress per microsecond without other flows.
    pub(super) alone: f64,
    /// Resources, and what the whole flow uses of each.
    pub(super) uses: Vec<(usize, f64)>,
}

/// A resource and the factor of their own speeds at which its flows at most progress, as one integer: the lowest factor first, then the
/// lowest resource.
type Limit = Reverse<u128>;

fn limit(factor: f64, resource: usize) -> Limit {
    // As `f64::total_cmp` does: negative numbers, which are rounding, have the reverse order of their bits.
    let bits = factor.to_bits();
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    Reverse(u128::from(ordered) << 64 | resource as u128)
}

fn factor_of(Reverse(limit): Limit) -> f64 {
    let ordered = (limit >> 64) as u64;
    f64::from_bits(if ordered >> 63 == 1 { ordered & !(1 << 63) } else { !ordered })
}

/// Computes fair speeds. Vectors keep their memory between calls.
#[derive(Debug)]
pub(super) struct FairShare {
    capacities: Vec<f64>,
    /// Per resource, whether it has a limit, what flows that have no speed yet would use, and what the others leave of the capacity.
    limited: Vec<bool>,
    demand: Vec<f64>,
    left: Vec<f64>,
    /// Per resource, the flows that have no speed yet.
    flows: Vec<Vec<u32>>,
    limits: BinaryHeap<Limit>,
    factors: Vec<f64>,
}

/// Factor of a flow that has no speed yet.
const NONE: f64 = -1.0;

impl FairShare {
    pub(super) fn new(capacities: Vec<f64>) -> Self {
        let count = capacities.len();
        Self {
            capacities,
            limited: vec![false; count],
            demand: vec![0.0; count],
            left: vec![0.0; count],
            flows: vec![Vec::new(); count],
            limits: BinaryHeap::new(),
            factors: Vec::new(),
        }
    }

    /// Returns whether flows that together use this much per microsecond, alone, exceed a resource.
    pub(super) fn exceeds(&self, resource: usize, demand: f64) -> bool {
        demand > self.capacities[resource]
    }

    /// Returns the factor of its own speed at which every flow progresses, so that none of the given resources exceeds its capacity.
    /// All flows of a saturated resource are slowed down by one factor, and flows that are slowed down less elsewhere use
    /// what others leave (max-min fairness). Other resources have no limit.
    pub(super) fn factors<'f>(
        &mut self,
        count: usize,
        flow_of: impl Fn(usize) -> &'f Flow,
        resources: &[usize],
    ) -> &[f64] {
        for &resource in resources {
            (self.demand[resource], self.left[resource]) = (0.0, self.capacities[resource]);
            self.limited[resource] = true;
        }
        for (number, flow) in (0..count).map(|number| (number as u32, flow_of(number))) {
            for &(resource, amount) in flow.uses.iter().filter(|(resource, _)| self.limited[*resource]) {
                self.demand[resource] += amount * flow.alone;
                self.flows[resource].push(number);
            }
        }
        self.factors.clear();
        self.factors.resize(count, NONE);
        self.limits.clear();
        self.limits.extend(resources.iter().map(|&at| limit(self.left[at] / self.demand[at], at)));
        // Factors of resources only grow while flows get their speeds; what rounding takes from them is undone.
        let (mut min, one) = (0.0_f64, limit(1.0, 0));
        while let Some(lowest) = self.limits.pop().filter(|lowest| *lowest > one) {
            let resource = lowest.0 as u64 as usize;
            let flows = std::mem::take(&mut self.flows[resource]);
            if flows.iter().any(|flow| self.factors[*flow as usize] == NONE) {
                let factor = self.left[resource] / self.demand[resource];
                let current = limit(factor, resource);
                if current < lowest {
                    self.limits.push(current);
                    self.flows[resource] = flows;
                    continue;
                }
                // The factor of the entry: rounding may have lowered the current one.
                min = min.max(factor_of(lowest));
                for &number in &flows {
                    if self.factors[number as usize] != NONE {
                        continue;
                    }
                    self.factors[number as usize] = min;
                    let flow = flow_of(number as usize);
                    for &(used, amount) in flow.uses.iter().filter(|(used, _)| self.limited[*used]) {
                        self.demand[used] -= amount * flow.alone;
                        self.left[used] -= amount * flow.alone * min;
                    }
                }
            }
            self.flows[resource] = flows;
        }
        for &resource in resources {
            self.limited[resource] = false;
            self.flows[resource].clear();
        }
        self.factors.iter_mut().filter(|factor| **factor == NONE).for_each(|factor| *factor = 1.0);
        &self.factors
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
            let mut share = FairShare::new(capacities.to_vec());
            share.factors(flows.len(), |number| &flows[number], &all).to_vec()
        };
        // Two flows want all of resource 0; one of them is limited to a quarter by resource 1.
        let flows = [flow(1.0, &[(0, 100.0)]), flow(1.0, &[(0, 100.0), (1, 100.0)])];
        assert_eq!(factors(&flows, &[100.0, 25.0]), [0.75, 0.25]);
        assert_eq!(factors(&flows, &[100.0, 1000.0]), [0.5, 0.5]);
        assert_eq!(factors(&[flow(0.5, &[])], &[]), [1.0]);
    }
}
