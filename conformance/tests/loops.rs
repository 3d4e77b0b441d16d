//! Reference plans with loops are proved to complete at every size, in a few short runs.

use mscclpp_core::check::{check, proof_effort};
use mscclpp_core::diag::Code;
use mscclpp_core::plan::json::{ReadOptions, read};
use mscclpp_core::plan::raw::PlanTree;

/// Returns the number of operations, counting those of a loop once.
fn operations(plan: &PlanTree) -> u64 {
    let ops = plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops);
    ops.map(|op| 1 + op.body.as_ref().map_or(0, |body| body.ops.len() as u64)).sum()
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn loops_are_proved_for_every_size() {
    let mut proved = 0;
    for known in conformance::index() {
        let slug = known["slug"].as_str().unwrap();
        let (plan, _) = read(&conformance::text(&format!("{slug}.json")), ReadOptions::default()).unwrap();
        let mut ops = plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops);
        let has_loops = ops.any(|op| op.body.is_some());
        let found = check(&plan);
        assert!(found.iter().all(|finding| finding.code != Code::Undecided), "{slug}: {found}");
        if has_loops && found.is_empty() {
            let (runs, steps) = proof_effort(&plan).unwrap_or_else(|| panic!("{slug} is not proved"));
            assert!(runs <= 6 && steps <= 20 * operations(&plan), "{slug}: {runs} runs of {steps} steps");
            proved += u64::from(runs > 0);
        }
    }
    assert!(proved >= 4, "only {proved} plans with loops that wait");
}
