//! Fair shares of resources.

/// Something that progresses from 0 to 1, alone at its own speed, and slower where resources are shared.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// Progress per microsecond without other flows.
    pub(crate) alone: f64,
    /// Resources, and what the whole flow uses of each.
    pub(crate) uses: Vec<(usize, f64)>,
}

/// Returns the speed of every flow, at which no resource exceeds its capacity. All flows of a saturated resource are slowed
/// down by one factor, and flows that are slowed down less elsewhere use what others leave (max-min fairness).
pub(crate) fn fair_speeds<'f>(flows: impl Iterator<Item = &'f Flow> + Clone, capacities: &[f64]) -> Vec<f64> {
    let flows: Vec<&Flow> = flows.collect();
    let mut demand = vec![0.0; capacities.len()];
    let mut left = capacities.to_vec();
    for flow in &flows {
        flow.uses.iter().for_each(|&(resource, amount)| demand[resource] += amount * flow.alone);
    }
    let mut speeds = vec![None; flows.len()];
    let mut open: Vec<usize> = (0..flows.len()).collect();
    while !open.is_empty() {
        let factor =
            |resource: usize| if demand[resource] > 0.0 { left[resource] / demand[resource] } else { f64::INFINITY };
        let of = |flow: usize| flows[flow].uses.iter().map(|&(resource, _)| factor(resource)).fold(1.0, f64::min);
        let factors: Vec<f64> = open.iter().map(|&flow| of(flow)).collect();
        let least = factors.iter().copied().fold(f64::INFINITY, f64::min);
        let mut rest = Vec::new();
        for (&flow, factor) in open.iter().zip(&factors) {
            if *factor > least * (1.0 + 1e-9) {
                rest.push(flow);
                continue;
            }
            speeds[flow] = Some(flows[flow].alone * least);
        }
        for &flow in open.iter().filter(|flow| speeds[**flow].is_some()) {
            for &(resource, amount) in &flows[flow].uses {
                let used = amount * flows[flow].alone;
                demand[resource] = if rest.is_empty() { 0.0 } else { (demand[resource] - used).max(0.0) };
                left[resource] = (left[resource] - used * least).max(0.0);
            }
        }
        // What rounding leaves of a demand is not one.
        for resource in 0..demand.len() {
            if demand[resource] < 1e-9 * capacities[resource] {
                demand[resource] = 0.0;
            }
        }
        open = rest;
    }
    speeds.into_iter().map(|speed| speed.unwrap_or(0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_share_a_resource_and_use_what_others_leave() {
        let flow = |alone, uses: &[(usize, f64)]| Flow { alone, uses: uses.to_vec() };
        // Two flows want all of resource 0; one of them is limited to a quarter by resource 1.
        let flows = [flow(1.0, &[(0, 100.0)]), flow(1.0, &[(0, 100.0), (1, 100.0)])];
        assert_eq!(fair_speeds(flows.iter(), &[100.0, 25.0]), [0.75, 0.25]);
        assert_eq!(fair_speeds(flows.iter(), &[100.0, 1000.0]), [0.5, 0.5]);
        assert_eq!(fair_speeds([flow(0.5, &[])].iter(), &[]), [0.5]);
    }
}
