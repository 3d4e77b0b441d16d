//! Correct plans: the built-in algorithms on a few ranks, and the reference plans in which the reference simulator
//! found no defect.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

use std::path::PathBuf;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::plan::json::{self, ReadOptions};
use mscclpp_core::plan::raw::{Op, PlanTree};
use serde_json::Value;

/// A plan and its name.
pub struct Named {
    pub name: String,
    pub plan: PlanTree,
}

/// Returns every built-in algorithm on systems with the given numbers of ranks, in place and out of place, with at most
/// `instances` instances.
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
                let plan = algorithm.compile_tree(spec, &arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
                plans.push(Named { name, plan });
            }
        }
    }
    plans
}

fn placements(algorithm: &BuiltinAlgorithm) -> &'static [bool] {
    match algorithm.buffer_mode() {
        BufferMode::InPlace => &[true],
        BufferMode::OutOfPlace => &[false],
        BufferMode::Any => &[true, false],
    }
}

/// The folder of the reference plans.
pub fn folder() -> Option<PathBuf> {
    // The folder that the crate `conformance` found at build time, or the one that the environment sets.
    let found = option_env!("REFERENCE_PLANS").map(PathBuf::from);
    let folder = found.or_else(|| std::env::var_os("MSCCLPP_CONFORMANCE").map(PathBuf::from));
    if folder.is_none() {
        println!("without the reference plans: MSCCLPP_CONFORMANCE does not name their folder");
    }
    folder
}

/// Returns the reference plans for which `choose` returns a value, with that value; none without their folder.
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

/// Returns the findings of the simulator that are defects of the plan; one word for each.
fn faults(entry: &Value) -> Vec<String> {
    let advisories = entry["advisories"].as_array().expect("a list");
    let advisories = advisories.iter().map(|advisory| advisory.as_str().expect("text").to_owned());
    advisories.filter(|advisory| !advisory.starts_with("limit:") && !advisory.starts_with("exec:")).collect()
}

/// Returns the reference plans that are complete programs without defects according to the reference simulator.
pub fn reference() -> Vec<Named> {
    let sound = read(|entry| {
        let whole = !entry["slug"].as_str().expect("a name").starts_with("unit-");
        (entry["simulated"] == true && whole && faults(entry).is_empty()).then_some(())
    });
    sound.into_iter().map(|(named, ())| named).collect()
}

/// Returns the reference's unit tests: fragments in which the simulator found no defect or that it did not execute.
pub fn fragments() -> Vec<Named> {
    let fragments = read(|entry| {
        let fragment = entry["slug"].as_str().expect("a name").starts_with("unit-");
        (fragment && faults(entry).is_empty()).then_some(())
    });
    fragments.into_iter().map(|(named, ())| named).collect()
}

/// Returns the reference plans in which the simulator found defects, with its findings.
pub fn faulty() -> Vec<(Named, Vec<String>)> {
    read(|entry| Some(faults(entry)).filter(|faults| !faults.is_empty()))
}

/// Returns the number of operations of a plan, those of loops included.
pub fn size(plan: &PlanTree) -> usize {
    let count = |op: &Op| 1 + op.body.as_ref().map_or(0, |body| body.ops.len());
    plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops).map(count).sum()
}
