//! Candidates from packed trees.

use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;

use crate::candidate::{Candidate, Origin};
use crate::request::Request;
use crate::trees::{TreePlan, Windows};

/// Bytes of the windows of a chunk that are in flight.
const UNITS: [u64; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Numbers of instances.
const INSTANCES: [u32; 4] = [1, 2, 4, 8];
/// Most thread blocks of a rank that are tried without a limit.
const MAX_BLOCKS: u32 = 128;

/// Packs trees for the request, and builds them with every window and number of instances that fits.
pub(crate) fn candidates(request: &Request) -> Vec<Candidate> {
    let mut all = Vec::new();
    let max_blocks = request.max_blocks.unwrap_or(MAX_BLOCKS);
    for trees in TreePlan::all(request.kind, request.machine, request.num_ranks) {
        let fits = |instances: &u32| instances.saturating_mul(trees.num_blocks()) <= max_blocks.max(trees.num_blocks());
        for (instances, unit) in
            INSTANCES.into_iter().filter(fits).flat_map(|instances| UNITS.map(|unit| (instances, unit)))
        {
            let sides = [false, true].into_iter().filter(|gets| !gets || trees.has_results());
            all.extend(sides.filter_map(|gets| build(&trees, request, Windows { instances, unit, gets })));
        }
    }
    all.retain(|candidate| request.max_blocks.is_none_or(|max| candidate.num_blocks() <= max));
    all
}

fn build(trees: &TreePlan, request: &Request, windows: Windows) -> Option<Candidate> {
    let mut spec = trees.spec(&format!("{}_trees", request.kind.name()), windows.instances);
    spec.collective.in_place = request.in_place.unwrap_or(false);
    if spec.collective.in_place && !trees.works_in_place() {
        return None;
    }
    let program = Program::new(spec);
    trees.record(&program, windows);
    let plan = lower(&program.finish().ok()?).ok()?;
    Some(Candidate { plan, origin: Origin::Trees { trees: trees.clone(), windows } })
}
