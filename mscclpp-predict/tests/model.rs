//! Predicted times of small plans against times computed manually, and properties that hold for every plan.

use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_predict::{Machine, PredictError, page, predict};

/// Two ranks on a switch, with constants that give round numbers.
const MACHINE: &str = "name = \"m\"\ndescription = \"d\"\nranks = 2\nranks_per_node = 2\n\
    [[link]]\nfrom = \"gpu\"\nto = \"switch\"\ngb_per_s = 100\nsource = \"test\"\n\
    [constant]\nlaunch_us = { value = 5, source = \"test\" }\nop_us = { value = 1, source = \"test\" }\n\
    signal_us = { value = 2, source = \"test\" }\nput_efficiency = { value = 0.5, source = \"test\" }\n";

fn machine(text: &str) -> Machine {
    Machine::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn plan(name: &str, ranks: u32) -> PlanTree {
    let algorithm = algorithms::find(name).expect("it is in the library");
    let per_node = algorithm.ranks_per_node(ranks).expect("a supported number of ranks");
    algorithm
        .compile_tree(algorithm.spec(ranks, per_node), &algorithm.arguments([]).expect("the defaults"))
        .expect("a plan")
}

fn time(plan: &PlanTree, machine: &Machine, bytes: u64) -> f64 {
    predict(plan, machine, bytes, None).unwrap_or_else(|error| panic!("{error}")).time_us
}

#[test]
fn time_grows_with_bytes_over_the_bandwidth_that_stores_reach() {
    let two = plan("allreduce_ring", 2);
    let machine = machine(MACHINE);
    let (small, large) = (time(&two, &machine, 16), time(&two, &machine, 100_000_016));
    // Half of the message twice, at half of 100 GB/s.
    assert!((large - small - 2000.0).abs() < 0.01, "{small} {large}");
}

#[test]
fn prediction_is_the_same_each_time() {
    let machine = Machine::builtin("8xh100").expect("it is built in");
    for name in ["allreduce_ring", "allreduce_all_pairs", "allreduce_packets", "allreduce_switch_pipeline"] {
        let plan = plan(name, 8);
        let one = predict(&plan, &machine, 3 << 20, None).expect("a time");
        let two = predict(&plan, &machine, 3 << 20, None).expect("a time");
        assert_eq!(
            (one.time_us.to_bits(), &one.timeline.spans),
            (two.time_us.to_bits(), &two.timeline.spans),
            "{name}"
        );
        let shares: f64 = one.shares.iter().map(|share| share.us).sum();
        assert!((shares / one.time_us - 1.0).abs() < 1e-6, "{name}: the shares are {shares} of {}", one.time_us);
    }
}

#[test]
fn every_built_in_algorithm_has_a_time_above_the_bound() {
    for algorithm in algorithms::all() {
        let (ranks, name) = (16, if algorithm.supports(16, 8) { "2x8xh100" } else { "8xh100" });
        let machine = Machine::builtin(name).expect("it is built in");
        let ranks = if name == "8xh100" { 8 } else { ranks };
        let Some(per_node) = algorithm.supports(ranks, 8).then_some(8).or(algorithm.ranks_per_node(ranks)) else {
            continue;
        };
        if per_node < 8 {
            continue;
        }
        let arguments = algorithm.arguments([]).expect("the defaults");
        let mut spec = algorithm.spec(ranks, per_node);
        spec.collective.in_place |= algorithm.buffer_mode() == algorithms::BufferMode::InPlace;
        let plan =
            algorithm.compile_tree(spec, &arguments).unwrap_or_else(|error| panic!("{}: {error}", algorithm.name()));
        for bytes in [1 << 10, 64 << 20] {
            let found = time(&plan, &machine, bytes);
            let least = mscclpp_predict::bound(plan.collective.kind, &machine, ranks, bytes).expect("a bound").time_us;
            assert!(found >= least, "{} of {bytes} bytes: {found} us, the bound is {least} us", algorithm.name());
        }
    }
}

#[test]
fn long_pipeline_is_predicted_from_its_steady_state() {
    let machine = Machine::builtin("8xh100").expect("it is built in");
    let plan = plan("allreduce_switch_pipeline", 8);
    // 64 windows of 1 MiB are simulated, more are not.
    let (short, long) = (8 * (64 << 20), 8 * (640 << 20));
    let all = predict(&plan, &machine, short, None).expect("a time");
    let part = predict(&plan, &machine, long, None).expect("a time");
    assert!(!all.steady_state && part.steady_state);
    let half = time(&plan, &machine, short / 2);
    let expected = all.time_us + (all.time_us - half) / (short / 2) as f64 * (long - short) as f64;
    assert!((part.time_us / expected - 1.0).abs() < 0.01, "{} {expected}", part.time_us);
}

#[test]
fn page_has_every_thread_block_and_the_same_bytes_each_time() {
    let machine = Machine::builtin("8xh100").expect("it is built in");
    let plan = plan("allreduce_packets", 4);
    let found = predict(&plan, &machine, 1 << 10, None).expect("a time");
    let lines = ["a < b".to_owned(), "second".to_owned()];
    let text = page(&plan, &found, &lines);
    assert_eq!(text, page(&plan, &predict(&plan, &machine, 1 << 10, None).expect("a time"), &lines));
    assert_eq!(text.matches("<rect ").count(), found.execution.nodes.len());
    let critical = found.timeline.critical_path().len();
    assert_eq!((text.matches(" critical\"").count(), text.matches("<tr><td>").count()), (critical, critical));
    assert!(
        text.contains("<title>a &lt; b</title>") && text.contains("rank 3, block 0") && !text.contains("http"),
        "{text}"
    );
}

#[test]
fn plan_that_a_machine_cannot_run_is_an_error() {
    let two = machine(MACHINE);
    assert!(matches!(predict(&plan("allreduce_ring", 4), &two, 1, None), Err(PredictError::TooManyRanks { .. })));
    assert!(matches!(
        predict(&plan("allreduce_ring", 2), &two, 1, Some("none")),
        Err(PredictError::UnknownTier { .. })
    ));
    let nodes = machine(&MACHINE.replace("ranks_per_node = 2", "ranks_per_node = 1").replacen(
        "source",
        "shared = true\nsource",
        1,
    ));
    assert!(matches!(predict(&plan("allreduce_ring", 2), &nodes, 1, None), Err(PredictError::AcrossNodes { .. })));
    let apart = machine(&MACHINE.replace("\"gpu\"", "\"gpu0\""));
    assert!(matches!(predict(&plan("allreduce_ring", 2), &apart, 1, None), Err(PredictError::NoRoute { .. })));
    assert!(matches!(
        predict(&plan("allreduce_switch", 2), &apart, 1, None),
        Err(PredictError::NoRoute { .. } | PredictError::NoSwitch { .. })
    ));
}
