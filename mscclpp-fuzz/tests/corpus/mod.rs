//! Plans that are right: the algorithms of the library on a few ranks, and the reference system's plans in which its own
//! simulator found no fault.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

use std::path::PathBuf;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::plan::json::{self, ReadOptions};
use mscclpp_core::plan::{Op, PlanTree};
use serde_json::Value;

/// A plan and what it is called.
pub struct Named {
    pub name: String,
    pub plan: PlanTree,
}

/// Every algorithm of the library on machines of so many ranks, in place and not, with as few instances as `instances`.
pub fn shipped(machines: &[(u32, u32)], instances: u32) -> Vec<Named> {
    let mut plans = Vec::new();
    for algorithm in algorithms::all() {
        for &(ranks, node) in machines.iter().filter(|&&(ranks, node)| algorithm.supports(ranks, node)) {
            for &in_place in placements(algorithm) {
                let mut spec = algorithm.spec(ranks, node);
                spec.instances = spec.instances.min(instances);
                spec.collective.in_place = in_place;
                let place = if in_place { " in place" } else { "" };
                let name = format!("{} on {ranks} ranks, {node} per node{place}", algorithm.name());
                let arguments = algorithm.arguments([]).expect("defaults");
                let plan = algorithm.compile(spec, &arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
                plans.push(Named { name, plan });
            }
        }
    }
    plans
}

fn placements(algorithm: &BuiltinAlgorithm) -> &'static [bool] {
    match algorithm.placement() {
        BufferMode::InPlace => &[true],
        BufferMode::OutOfPlace => &[false],
        BufferMode::Any => &[true, false],
    }
}

/// The folder of the reference plans.
pub fn folder() -> Option<PathBuf> {
    // Where the crate `conformance` has found them while it was built, or where the environment says now.
    let found = option_env!("REFERENCE_PLANS").map(PathBuf::from);
    let folder = found.or_else(|| std::env::var_os("MSCCLPP_CONFORMANCE").map(PathBuf::from));
    if folder.is_none() {
        println!("without the reference plans: MSCCLPP_CONFORMANCE does not name their folder");
    }
    folder
}

/// The reference plans for which `choose` gives something, with that; none without their folder.
fn read<T>(choose: impl Fn(&Value) -> Option<T>) -> Vec<(Named, T)> {
    let Some(folder) = folder() else { return Vec::new() };
    let text = std::fs::read_to_string(folder.join("index.json")).expect("index.json");
    let index: Vec<Value> = serde_json::from_str(&text).expect("a list of plans");
    let read = |entry: &Value| {
        let chosen = choose(entry)?;
        let name = entry["slug"].as_str().expect("a name").to_owned();
        let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).expect("a plan");
        let (plan, _) = json::read(&text, ReadOptions::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        Some((Named { name, plan }, chosen))
    };
    index.iter().filter_map(read).collect()
}

/// What the simulator found that is a fault of the plan; one word for each.
fn faults(entry: &Value) -> Vec<String> {
    let advisories = entry["advisories"].as_array().expect("a list");
    let advisories = advisories.iter().map(|advisory| advisory.as_str().expect("text").to_owned());
    advisories.filter(|advisory| !advisory.starts_with("limit:") && !advisory.starts_with("exec:")).collect()
}

/// The reference plans that are whole programs and have no fault by their own simulator's judgement.
pub fn reference() -> Vec<Named> {
    let sound = read(|entry| {
        let whole = !entry["slug"].as_str().expect("a name").starts_with("unit-");
        (entry["simulated"] == true && whole && faults(entry).is_empty()).then_some(())
    });
    sound.into_iter().map(|(named, ())| named).collect()
}

/// The reference's unit tests: fragments, in which the simulator found no fault or into which it did not look.
pub fn fragments() -> Vec<Named> {
    let fragments = read(|entry| {
        let fragment = entry["slug"].as_str().expect("a name").starts_with("unit-");
        (fragment && faults(entry).is_empty()).then_some(())
    });
    fragments.into_iter().map(|(named, ())| named).collect()
}

/// The reference plans in which the simulator found faults, with what it found.
pub fn faulty() -> Vec<(Named, Vec<String>)> {
    read(|entry| Some(faults(entry)).filter(|faults| !faults.is_empty()))
}

/// Operations of a plan, those of loops included.
pub fn size(plan: &PlanTree) -> usize {
    let count = |op: &Op| 1 + op.body.as_ref().map_or(0, |body| body.ops.len());
    plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops).map(count).sum()
}
