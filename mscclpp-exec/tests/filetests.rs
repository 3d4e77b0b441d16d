//! The runner `cpu` of the file tests (`mscclpp-core/filetests`): the CPU executor runs plans with messages of several sizes and types,
//! and results are those of the naive reference.

#[path = "../../mscclpp-core/tests/filetests/common.rs"]
mod common;

use common::tests;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cpu::{Executor, Options, Schedule};
use mscclpp_exec::verify::Verifier;
use mscclpp_exec::{DataType, Message};

#[test]
fn results_are_those_of_the_naive_reference() {
    for test in tests("cpu") {
        let tree = test.plan();
        if tree.is_counted() {
            crate::counts::exchanges_random_tables(&Plan::new(&tree));
            continue;
        }
        if tree.collective.rows {
            crate::rows::normalizes_rows(&Plan::new(&tree));
            continue;
        }
        let (plan, ranks) = (Plan::new(&tree), u64::from(tree.ranks.len() as u32));
        for seed in 0..4 {
            let options = Options::default().schedule(Schedule::Seeded(seed)).workers(Some(2));
            let world = Executor::with_options(plan.num_ranks(), options);
            for (dtype, count) in [(DataType::F32, 1), (DataType::I32, 53), (DataType::F16, 3333)] {
                let message = Message::new(dtype, count * ranks);
                let name = format!("{}: {message:?}, seed {seed}", test.name);
                let mut run = world.prepare(&plan, message).unwrap_or_else(|error| panic!("{name}: {error}"));
                let mut buffers = run.buffers().expect("memory");
                for launch in 0..3 {
                    let verifier = Verifier::new(&run, launch).with_expectations(&tree.expectations);
                    verifier.fill(&mut buffers);
                    run.scramble_scratch(launch);
                    run.launch_buffers(&mut buffers).unwrap_or_else(|error| panic!("{name}: {error}"));
                    let report = verifier.check(&buffers);
                    assert!(report.is_correct() && !report.is_unverified(), "{name}: {report}");
                }
            }
        }
    }
}
