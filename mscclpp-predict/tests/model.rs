//! Predicted times of small plans against times computed manually, and properties that hold for every plan.

use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::raw::{OpKind, PlanTree};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_predict::{Machine, PredictError, lower_bound, predict, trace};

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

/// Each rank puts a chunk into the output of the other one, and signals.
fn put_and_signal(relaxed: bool) -> PlanTree {
    let program = Program::new(AlgoSpec::new("put", CollectiveKind::AllGather, 2));
    for rank in program.ranks() {
        let peer = program.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
        channel.handshake(0).relaxed();
        channel.put(peer.output().chunk(rank.id()), rank.input().chunk(0), 0);
        let handshake = channel.handshake(0);
        if relaxed {
            handshake.relaxed();
        }
    }
    lower(&program.finish().expect("a trace")).expect("a plan")
}

#[test]
fn packets_take_links_twice_as_long_as_plain_data() {
    let machine = machine(&MACHINE.replace("value = 0.5", "value = 1"));
    let slope = |plan: &PlanTree| time(plan, &machine, 100_000_016) - time(plan, &machine, 16);
    let (plain, packets) = (slope(&put_and_signal(true)), slope(&plan("allgather_packets", 2)));
    assert!(plain > 100.0 && (packets - 2.0 * plain).abs() < 0.01, "{plain} {packets}");
}

#[test]
fn releases_wait_for_the_acknowledgment_of_stores() {
    let machine = machine(MACHINE);
    let [released, relaxed] = [false, true].map(|relaxed| time(&put_and_signal(relaxed), &machine, 32));
    // A store travels for 2 us, and so does its acknowledgment.
    assert!((released - relaxed - 4.0).abs() < 1e-6, "{released} {relaxed}");
    // Ranks on one device share its cache.
    let device = Machine::parse(&MACHINE.replace("ranks = 2\n", "ranks = 2\none_device = true\n")).expect("a machine");
    let [released, relaxed] = [false, true].map(|relaxed| time(&put_and_signal(relaxed), &device, 32));
    assert!((released - relaxed).abs() < 1e-6, "{released} {relaxed}");
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

/// Four nodes of two ranks, with latencies of signals and of the network only.
const NODES: &str = "name = \"m\"\ndescription = \"d\"\nranks = 8\nranks_per_node = 2\nmulticast = true\n\
    [[link]]\nfrom = \"gpu\"\nto = \"switch\"\ngb_per_s = 100\nsource = \"test\"\n\
    [[link]]\nfrom = \"gpu\"\nto = \"network\"\ngb_per_s = 10\nshared = true\nsource = \"test\"\n\
    [constant]\nsignal_us = { value = 1, source = \"test\" }\nnetwork_us = { value = 10, source = \"test\" }\n";

#[test]
fn every_built_in_algorithm_has_a_time_above_the_bound() {
    let machines = [
        machine(NODES),
        Machine::builtin("8xh100").expect("it is built in"),
        Machine::builtin("2x8xh100").expect("it is built in"),
    ];
    let mut tested = std::collections::BTreeSet::new();
    for machine in &machines {
        for algorithm in algorithms::all().iter().filter(|one| one.supports(machine.ranks, machine.ranks_per_node)) {
            let name = algorithm.name();
            let arguments = algorithm.arguments([]).expect("the defaults");
            let mut spec = algorithm.spec(machine.ranks, machine.ranks_per_node);
            spec.collective.in_place |= algorithm.buffer_mode() == algorithms::BufferMode::InPlace;
            let plan = algorithm.compile_tree(spec, &arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
            for bytes in [1, 1 << 10, 64 << 20] {
                let found = predict(&plan, machine, bytes, None);
                // An algorithm for one node that several nodes happen to have ranks for.
                if matches!(found, Err(PredictError::AcrossNodes { .. })) {
                    continue;
                }
                let found = found.unwrap_or_else(|error| panic!("{name} on {}: {error}", machine.name)).time_us;
                let kind = plan.collective.kind;
                let bound = lower_bound(kind, machine, machine.ranks, bytes).expect("a bound").time_us;
                assert!(
                    found >= bound * (1.0 - 1e-9),
                    "{name} of {bytes} bytes on {}: {found} us, bound {bound} us",
                    machine.name
                );
                tested.insert(name);
            }
        }
    }
    let all: std::collections::BTreeSet<_> = algorithms::all().iter().map(|one| one.name()).collect();
    assert_eq!(tested, all);
}

#[test]
fn long_pipeline_is_predicted_from_its_steady_state() {
    let machine = Machine::builtin("8xh100").expect("it is built in");
    let plan = plan("allreduce_switch_pipeline", 8);
    // 64 windows of 1 MiB are simulated, more are not.
    let (short, long) = (8 * (64 << 20), 8 * (640 << 20));
    let all = predict(&plan, &machine, short, None).expect("a time");
    let part = predict(&plan, &machine, long, None).expect("a time");
    assert!(!all.partial && part.partial && part.steady_state);
    let half = time(&plan, &machine, short / 2);
    let expected = all.time_us + (all.time_us - half) / (short / 2) as f64 * (long - short) as f64;
    assert!((part.time_us / expected - 1.0).abs() < 0.01, "{} {expected}", part.time_us);
}

#[test]
fn trace_has_every_operation_the_critical_path_links_and_memory() {
    let machine = Machine::builtin("8xh100").expect("it is built in");
    let plan = plan("allreduce_packets", 4);
    let made = || {
        let found = predict(&plan, &machine, 1 << 10, None).expect("a time");
        (trace(&plan, &machine, 1 << 10, None, &found).expect("a trace"), found)
    };
    let (shown, found) = made();
    assert_eq!(shown.page(), made().0.page());
    assert_eq!(shown.slices.len(), found.execution.nodes.len());
    let critical = shown.slices.iter().filter(|slice| slice.critical).count();
    assert_eq!(critical, found.timeline.critical_path().len());
    assert!((shown.end() - found.time_us).abs() < 1e-9);
    // Links are used, and never beyond their capacity.
    let parts = || shown.links.iter().flat_map(|link| &link.samples).map(|(_, part)| *part);
    assert!(parts().any(|part| part > 0.0) && parts().all(|part| part <= 1.0 + 1e-9));
    // In the end every chunk of the buffer has the inputs of all ranks.
    let memory = shown.memory.expect("few chunks");
    let mut state = memory.initial.clone();
    memory.changes.iter().for_each(|change| state[change.cell as usize] = change.content);
    let results = memory.cells.iter().zip(state).filter(|(cell, _)| cell.buffer == "input and output");
    let ranks: Vec<_> = results.map(|(_, content)| memory.contents[content as usize].ranks.len()).collect();
    assert_eq!(ranks, [4; 16]);
}

#[test]
fn plan_that_a_machine_cannot_run_is_an_error() {
    let two = machine(MACHINE);
    assert!(matches!(predict(&plan("allreduce_ring", 4), &two, 1, None), Err(PredictError::TooManyRanks { .. })));
    assert!(matches!(predict(&plan("allreduce_ring", 2), &two, 1, Some("none")), Err(PredictError::NoTiers { .. })));
    let tiers = Machine::builtin("h200-virtual").expect("it is built in");
    assert!(matches!(
        predict(&plan("allreduce_ring", 2), &tiers, 1, Some("none")),
        Err(PredictError::UnknownTier { .. })
    ));
    let nodes = machine(&MACHINE.replace("ranks_per_node = 2", "ranks_per_node = 1").replacen(
        "source",
        "shared = true\nsource",
        1,
    ));
    assert!(matches!(predict(&plan("allreduce_ring", 2), &nodes, 1, None), Err(PredictError::AcrossNodes { .. })));
    let apart = MACHINE.replace("\"gpu\"", "\"gpu0\"");
    let ring = predict(&plan("allreduce_ring", 2), &machine(&apart), 1, None);
    assert!(matches!(ring, Err(PredictError::NoRoute { .. })), "{ring:?}");
    let adds = machine(&apart.replace("ranks_per_node = 2", "ranks_per_node = 2\nmulticast = true"));
    let switch = predict(&plan("allreduce_switch", 2), &adds, 1, None);
    assert!(matches!(switch, Err(PredictError::NoSwitch { rank: 1, .. })), "{switch:?}");
    let no_tiers = predict(&plan("allreduce_ring", 2), &two, 1, Some("any")).expect_err("it has no tiers").to_string();
    assert_eq!(no_tiers, "machine `m` has no kernel tiers, found tier `any`; omit the tier");
}

#[test]
fn switches_that_do_not_add_have_no_time_for_sums() {
    for name in ["8xa100", "h200-virtual"] {
        let without = Machine::builtin(name).expect("it is built in");
        let error = predict(&plan("allreduce_switch", 8), &without, 1 << 30, None).expect_err(name);
        assert!(matches!(error, PredictError::NoMulticast { .. }), "{error}");
    }
}

#[test]
fn huge_message_is_an_error() {
    let machine = machine(MACHINE);
    let error = predict(&plan("allreduce_ring", 2), &machine, u64::MAX, None).expect_err("buffers are too large");
    assert!(matches!(error, PredictError::Size(_)) && error.to_string().contains("smaller message"), "{error}");
}

#[test]
fn pipeline_of_more_chunks_than_iterations_has_a_finite_time() {
    let machine = Machine::builtin("8xh100").expect("it is built in");
    // A window has half a byte of each chunk, and chunks grow by 16 bytes: 8 iterations are as many as 16.
    let program = Program::new(AlgoSpec::new("copy", CollectiveKind::Test { input: 32, output: 32 }, 2));
    program.pipeline(16, 32, || {
        for rank in program.ranks() {
            rank.copy(rank.output().chunk(0..32), rank.input().chunk(0..32), 0);
        }
    });
    let plan = lower(&program.finish().expect("a program")).expect("a plan");
    for bytes in [1 << 10, 1 << 12, 1 << 14, 1 << 20] {
        let found = predict(&plan, &machine, bytes, None).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(found.time_us.is_finite() && found.shares.iter().all(|share| share.us.is_finite()), "{bytes}");
        assert!(found.partial || !found.steady_state, "{bytes}");
    }
}

/// An exchange of counts takes as long as a signal of every rank.
#[test]
fn exchange_of_counts_waits_for_signals() {
    let plan = plan("alltoallv_pull", 2);
    let machine = machine(MACHINE);
    let found = predict(&plan, &machine, 1 << 10, None).expect("a time");
    assert!(found.execution.nodes.iter().any(|node| node.kind == OpKind::RelaxedWait));
    // Launch, signals of the exchange and of the handshake.
    assert!(found.time_us > 5.0 + 2.0 + 2.0, "{}", found.time_us);
    let trace = trace(&plan, &machine, 1 << 10, None, &found).expect("a trace");
    let sources = trace.slices.iter().filter_map(|slice| slice.details.get("source")?.as_str());
    assert!(sources.clone().count() > 0 && sources.clone().all(|source| !source.contains("4294967295")));
}

#[test]
fn ranks_that_share_a_processor_take_turns() {
    let text = |processors: u32| {
        format!(
            "name = \"m\"\ndescription = \"d\"\nranks = 4\nranks_per_node = 4\none_device = true\nprocessors = {processors}\n[constant]\n\
             launch_us = {{ value = 1, source = \"test\" }}\nop_us = {{ value = 1, source = \"test\" }}\n"
        )
    };
    let ring = plan("allreduce_ring", 4);
    let [one, two, four] = [1, 2, 4].map(|processors| time(&ring, &machine(&text(processors)), 4096) - 1.0);
    // All ranks do the same, so the time is that of all operations over the processors.
    assert!((one / four - 4.0).abs() < 1e-6 && (two / four - 2.0).abs() < 1e-6, "{one} {two} {four}");
    let summing = text(1) + "block_sum_gb_per_s = { value = 1, source = \"test\" }\n";
    // Each rank reduces three chunks of 1 KiB into others.
    let sums = time(&ring, &machine(&summing), 4096) - 1.0 - one;
    assert!((sums - 4.0 * 3.0 * 2.0 * 1.024).abs() < 1e-6, "{sums}");
    assert!(
        Machine::parse(&text(0)).expect_err("none").to_string().contains("processors: expected 1 or more, found 0")
    );
}
