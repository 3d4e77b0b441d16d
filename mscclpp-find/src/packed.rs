//! Candidates from packed trees.

use std::sync::Arc;

use crate::candidate::Origin;
use crate::request::Request;
use crate::trees::{TreePlan, Windows};

/// Bytes of the windows of a chunk that are in flight.
const UNITS: [u64; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Numbers of instances.
const INSTANCES: [u32; 4] = [1, 2, 4, 8];
/// Most thread blocks of a rank that are tried without a limit.
const MAX_BLOCKS: u32 = 128;

/// Packs trees for the request, and returns every window and number of instances that fits.
pub(crate) fn candidates(request: &Request) -> Vec<Origin> {
    let max_blocks = request.max_blocks.unwrap_or(MAX_BLOCKS);
    let mut all = Vec::new();
    for trees in TreePlan::all(request.kind, request.machine, request.num_ranks) {
        // Without a limit, one instance is always tried.
        let fitting = max_blocks / trees.num_blocks().max(1);
        let max = if request.max_blocks.is_none() { fitting.max(1) } else { fitting };
        let instances = INSTANCES.into_iter().filter(move |count| *count <= max);
        let in_place = request.in_place.unwrap_or(false);
        if in_place && !trees.works_in_place() {
            continue;
        }
        let trees = Arc::new(trees);
        for (instances, unit) in instances.flat_map(|instances| UNITS.map(|unit| (instances, unit))) {
            let sides = [false, true].into_iter().filter(|gets| !gets || trees.has_results());
            all.extend(sides.map(|gets| {
                let mut spec = trees.spec(&format!("{}_trees", request.kind.name()), instances);
                spec.collective.in_place = in_place;
                Origin::Trees { trees: Arc::clone(&trees), spec, windows: Windows { unit, gets } }
            }));
        }
    }
    all
}
