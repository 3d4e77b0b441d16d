//! Executors' forms of the built-in algorithms and of random plans, and of plans with faults injected into their
//! passes.

mod devices;
mod faults;
#[cfg(feature = "cuda")]
mod forms;
#[cfg(feature = "cuda")]
mod kernel;
mod random;

use super::*;
use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::BufferMode;
use mscclpp_fuzz::{Outcome, ScheduleFuzzer};

/// Numbers of ranks and of ranks per node.
const MACHINES: [(u32, u32); 6] = [(2, 2), (3, 3), (4, 4), (4, 2), (3, 1), (6, 2)];

/// Returns every built-in algorithm on some machines, in place and out of place.
fn built_in(machines: &[(u32, u32)]) -> impl Iterator<Item = (String, PlanTree, u32, u32)> {
    algorithms::all().iter().flat_map(move |algorithm| {
        let modes = match algorithm.buffer_mode() {
            BufferMode::InPlace => &[true][..],
            BufferMode::OutOfPlace => &[false],
            BufferMode::Any => &[false, true],
        };
        let machines = machines.iter().filter(|&&(ranks, node)| algorithm.supports(ranks, node));
        let all = machines.flat_map(move |&machine| modes.iter().map(move |&in_place| (machine, in_place)));
        all.map(move |((ranks, node), in_place)| {
            let mut spec = algorithm.spec(ranks, node);
            spec.instances = spec.instances.min(2);
            spec.collective.in_place = in_place;
            let name = format!("{} on {ranks} ranks, {node} per node, in place: {in_place}", algorithm.name());
            let arguments = algorithm.arguments([]).expect("defaults");
            (name, algorithm.compile_tree(spec, &arguments).expect("it compiles"), ranks, node)
        })
    })
}

#[test]
fn built_in_algorithms_run_as_proved() {
    let mut validated = 0;
    for (name, plan, ranks, node) in built_in(&MACHINES) {
        for launch in ProcessLaunch::variants(ranks, node) {
            validate_processes(&plan, &launch).unwrap_or_else(|invalid| panic!("{name}, {launch:?}: {invalid}"));
            validated += 1;
        }
    }
    println!("{validated} plans and ways to share buffers");
    assert!(validated > 500);
}

#[test]
fn built_in_algorithms_pass_the_fuzzer_as_run() {
    for (name, plan, ranks, node) in built_in(&[(3, 3), (4, 2)]) {
        for sharing in [Sharing::Registered, Sharing::Staged] {
            let run = as_run_by_processes(&plan, &ProcessLaunch::new(ranks, node, sharing)).expect("it is the plan");
            for seed in 0..2 {
                let outcome = ScheduleFuzzer::new(&run).run(seed).expect("it is small");
                assert!(!matches!(outcome, Outcome::Failed(_)), "{name}, {sharing:?}, seed {seed}: {outcome:?}");
            }
        }
    }
}
