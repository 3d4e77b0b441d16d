//! Candidates from packed trees.

use std::sync::Arc;

use crate::candidate::Origin;
use crate::request::Request;
use crate::trees::{TreePlan, Windows};

/// Bytes of the windows of a chunk that are in flight.
const UNITS: [u64; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Numbers of instances.
const INSTANCES: [u32; 4] = [1, 2, 4, 8];

/// Packs trees for the request, and returns every window and number of instances that fits.
pub(crate) fn candidates(request: &Request) -> Vec<Origin> {
    let mut all = Vec::new();
    for trees in TreePlan::all(request.kind, request.machine, request.num_ranks) {
        let max = request.block_limit() / trees.num_blocks().max(1);
        let instances = INSTANCES.into_iter().filter(move |count| *count <= max);
        let in_place = request.in_place.unwrap_or(false);
        if in_place && !trees.works_in_place() {
            continue;
        }
        let trees = Arc::new(trees);
        for (instances, unit) in instances.flat_map(|instances| UNITS.map(|unit| (instances, unit))) {
            let sides = [false, true].into_iter().filter(|gets| !gets || trees.can_get());
            all.extend(sides.map(|gets| {
                let mut spec = trees.spec(&format!("{}_trees", request.kind.name()), instances);
                spec.collective.in_place = in_place;
                Origin::Trees { trees: Arc::clone(&trees), spec, windows: Windows { unit, gets } }
            }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use mscclpp_core::collective::CollectiveKind::AllReduce;
    use mscclpp_predict::Machine;

    use super::*;

    #[test]
    fn one_instance_is_limited_too() {
        let text = "name = \"m\"\ndescription = \"d\"\nranks = 64\nranks_per_node = 64\n[[link]]\nfrom = \"gpu\"\n\
            to = \"switch\"\ngb_per_s = 1\nsource = \"test\"\n";
        let machine = Machine::parse(text).expect("it is valid");
        let count = |max_blocks| {
            let request = Request { kind: AllReduce, machine: &machine, num_ranks: 64, max_blocks, in_place: None };
            candidates(&request).len()
        };
        // A rank of each of 64 roots has one thread block per direction.
        assert_eq!(count(None), 0);
        assert!(count(Some(128)) > 0);
    }
}
