//! Selection covers every request, and the selected plan is correct: over collectives, topologies, sizes, types and
//! buffer modes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::OrderScope;
use mscclpp_core::check::reduction_order;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::DataType;
use mscclpp_exec::cpu::Executor;
use mscclpp_exec::verify::Verifier;
use mscclpp_select::{
    Algorithm, Backend, CALLS, Config, Decision, OrderPolicy, PlanError, Registry, Rejection, Request, SelectError,
};
use proptest::prelude::*;
use proptest::sample::select;

/// Returns every request for a number of ranks: all node sizes, and sizes around the limits of the rules.
fn requests(ranks: u32) -> impl Iterator<Item = Request> {
    let nodes = (1..=ranks).filter(move |per_node| ranks.is_multiple_of(*per_node));
    let sizes = (0..31).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + 1]).chain([1 << 40]);
    let sizes: Vec<_> = sizes.collect();
    nodes.flat_map(move |ranks_per_node| {
        let sizes = sizes.clone();
        CALLS.into_iter().flat_map(move |(_, kind)| {
            let sizes = sizes.clone();
            [DataType::F32, DataType::I8].into_iter().flat_map(move |dtype| {
                let sizes = sizes.clone();
                [false, true].into_iter().flat_map(move |in_place| {
                    let request = Request { in_place, ranks_per_node, ..Request::new(kind, ranks, dtype, 0) };
                    sizes.clone().into_iter().map(move |bytes| Request { bytes, ..request })
                })
            })
        })
    })
}

fn select_one(registry: &Registry, request: &Request) -> Decision {
    registry.select(request).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_request_selects_the_same_on_all_ranks() {
    // Two ranks that do not communicate.
    let registries = [Registry::builtin(), Registry::builtin()];
    for ranks in 1..=64 {
        for request in requests(ranks) {
            let [one, other] = registries.each_ref().map(|registry| select_one(registry, &request));
            assert_eq!((one.algorithm.name(), one.config), (other.algorithm.name(), other.config), "{request}");
        }
    }
}

#[test]
fn all_types_and_reductions_are_supported() {
    let registry = Registry::builtin();
    for (_, kind) in CALLS {
        for &dtype in DataType::ALL {
            for op in ReduceOp::ALL {
                for (ranks, ranks_per_node) in [(1, 1), (2, 2), (2, 1), (3, 3), (7, 1), (12, 4), (48, 8), (64, 64)] {
                    for bytes in [0, 8, 1 << 13, 1 << 20] {
                        let request = Request::new(kind, ranks, dtype, bytes);
                        let op = request.op.map(|_| op);
                        select_one(&registry, &Request { op, ranks_per_node, ..request });
                    }
                }
            }
        }
    }
}

/// Returns the decisions for requests, once for every plan.
fn selected(requests: impl Iterator<Item = Request>) -> Vec<(Request, Decision)> {
    let registry = Registry::builtin();
    let mut found = BTreeMap::new();
    for request in requests {
        let decision = select_one(&registry, &request);
        let name = decision.algorithm.name().to_owned();
        let key = (name, request.ranks_per_node, request.in_place, decision.config.clone());
        found.entry(key).or_insert((request, decision));
    }
    found.into_values().collect()
}

/// Builds and checks every plan that is selected for a number of ranks.
fn build_all(ranks: u32) {
    let registry = Registry::builtin();
    for (request, decision) in selected(requests(ranks)) {
        if !decision.algorithm.has_plans() {
            continue;
        }
        let plan = registry.plan(&request, &decision).unwrap_or_else(|error| panic!("{request}: {error}"));
        assert_eq!((plan.num_ranks(), plan.ranks_per_node()), (ranks, request.ranks_per_node));
        assert_eq!((plan.collective().kind, plan.collective().in_place), (request.collective, request.in_place));
        // The CPU has few cores, so one block per rank is the default.
        let name = decision.algorithm.name();
        if request.collective == CollectiveKind::AllReduce && ranks <= 16 {
            let own_order = decision.algorithm.constraints().order_varies_across;
            let order = reduction_order(&plan.tree()).expect("it reduces");
            let may_differ = matches!(own_order, Some(OrderScope::FirstTwo | OrderScope::Nodes | OrderScope::Ranks));
            assert!(may_differ || order.is_same_on_all_ranks(), "{name} for {request}: {order:?}");
            if own_order == Some(OrderScope::FirstTwo) {
                assert!(
                    order.differing_ranks.is_empty() || order.differing_ranks == [1],
                    "{name} for {request}: {order:?}"
                );
                assert!(order.num_orders <= 2, "{name} for {request}: {order:?}");
            }
        }
    }
}

#[test]
fn selected_plans_are_proved() {
    for ranks in [2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16] {
        build_all(ranks);
    }
}

#[test]
fn selected_plans_of_many_ranks_are_proved() {
    // The checks of many ranks take long without optimization.
    for ranks in if cfg!(debug_assertions) { vec![17, 24] } else { (17..=64).collect() } {
        build_all(ranks);
    }
}

/// Returns requests on devices: of sizes with other numbers of blocks, with and without multicast, in all orders.
fn device_requests(ranks: u32) -> impl Iterator<Item = Request> {
    let kinds = [CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter];
    let requests = kinds.into_iter().flat_map(move |kind| {
        (8..=22).step_by(2).map(move |power| Request {
            backend: Backend::Cuda,
            ..Request::new(kind, ranks, DataType::F32, 1 << power)
        })
    });
    let requests = requests.flat_map(|request| [false, true].map(|in_place| Request { in_place, ..request }));
    let requests = requests.flat_map(|request| [false, true].map(|multicast| Request { multicast, ..request }));
    requests.flat_map(|request| OrderPolicy::ALL.map(|order| Request { order, ..request }))
}

#[test]
fn plans_selected_on_devices_are_proved() {
    let registry = Registry::builtin();
    let mut names = BTreeSet::new();
    for ranks in [2, 3, 8] {
        for (request, decision) in selected(device_requests(ranks)) {
            names.insert(decision.algorithm.name().to_owned());
            let plan = registry.plan(&request, &decision).unwrap_or_else(|error| panic!("{request}: {error}"));
            let order = reduction_order(&plan.tree());
            let by_switch = order.as_ref().is_some_and(|order| order.by_switch);
            assert!(!by_switch || request.order <= OrderPolicy::InSwitch, "{request}: {order:?}");
            assert!(order.is_none_or(|order| order.is_same_on_all_ranks()), "{request}");
        }
    }
    let expected = ["allreduce_switch", "allreduce_switch_packets", "allreduce_rank_order", "reducescatter_rank_order"];
    assert!(expected.iter().all(|name| names.contains(*name)), "{names:?}");
}

/// Returns the algorithms that may be selected for a request of any size that demands the order of ranks.
fn in_rank_order(registry: &Registry, request: Request) -> Vec<&Arc<Algorithm>> {
    let request = Request { order: OrderPolicy::RankOrder, ..request };
    registry
        .iter()
        .filter(|one| one.collective() == request.collective && one.check_request(&request).is_ok())
        .collect()
}

#[test]
fn algorithms_that_claim_the_order_of_ranks_are_proved_to_have_it() {
    let registry = Registry::builtin();
    let mut claims = BTreeSet::new();
    for (_, kind) in CALLS {
        let rounding = Request::new(kind, 3, DataType::F32, 1 << 20);
        if !rounding.rounds() {
            continue;
        }
        for (ranks, ranks_per_node) in [(3, 3), (4, 4), (5, 5), (8, 8), (16, 16), (3, 1), (4, 2), (12, 4)] {
            for (backend, multicast) in [(Backend::Cpu, false), (Backend::Cuda, false), (Backend::Cuda, true)] {
                let request = Request::new(kind, ranks, DataType::F32, 1 << 20);
                let request = Request { backend, multicast, ranks_per_node, ..request };
                for (in_place, blocks) in [(false, None), (true, None), (false, Some(3))] {
                    let request = Request { in_place, order: OrderPolicy::RankOrder, ..request };
                    for algorithm in in_rank_order(&registry, request) {
                        claims.insert(algorithm.name().to_owned());
                        let config = Config { blocks, threads: None };
                        // Building proves the order as well; this does not rely on it.
                        let plan = algorithm.build(&Request { order: OrderPolicy::Any, ..request }, &config);
                        let plan = plan.unwrap_or_else(|error| panic!("{request}: {error}"));
                        let order = reduction_order(&plan.tree()).expect("it reduces");
                        assert!(order.is_rank_order && order.num_orders == 1, "{} for {request}", algorithm.name());
                    }
                }
            }
        }
    }
    let expected = [
        "allreduce_one_shot_packets",
        "allreduce_one_shot_ports",
        "allreduce_rank_order",
        "allreduce_rank_order_ports",
        "allreduce_switch_packets",
        "reduce_rank_order",
        "reducescatter_rank_order",
        "reducescatter_rank_order_ports",
    ];
    assert_eq!(claims.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}

#[test]
fn requests_for_the_order_of_ranks_are_met_for_every_reduction_on_any_nodes() {
    let mut registry = Registry::builtin();
    let request = |kind, ranks, ranks_per_node| {
        let request = Request::new(kind, ranks, DataType::F16, 1 << 12);
        Request { order: OrderPolicy::RankOrder, ranks_per_node, ..request }
    };
    for kind in [CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::Reduce] {
        for (ranks, per_node) in [(3, 3), (8, 8), (3, 1), (8, 4), (12, 2)] {
            for (in_place, bytes) in [(false, 2), (true, 1 << 12), (false, 1 << 26)] {
                let request = Request { in_place, bytes, ..request(kind, ranks, per_node) };
                let decision = registry.select(&request).unwrap_or_else(|error| panic!("{request}: {error}"));
                // Building it proves the order.
                registry.plan(&request, &decision).unwrap_or_else(|error| panic!("{request}: {error}"));
            }
        }
    }
    // Without the algorithms that have it, the reason is given.
    assert!(registry.remove("allreduce_rank_order_ports") && registry.remove("allreduce_one_shot_ports"));
    let error = registry.select(&request(CollectiveKind::AllReduce, 8, 4)).expect_err("nothing has this order");
    let SelectError::NoAlgorithm { rejections, .. } = &error else { panic!("{error}") };
    assert!(rejections.iter().any(|(_, why)| *why == Rejection::NotInRankOrder), "{error}");
    assert!(error.to_string().contains("the request requires that of ranks"), "{error}");
    // Two operands commute, and integers do not round.
    assert!(registry.select(&request(CollectiveKind::AllReduce, 2, 1)).is_ok());
    let integers = Request { dtype: DataType::I32, ..request(CollectiveKind::AllReduce, 8, 4) };
    assert!(registry.select(&integers).is_ok());
}

#[test]
fn false_claim_of_the_order_of_ranks_is_an_error() {
    let ring = Algorithm::on_demand(algorithms::allreduce_ring::algorithm());
    let ring = ring.with_constraints(|limits| limits.order_varies_across = None);
    let request = Request::new(CollectiveKind::AllReduce, 4, DataType::F32, 1 << 12);
    assert!(ring.build(&request, &Config::default()).is_ok());
    let ordered = Request { order: OrderPolicy::RankOrder, ..request };
    let error = ring.build(&ordered, &Config::default()).expect_err("a ring has several orders");
    assert_eq!(error, PlanError::NotInRankOrder { name: "allreduce_ring".into() });

    // A registry that has cached the plan for another request proves it nevertheless.
    let mut registry = Registry::empty();
    registry.add(ring).expect("a new name");
    let decision = registry.select(&request).expect("the ring");
    assert!(registry.plan(&request, &decision).is_ok());
    assert_eq!(registry.plan(&ordered, &decision).expect_err("it is not proved"), error);
}

/// Returns the bits of the sum of a column of `inputs`, added from left to right.
fn sum_in_rank_order(inputs: &[Vec<f32>], column: usize) -> u32 {
    inputs.iter().map(|input| input[column]).reduce(|sum, element| sum + element).expect("a rank").to_bits()
}

#[test]
fn sums_in_the_order_of_ranks_do_not_depend_on_size_place_or_mode() {
    let registry = Registry::builtin();
    let ranks = 5_u32;
    let mut random = 1_u64;
    let mut element = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Of very different magnitudes, so that every other order gives other bits.
        f32::from_bits(((random >> 40) as u32 & 0x807f_ffff) | (120 + (random >> 33) as u32 % 16) << 23)
    };
    let longest = 140_000;
    let inputs: Vec<Vec<f32>> = (0..ranks).map(|_| (0..longest).map(|_| element()).collect()).collect();
    let expected: Vec<u32> = (0..longest).map(|column| sum_in_rank_order(&inputs, column)).collect();
    let reversed: Vec<_> = inputs.iter().rev().cloned().collect();
    assert!((0..longest).filter(|&column| sum_in_rank_order(&reversed, column) != expected[column]).count() > 1000);
    let mut names = BTreeSet::new();
    for backend in [Backend::Cpu, Backend::Cuda] {
        for (offset, len) in [(0, 1), (3, 64), (1, 255), (0, 1 << 12), (7, 10_000), (1000, 32_768), (0, longest)] {
            for in_place in [false, true] {
                let request = Request {
                    in_place,
                    backend,
                    order: OrderPolicy::RankOrder,
                    ..Request::new(CollectiveKind::AllReduce, ranks, DataType::F32, 4 * len as u64)
                };
                let decision = select_one(&registry, &request);
                names.insert(decision.algorithm.name().to_owned());
                let plan = registry.plan(&request, &decision).unwrap_or_else(|error| panic!("{request}: {error}"));
                let mut run = Executor::new(ranks).prepare(&plan, request.message()).expect("it is prepared");
                let mut buffers = run.buffers().expect("little memory");
                for (rank, input) in (0..ranks).zip(&inputs) {
                    let part = input[offset..offset + len].iter().flat_map(|element| element.to_ne_bytes());
                    buffers.input_mut(rank).copy_from_slice(&part.collect::<Vec<_>>());
                }
                run.launch_buffers(&mut buffers).unwrap_or_else(|error| panic!("{request}: {error}"));
                for rank in 0..ranks {
                    let found = buffers
                        .output(rank)
                        .chunks_exact(4)
                        .map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("4 bytes")));
                    assert!(found.eq(expected[offset..offset + len].iter().copied()), "{request}, rank {rank}");
                }
            }
        }
    }
    assert!(names.len() >= 2, "one algorithm for all sizes: {names:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 200 } else { 2000 }, ..ProptestConfig::default() })]
    #[test]
    fn selected_plans_compute_their_collectives(
        kind in select(CALLS.map(|(_, kind)| kind).to_vec()), ranks in 2..10_u32, node in any::<proptest::sample::Index>(),
        dtype in select(DataType::ALL), op in select(ReduceOp::ALL.to_vec()), root in 0..10_u32, in_place: bool,
        part in prop_oneof![0..300_u64, 0..20_000_u64], odd in 0..7_u64, blocks in 1..4_u32, seed: u64,
    ) {
        let divisors: Vec<_> = (1..=ranks).filter(|per_node| ranks.is_multiple_of(*per_node)).collect();
        let free = !matches!(kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll);
        let count = part * u64::from(ranks) + if free { odd } else { 0 };
        let request = Request::new(kind, ranks, dtype, count * dtype.size() as u64);
        let rooted = matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce);
        let request = Request {
            op: request.op.map(|_| op),
            root: if rooted { root % ranks } else { 0 },
            ranks_per_node: *node.get(&divisors),
            in_place,
            ..request
        };
        let registry = Registry::builtin();
        let mut decision = select_one(&registry, &request);
        decision.config = Config { blocks: Some(blocks), threads: None };
        let plan = registry.plan(&request, &decision).unwrap_or_else(|error| panic!("{request}: {error}"));
        let mut run = Executor::new(ranks).prepare(&plan, request.message()).unwrap_or_else(|error| panic!("{error}"));
        let mut buffers = run.buffers().expect("little memory");
        for launch in 0..2 {
            let verifier = Verifier::new(&run, seed.wrapping_add(launch));
            verifier.fill(&mut buffers);
            run.launch_buffers(&mut buffers).unwrap_or_else(|error| panic!("{request}: {error}"));
            let report = verifier.check(&buffers);
            prop_assert!(report.wrong == 0, "{} for {request}: {report}", decision.algorithm.name());
        }
    }
}
