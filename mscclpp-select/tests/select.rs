//! Selection: who decides, which algorithms are rejected, and the explanation.

use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::{Plan, json};
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::DataType;
use mscclpp_exec::cpu::Executor;
use mscclpp_select::{
    Algorithm, Backend, Choice, Config, DecidedBy, LaunchLimits, LoadError, OrderPolicy, Outcome, PlanError, Registry,
    RegistryError, Rejection, Request, SelectError,
};

fn all_reduce(ranks: u32, bytes: u64) -> Request {
    Request::new(CollectiveKind::AllReduce, ranks, DataType::F32, bytes)
}

fn ring(ranks: u32) -> Plan {
    let ring = algorithms::find("allreduce_ring").expect("it is in the library");
    Plan::new(&ring.compile_tree(ring.spec(ranks, ranks), &[]).expect("it builds"))
}

#[test]
fn default_rules_decide_by_size_and_topology() {
    let registry = Registry::builtin();
    let chosen = |request: Request| {
        let decision = registry.select(&request).expect("there is one");
        assert!(matches!(decision.decided_by, DecidedBy::Rule(_)), "{request}: {}", decision.decided_by);
        decision.algorithm.name().to_owned()
    };
    assert_eq!(chosen(all_reduce(2, 1024)), "allreduce_one_shot");
    let devices = Request { backend: Backend::Cuda, ..all_reduce(2, 1024) };
    assert_eq!(chosen(devices), "allreduce_one_shot_packets");
    assert_eq!(chosen(Request { in_place: true, ..all_reduce(8, 1 << 24) }), "allreduce_all_pairs");
    assert_eq!(chosen(Request { ranks_per_node: 4, ..all_reduce(8, 1 << 24) }), "allreduce_hierarchical");
    // Private buffers are copied to memory that peers can read, so that returning results costs more.
    assert_eq!(chosen(all_reduce(2, 1 << 16)), "allreduce_one_shot");
    assert_eq!(chosen(Request { registered: true, ..all_reduce(2, 1 << 16) }), "allreduce_all_pairs");
    // More ranks reduce more of the same data each.
    assert_eq!(chosen(all_reduce(8, 1 << 14)), "allreduce_one_shot");
    assert_eq!(chosen(all_reduce(9, 1 << 14)), "allreduce_all_pairs");
}

#[test]
fn a_selector_goes_first_and_what_it_cannot_have_is_an_error_only_if_strict() {
    let mut registry = Registry::builtin();
    registry.set_selector(|request, candidates| {
        assert!(candidates.iter().all(|algorithm| algorithm.check_request(request).is_ok()));
        let name = if request.bytes > 1 << 20 { "allreduce_switch" } else { "allreduce_ring" };
        (request.bytes > 0).then(|| Choice { config: Config { blocks: Some(2), threads: None }, ..Choice::named(name) })
    });
    let decision = registry.select(&all_reduce(4, 64)).expect("a ring");
    assert_eq!((decision.algorithm.name(), decision.decided_by), ("allreduce_ring", DecidedBy::Selector));
    let plan = registry.plan(&all_reduce(4, 64), &decision).expect("it builds");
    assert_eq!(plan.tree().ranks[0].blocks.len(), 2);

    // Devices use another number of blocks than cores.
    let usual = |backend| {
        let request = Request { backend, ..all_reduce(4, 0) };
        let decision = registry.decision(&request, &Choice::named("allreduce_all_pairs")).expect("it serves it");
        registry.plan(&request, &decision).expect("it builds").tree().ranks[0].blocks.len()
    };
    assert_eq!((usual(Backend::Cpu), usual(Backend::Cuda)), (1, 8));

    // There is no multicast hardware, so the switch algorithm is rejected.
    assert_ne!(registry.select(&all_reduce(4, 1 << 21)).expect("another one").decided_by, DecidedBy::Selector);
    assert_ne!(registry.select(&all_reduce(4, 0)).expect("another one").decided_by, DecidedBy::Selector);
    registry.set_strict(true);
    let error = registry.select(&all_reduce(4, 1 << 21)).expect_err("it is strict");
    assert!(matches!(&error, SelectError::BadChoice { name, .. } if name == "allreduce_switch"), "{error}");
    assert!(error.to_string().contains("it requires multicast hardware"), "{error}");
    assert!(matches!(registry.select(&all_reduce(4, 0)), Err(SelectError::Undecided { .. })));
    registry.clear_selector();
    registry.set_strict(false);
    assert!(registry.select(&all_reduce(4, 1 << 21)).is_ok());
}

#[test]
fn added_plans_go_before_the_library_where_they_fit_the_narrowest_first() {
    let mut registry = Registry::builtin();
    registry.add(Algorithm::plan(ring(4)).with_name("wide").with_tag("own", 7)).expect("a new name");
    let narrow = Algorithm::plan(ring(4)).with_name("narrow").with_constraints(|limits| limits.bytes = 0..=4096);
    registry.add(narrow).expect("a new name");
    let name = |request: &Request| registry.select(request).expect("there is one").algorithm.name().to_owned();
    assert_eq!(name(&all_reduce(4, 4096)), "narrow");
    assert_eq!(name(&all_reduce(4, 4097)), "wide");
    assert!(name(&all_reduce(5, 64)).starts_with("allreduce_"));
    assert_eq!(registry.find("wide").expect("it was added").tag("own"), Some(7));

    let error = registry.add(Algorithm::plan(ring(2)).with_name("wide")).expect_err("taken");
    assert_eq!(error, RegistryError::Duplicate { name: "wide".into() });
    assert!(registry.remove("narrow") && !registry.remove("narrow"));
}

#[test]
fn plans_of_one_algorithm_may_reduce_in_different_ways() {
    let reducing = |ranks, op| {
        let mut tree = ring(ranks).tree();
        let blocks = tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks);
        blocks.flat_map(|block| &mut block.ops).for_each(|one| one.reduce = one.reduce.map(|_| op));
        assert_eq!(tree.reductions(), [op]);
        Plan::new(&tree)
    };
    let plans = vec![reducing(2, ReduceOp::Max), reducing(4, ReduceOp::Sum), reducing(4, ReduceOp::Min)];
    let algorithm = Algorithm::plans("several", plans).expect("of one collective");
    let with = |ranks, op| Request { op: Some(op), ..all_reduce(ranks, 64) };
    for (ranks, op, does) in [
        (2, ReduceOp::Max, true),
        (2, ReduceOp::Sum, false),
        (4, ReduceOp::Sum, true),
        (4, ReduceOp::Min, true),
        (4, ReduceOp::Prod, true),
    ] {
        let expected = if does { Ok(()) } else { Err(Rejection::Op { found: op }) };
        assert_eq!(algorithm.check_request(&with(ranks, op)), expected, "{op} on {ranks}");
    }
}

#[test]
fn nothing_is_built_with_very_many_blocks() {
    let registry = Registry::builtin();
    let request = all_reduce(8, 1 << 20);
    for name in ["allreduce_all_pairs", "allreduce_ring", "allreduce_packets"] {
        for blocks in [0, Config::MAX_BLOCKS + 1, 50_000_000, u32::MAX] {
            let choice = Choice { config: Config { blocks: Some(blocks), threads: None }, ..Choice::named(name) };
            let decision = registry.decision(&request, &choice).expect("it serves it");
            let error = registry.plan(&request, &decision).expect_err("far too many").to_string();
            assert_eq!(error, format!("`{name}` supports 1 to 1024 blocks, found {blocks}"));
        }
    }
}

#[test]
fn plans_of_files_are_checked_and_selected_for_their_requests() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ring.json");
    let tree = ring(3).tree();
    std::fs::write(&path, json::write(&tree, json::Style::Compact)).expect("it can be written");
    let mut registry = Registry::empty();
    registry.add(Algorithm::load(&path).expect("it is right").with_name("mine")).expect("a new name");
    let request = all_reduce(3, 36);
    let decision = registry.select(&request).expect("it fits");
    assert_eq!(decision.decided_by, DecidedBy::Added);
    let plan = registry.plan(&request, &decision).expect("it is there");
    let (inputs, mut outputs) = ([[1.0_f32; 9]; 3], [[0.0; 9]; 3]);
    Executor::new(3).run(&plan, &inputs, &mut outputs).expect("it runs");
    assert_eq!(outputs, [[3.0; 9]; 3]);

    let refused = |request| match registry.select(&request) {
        Err(SelectError::NoAlgorithm { rejections, .. }) => rejections[0].1.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(all_reduce(4, 36)), Rejection::Ranks { expected: "3 ranks".into(), found: 4 });
    assert_eq!(refused(Request { in_place: true, ..request }), Rejection::BufferMode { in_place: false });
    assert_eq!(refused(Request { root: 1, ..request }), Rejection::Root { found: 1 });
    assert!(matches!(refused(Request { ranks_per_node: 1, ..request }), Rejection::Nodes { .. }));
    let gather = Request::new(CollectiveKind::AllGather, 3, DataType::F32, 36);
    assert!(
        registry.select(&gather).expect_err("none").to_string().ends_with("the registry has none for this collective")
    );

    let mut wrong = tree;
    wrong.ranks[1].blocks[0].ops.truncate(1);
    std::fs::write(&path, json::write(&wrong, json::Style::Compact)).expect("it can be written");
    assert!(matches!(Algorithm::load(&path), Err(LoadError::NotAPlan { .. })));
    assert!(matches!(Algorithm::load(folder.path().join("none")), Err(LoadError::Read { .. })));
    assert!(matches!(Algorithm::plans("none", Vec::new()), Err(LoadError::Empty { .. })));
}

#[test]
fn user_functions_are_embedded_or_compiled_for_any_topology() {
    let function = algorithms::allreduce_ring::algorithm();
    let embedded = Algorithm::embedded(function).expect("it has plans");
    assert_eq!(embedded.check_request(&all_reduce(8, 64)), Ok(()));
    let rejection = embedded.check_request(&all_reduce(6, 64)).expect_err("it was not built for six");
    assert_eq!(rejection.to_string(), "requires 2, 4, 8 ranks, found 6");

    let compiled = Algorithm::on_demand(function);
    assert_eq!(compiled.build(&all_reduce(6, 64), &Config::default()).expect("it builds").num_ranks(), 6);
    // A function that does not support a topology panics or has findings, and both are errors.
    let lonely = compiled.build(&all_reduce(1, 64), &Config::default()).expect_err("a ring of one");
    assert!(matches!(&lonely, PlanError::Panicked { message, .. } if message.contains("overflow")), "{lonely}");
    let astray = compiled.build(&Request { root: 9, ..all_reduce(4, 64) }, &Config::default());
    assert!(matches!(astray, Err(PlanError::Program { .. })), "{astray:?}");
}

#[test]
fn user_functions_have_no_more_instances_than_fit_on_a_device() {
    let compiled = Algorithm::on_demand(algorithms::allgather_all_pairs::algorithm());
    let request = Request { in_place: true, ..Request::new(CollectiveKind::AllGather, 4, DataType::F32, 1 << 20) };
    let blocks = |max_blocks, blocks| {
        let config = Config { blocks, ..Config::default() };
        let plan = compiled.build(&Request { max_blocks, ..request }, &config).expect("it builds");
        plan.tree().ranks.iter().map(|rank| rank.blocks.len()).max()
    };
    assert_eq!(blocks(u32::MAX, None), Some(32));
    assert_eq!(blocks(12, None), Some(8));
    assert_eq!(blocks(0, None), Some(1));
    // A number that the caller states stays.
    assert_eq!(blocks(12, Some(20)), Some(20));
}

#[test]
fn explanations_name_every_algorithm_and_the_selected_one() {
    let registry = Registry::builtin();
    let request = all_reduce(8, 1 << 20);
    let explanation = registry.explain(&request);
    assert_eq!(explanation.selected(), Some(registry.select(&request).expect("one").algorithm.name()));
    let of_kind = algorithms::all().iter().filter(|one| one.kind() == CollectiveKind::AllReduce).count();
    // One more for a rank that is alone.
    assert_eq!(explanation.candidates.len(), of_kind + 1);
    let chosen = explanation.candidates.iter().filter(|one| matches!(one.outcome, Outcome::Selected { .. })).count();
    assert_eq!(chosen, 1);
    let text = explanation.to_string();
    assert!(text.starts_with("allreduce of 1 MiB f32, sum, out of place, 8 ranks on 1 node\n"), "{text}");
    assert!(text.contains("not eligible: requires at least 2 nodes, found 1 node"), "{text}");

    let unserved = registry.explain(&Request { ranks_per_node: 3, ..request });
    assert_eq!(unserved.selected(), None);
    assert!(matches!(unserved.error, Some(SelectError::NoAlgorithm { .. })));
}

#[test]
fn launches_are_counted_by_algorithm() {
    let registry = Registry::builtin();
    assert_eq!(registry.call_counts(), []);
    let ring = registry.find("allreduce_ring").expect("a ring");
    ring.record_call();
    ring.record_call();
    assert_eq!(registry.call_counts(), [("allreduce_ring", 2)]);
}

fn on_devices(collective: CollectiveKind, bytes: u64) -> Request {
    Request { backend: Backend::Cuda, ..Request::new(collective, 8, DataType::F32, bytes) }
}

#[test]
fn devices_use_switches_where_there_are_any_and_the_order_allows_it() {
    let registry = Registry::builtin();
    let chosen = |request: Request| {
        let decision = registry.select(&request).expect("there is one");
        assert!(matches!(decision.decided_by, DecidedBy::Rule(_)), "{request}: {}", decision.decided_by);
        decision.algorithm.name().to_owned()
    };
    for in_place in [false, true] {
        let reduce = |bytes| Request { multicast: true, in_place, ..on_devices(CollectiveKind::AllReduce, bytes) };
        assert_eq!(chosen(Request { multicast: false, ..reduce(1 << 14) }), "allreduce_one_shot_packets");
        // The switch only copies packets, so every rank reduces them in the same order.
        assert_eq!(chosen(reduce(1 << 16)), "allreduce_switch_packets");
        assert_eq!(chosen(Request { num_ranks: 72, ranks_per_node: 72, ..reduce(1 << 16) }), "allreduce_packets");
        let large = reduce(1 << 24);
        let same = OrderPolicy::SameOnAllRanks;
        assert_eq!(chosen(large), "allreduce_switch");
        for (order, expected) in [
            (OrderPolicy::Any, "allreduce_switch"),
            (same, "allreduce_all_pairs"),
            (OrderPolicy::RankOrder, "allreduce_rank_order"),
        ] {
            assert_eq!(chosen(Request { order, ..large }), expected, "{order}");
        }
        for order in [OrderPolicy::Any, OrderPolicy::InSwitch, same] {
            assert_eq!(chosen(Request { order, multicast: false, ..large }), "allreduce_all_pairs", "{order}");
            assert_eq!(chosen(Request { order, dtype: DataType::I32, ..large }), "allreduce_switch", "{order}");
            assert_eq!(chosen(Request { order, op: Some(ReduceOp::Max), ..large }), "allreduce_all_pairs", "{order}");
        }
        // There are instructions for minima and maxima of short floats, which do not say what NaN gives.
        for (dtype, op) in [(DataType::F16, ReduceOp::Max), (DataType::BF16, ReduceOp::Min)] {
            let short = Request { dtype, op: Some(op), ..large };
            assert_eq!(chosen(short), "allreduce_switch");
            assert_eq!(chosen(Request { order: same, ..short }), "allreduce_all_pairs");
            assert_eq!(chosen(Request { order: OrderPolicy::RankOrder, ..short }), "allreduce_all_pairs");
        }

        // As many bytes enter or leave a rank with a switch as without one, and its own part comes back.
        assert_eq!(chosen(Request { collective: CollectiveKind::ReduceScatter, ..large }), "reducescatter_all_pairs");
        for registered in [false, true] {
            let gather = |bytes| Request {
                multicast: true,
                in_place,
                registered,
                ..on_devices(CollectiveKind::AllGather, bytes)
            };
            assert_eq!(chosen(gather(1 << 24)), "allgather_all_pairs");
            assert_eq!(chosen(gather(1 << 16)), "allgather_packets");
        }
    }
}

#[test]
fn blocks_and_threads_on_devices_follow_the_size() {
    let registry = Registry::builtin();
    let launch = |bytes: u64| {
        let request = on_devices(CollectiveKind::AllReduce, bytes);
        let decision = registry.select(&request).expect("there is one");
        let plan = registry.plan(&request, &decision).expect("it builds");
        let (blocks, threads) = (plan.tree().ranks[0].blocks.len() as u32, plan.threads_per_block());
        assert_eq!(decision.config, Config { blocks: Some(blocks), threads: Some(threads) }, "{request}");
        (decision.algorithm.name().to_owned(), blocks, threads)
    };
    let one_shot = |blocks, threads| ("allreduce_one_shot_packets".to_owned(), blocks, threads);
    let packets = |blocks, threads| ("allreduce_packets".to_owned(), blocks, threads);
    // The plans of one algorithm differ from size to size.
    assert_eq!(launch(256), one_shot(1, 64));
    assert_eq!(launch(1 << 10), one_shot(1, 128));
    assert_eq!(launch(1 << 13), one_shot(8, 128));
    assert_eq!(launch(1 << 14), one_shot(16, 128));
    assert_eq!(launch(1 << 15), packets(32, 128));
    assert_eq!(launch(1 << 17), packets(32, 512));
    assert_eq!(launch(1 << 24), ("allreduce_all_pairs".to_owned(), 32, 1024));
    assert_eq!(launch(256), one_shot(1, 64));
    // The thread blocks of all ranks on a device must be co-resident.
    let shared = Request { max_blocks: 131 / 8, ..on_devices(CollectiveKind::AllToAll, 1 << 24) };
    let plan = registry.plan(&shared, &registry.select(&shared).expect("there is one")).expect("it builds");
    assert!(plan.tree().ranks.iter().map(|rank| rank.blocks.len()).sum::<usize>() <= 131);
}

/// Returns the thread blocks of the rank with most of them, and their threads, in the plan that a registry selects.
fn launch_of(registry: &Registry, request: &Request) -> (u32, u32) {
    let plan = registry.plan(request, &registry.select(request).expect("there is one")).expect("it builds").tree();
    let blocks = plan.ranks.iter().map(|rank| rank.blocks.len()).max().unwrap_or(0);
    (blocks as u32, plan.threads_per_block)
}

#[test]
fn launch_limits_bound_whatever_decides() {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter, SendRecv};
    let mut registry = Registry::builtin();
    let kinds = [AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, SendRecv];
    let requests: Vec<Request> = kinds
        .into_iter()
        .flat_map(|kind| [1 << 12, 1 << 18, 1 << 26].map(|bytes| on_devices(kind, bytes)))
        .flat_map(|request| [request, Request { ranks_per_node: request.num_ranks / 2, ..request }])
        .collect();
    let usual: Vec<_> = requests.iter().map(|request| launch_of(&registry, request)).collect();
    assert!(usual.iter().any(|(blocks, threads)| *blocks > 14 && *threads > 512), "{usual:?}");

    // 100 threads are 3 warps.
    registry.set_launch_limits(LaunchLimits { max_blocks: Some(14), max_threads: Some(100) });
    for (request, (blocks, threads)) in requests.iter().zip(&usual) {
        let limited = launch_of(&registry, request);
        assert!(limited.0 <= 14 && limited.1 == 96.min(*threads), "{request}: {limited:?}");
        assert!(limited.0 <= *blocks, "{request}: {limited:?}");
        let config = registry.select(request).expect("there is one").config;
        assert!(registry.explain(request).to_string().contains(&format!("selected with {config}:")), "{request}");
    }

    let request = on_devices(AllReduce, 1 << 26);
    registry.set_selector(|_, _| {
        let config = Config { blocks: Some(64), threads: Some(1024) };
        Some(Choice { name: "allreduce_ring".into(), config })
    });
    assert_eq!(launch_of(&registry, &request), (14, 96));
    // The caller measures a configuration.
    let forced = Choice { name: "allreduce_ring".into(), config: Config { blocks: Some(64), threads: Some(1024) } };
    assert_eq!(registry.decision(&request, &forced).expect("it is one").config, forced.config);
    // On the CPU there are no such launches.
    let on_cpu = Request { backend: Backend::Cpu, ..request };
    assert_eq!(registry.select(&on_cpu).expect("there is one").config.blocks, Some(64));
    registry.set_launch_limits(LaunchLimits::default());
    assert_eq!(launch_of(&registry, &request), (64, 1024));
}

#[test]
fn launch_limits_of_zero_leave_a_block_and_a_warp() {
    let mut registry = Registry::builtin();
    registry.set_launch_limits(LaunchLimits { max_blocks: Some(0), max_threads: Some(0) });
    assert_eq!(launch_of(&registry, &on_devices(CollectiveKind::AllReduce, 1 << 26)), (1, 32));
}

#[test]
fn launch_limits_bound_user_functions_and_differ_in_fingerprints() {
    let mut registry = Registry::empty();
    registry.add(Algorithm::on_demand(algorithms::allgather_all_pairs::algorithm())).expect("it is the only one");
    let (request, without) = (on_devices(CollectiveKind::AllGather, 1 << 26), registry.fingerprint());
    assert!(launch_of(&registry, &request).0 > 5);
    registry.set_launch_limits(LaunchLimits { max_blocks: Some(5), max_threads: Some(256) });
    assert_eq!(launch_of(&registry, &request), (5, 256));
    assert_ne!(registry.fingerprint(), without);
}
