//! Bounds that were derived manually, or published.

use mscclpp_plan::collective::CollectiveKind::{self, AllGather, AllReduce, AllToAll, ReduceScatter};

use super::{BoundError, Direction, lower_bound, lower_bound_of_root};
use crate::machine::Machine;

/// A machine without constants: its ranks, and its links as ends and bandwidth.
fn machine(ranks: u32, per_node: u32, multicast: bool, links: &[(&str, &str, f64)]) -> Machine {
    let mut text = format!(
        "name = \"test\"\ndescription = \"a test\"\nranks = {ranks}\nranks_per_node = {per_node}\nmulticast = {multicast}\n"
    );
    for (from, to, rate) in links {
        let (to, shared) = to.strip_prefix("all:").map_or((*to, false), |to| (to, true));
        text += &format!(
            "[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\ngb_per_s = {rate}\nshared = {shared}\nsource = \"test\"\n"
        );
    }
    Machine::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn assert_algbw(machine: &Machine, kind: CollectiveKind, expected: f64) {
    let found = lower_bound(kind, machine, machine.ranks, 1 << 30).unwrap_or_else(|error| panic!("{error}"));
    assert!((found.algbw_gb_per_s / expected - 1.0).abs() < 1e-5, "expected {expected}, found {found:?}");
}

#[test]
fn published_topologies_have_the_published_bounds() {
    let a100 = |nodes: u32| match nodes {
        1 => machine(8, 8, false, &[("gpu", "switch", 300.0)]),
        _ => machine(8 * nodes, 8, false, &[("gpu", "switch", 300.0), ("gpu", "all:network", 25.0)]),
    };
    for (nodes, gather, reduce) in
        [(1, 342.857143, 171.428571), (2, 346.666667, 173.333333), (4, 266.666667, 133.333333)]
    {
        assert_algbw(&a100(nodes), AllGather, gather);
        assert_algbw(&a100(nodes), ReduceScatter, gather);
        assert_algbw(&a100(nodes), AllReduce, reduce);
    }
}

#[test]
fn switch_that_adds_is_bounded_by_the_cut_alone() {
    let one = Machine::builtin("8xh100").expect("it is built in");
    let found = lower_bound(AllReduce, &one, 8, 1 << 30).expect("a bound");
    let message = f64::from(1 << 30) / 1000.0;
    assert!((found.throughput_us / (message / 450.0) - 1.0).abs() < 1e-9);
    assert!((found.without_multicast_us.expect("a bound") / (message / 257.142857) - 1.0).abs() < 1e-6);
    assert!((found.load_reduce_us.expect("a bound") / (message / 400.0) - 1.0).abs() < 1e-9);
    assert_algbw(&one, AllGather, 514.285714);
    let two = Machine::builtin("2x8xh100").expect("it is built in");
    assert_algbw(&two, AllGather, 533.333333);
    assert_algbw(&two, AllReduce, 400.0);
    // The network does not add: of 16 nodes, each part of the message is sent 30 times over links of 16 times 400.
    assert_algbw(&Machine::builtin("16x8xh100").expect("it is built in"), AllReduce, 16.0 * 400.0 / 30.0);
    let found = lower_bound(AllReduce, &two, 16, 1 << 30).expect("a bound");
    assert!((found.without_multicast_us.expect("a bound") / (message / 266.666667) - 1.0).abs() < 1e-6);
    // Loads of a switch load the own part, too: 9/8 messages at 450, less than one message over the network takes.
    assert!((found.load_reduce_us.expect("a bound") / (message / 400.0) - 1.0).abs() < 1e-9);
}

#[test]
fn memory_that_all_copies_pass_limits_their_sum() {
    let text = |rate: &str| {
        let link = |from: &str, to: &str, rate: &str| {
            format!(
                "[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\ngb_per_s = {rate}\none_way = true\nsource = \"test\"\n"
            )
        };
        let head = "name = \"test\"\ndescription = \"d\"\nranks = 4\nranks_per_node = 4\nmulticast = false\n";
        [head.into(), link("gpu", "writes", "30"), link("writes", "reads", rate), link("reads", "gpu", "30")].concat()
    };
    let host = Machine::parse(&text("12")).unwrap_or_else(|error| panic!("{error}"));
    // Three quarters of four messages, or each element to three ranks, at 12 for all ranks together.
    for kind in [AllGather, ReduceScatter, AllToAll, CollectiveKind::Broadcast, CollectiveKind::Reduce] {
        assert_algbw(&host, kind, 4.0);
    }
    assert_algbw(&host, AllReduce, 2.0);
    // Memory that is as fast as all links limits nothing.
    let fast = Machine::parse(&text("120")).unwrap_or_else(|error| panic!("{error}"));
    assert_algbw(&fast, AllGather, 40.0);
    assert_algbw(&fast, AllReduce, 20.0);
}

#[test]
fn five_ranks_on_a_switch() {
    let five = machine(5, 5, false, &[("gpu", "switch", 450.0)]);
    assert_algbw(&five, AllGather, 562.5);
    assert_algbw(&five, AllReduce, 281.25);
    let adds = machine(5, 5, true, &[("gpu", "switch", 450.0)]);
    assert_algbw(&adds, AllReduce, 450.0);
    let load_reduce = lower_bound(AllReduce, &adds, 5, 375_000_000).expect("a bound").load_reduce_us.expect("a bound");
    assert!((load_reduce - 1000.0).abs() < 1e-6, "{load_reduce}");
}

#[test]
fn islands_with_one_link_between_them() {
    let links = [("gpu0-3", "left", 450.0), ("gpu4-7", "right", 450.0), ("left", "right", 25.0)];
    let islands = machine(8, 8, false, &links);
    assert_algbw(&islands, AllGather, 50.0);
    assert_algbw(&islands, AllReduce, 25.0);
    assert_algbw(&machine(8, 8, true, &links), AllReduce, 25.0);
}

#[test]
fn slow_link_of_one_rank_limits_sums_less_than_twice_a_gather() {
    let slow = machine(8, 8, false, &[("gpu0-6", "switch", 450.0), ("gpu7", "switch", 225.0)]);
    assert_algbw(&slow, AllGather, 257.142857);
    assert_algbw(&slow, AllReduce, 225.0);
}

#[test]
fn ring_of_six_without_a_switch() {
    let ends: Vec<String> = (0..6).map(|gpu| format!("gpu{gpu}")).collect();
    let links: Vec<_> = (0..6).map(|gpu| (ends[gpu].as_str(), ends[(gpu + 1) % 6].as_str(), 25.0)).collect();
    let ring = machine(6, 6, false, &links);
    assert_algbw(&ring, AllGather, 60.0);
    assert_algbw(&ring, AllReduce, 30.0);
}

#[test]
fn mesh_with_single_and_double_links() {
    let single = [(0, 1), (0, 2), (1, 3), (4, 5), (4, 6), (5, 7), (2, 6), (3, 7)];
    let double = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)];
    let ends: Vec<String> = (0..8).map(|gpu| format!("gpu{gpu}")).collect();
    let of = |pairs: &[(usize, usize)], rate: f64| -> Vec<_> {
        pairs.iter().map(|&(a, b)| (ends[a].as_str(), ends[b].as_str(), rate)).collect()
    };
    let mesh = machine(8, 8, false, &[of(&single, 25.0), of(&double, 50.0)].concat());
    assert_algbw(&mesh, AllGather, 171.428571);
    assert_algbw(&mesh, AllReduce, 85.714286);
}

#[test]
fn nodes_with_one_network_interface_each() {
    let links = [("gpu", "switch", 450.0), ("switch", "nic", 1e6), ("nic", "all:network", 50.0)];
    let nodes = machine(16, 8, false, &links);
    assert_algbw(&nodes, AllGather, 100.0);
    assert_algbw(&nodes, AllReduce, 50.0);
    assert_algbw(&nodes, AllToAll, 12.5);
}

#[test]
fn interface_that_the_ranks_of_a_node_share_is_inside_of_the_cut() {
    // As above, with links of all ranks to the interface that together carry more than it does.
    let links = [("gpu", "switch", 450.0), ("gpu", "nic", 50.0), ("nic", "all:network", 50.0)];
    let nodes = machine(16, 8, false, &links);
    assert_algbw(&nodes, AllGather, 100.0);
    assert_algbw(&nodes, AllReduce, 50.0);
    assert_algbw(&nodes, AllToAll, 12.5);
}

#[test]
fn certificate_names_the_ranks_of_the_cut() {
    let slow = machine(8, 8, false, &[("gpu0-6", "switch", 450.0), ("gpu7", "switch", 225.0)]);
    let certificate = lower_bound(AllGather, &slow, 8, 1 << 30).expect("a bound").certificate.expect("a cut");
    assert_eq!(certificate.sets, [["gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "switch"]]);
    assert_eq!((certificate.gb_per_s, certificate.messages), (225.0, 7.0 / 8.0));
}

#[test]
fn ranks_without_a_path_and_unknown_collectives_are_errors() {
    let apart = machine(2, 2, false, &[("gpu0", "left", 1.0), ("gpu1", "right", 1.0)]);
    for kind in [AllGather, AllReduce, ReduceScatter, AllToAll, CollectiveKind::Broadcast, CollectiveKind::Reduce] {
        assert!(lower_bound(kind, &apart, 2, 1).is_err(), "{kind:?}");
    }
    assert!(lower_bound(CollectiveKind::Custom { input: 1, output: 1 }, &apart, 2, 1).is_err());
    assert!(lower_bound(AllGather, &apart, 3, 1).is_err() && lower_bound(AllGather, &apart, 1, 1).is_err());
    // From island to island in one direction only, by a link that is faster than those of the islands.
    let links = "[[link]]\nfrom = \"gpu0\"\nto = \"gpu1\"\ngb_per_s = 10\nsource = \"test\"\n\
        [[link]]\nfrom = \"gpu2\"\nto = \"gpu3\"\ngb_per_s = 10\nsource = \"test\"\n\
        [[link]]\nfrom = \"gpu0\"\nto = \"gpu2\"\ngb_per_s = 100\none_way = true\nsource = \"test\"\n";
    let text = format!("name = \"m\"\ndescription = \"d\"\nranks = 4\nranks_per_node = 4\n{links}");
    let one_way = Machine::parse(&text).expect("it is valid");
    for kind in [AllToAll, AllGather, AllReduce, CollectiveKind::SendRecv, CollectiveKind::Reduce] {
        let error = lower_bound(kind, &one_way, 4, 1).expect_err("rank 0 is not reached from rank 2");
        assert_eq!(error, BoundError::Disconnected("m".to_owned()), "{kind:?}");
    }
    assert!(lower_bound(CollectiveKind::Broadcast, &one_way, 4, 1).is_ok());
}

#[test]
fn cut_of_a_reduce_scatter_is_entered() {
    let slow = machine(8, 8, false, &[("gpu0-6", "switch", 450.0), ("gpu7", "switch", 225.0)]);
    let direction = |kind| lower_bound(kind, &slow, 8, 1 << 30).expect("a bound").certificate.expect("a cut").direction;
    assert_eq!([AllGather, ReduceScatter].map(direction), [Direction::Leave, Direction::Enter]);
}

#[test]
fn slow_links_of_rank_0_bound_the_root_alone_that_it_is() {
    let links = "[[link]]\nfrom = \"gpu0\"\nto = \"s\"\ngb_per_s = 1\none_way = true\nsource = \"test\"\n\
        [[link]]\nfrom = \"s\"\nto = \"gpu0\"\ngb_per_s = 100\none_way = true\nsource = \"test\"\n\
        [[link]]\nfrom = \"gpu1-3\"\nto = \"s\"\ngb_per_s = 100\nsource = \"test\"\n";
    let text = format!("name = \"m\"\ndescription = \"d\"\nranks = 4\nranks_per_node = 4\n{links}");
    let slow = Machine::parse(&text).expect("it is valid");
    let of_root = |kind, root| lower_bound_of_root(kind, root, &slow, 4, 1 << 30).expect("a bound").algbw_gb_per_s;
    assert_eq!([0, 1].map(|root| of_root(CollectiveKind::Broadcast, root)), [1.0, 100.0]);
    // Rank 0 sends its input to every other root.
    assert_eq!([0, 1].map(|root| of_root(CollectiveKind::Reduce, root)), [100.0, 1.0]);
    let error = lower_bound_of_root(CollectiveKind::Reduce, 4, &slow, 4, 1).expect_err("no such rank");
    assert_eq!(error, BoundError::Root { ranks: 4, found: 4 });
}

#[test]
fn latency_between_nodes_counts_once() {
    let text = "name = \"m\"\ndescription = \"d\"\nranks = 8\nranks_per_node = 2\n[[link]]\nfrom = \"gpu\"\nto = \"network\"\n\
        shared = true\ngb_per_s = 100\nsource = \"test\"\n[constant]\nsignal_us = { value = 1, source = \"test\" }\n\
        network_us = { value = 10, source = \"test\" }\n";
    let nodes = Machine::parse(text).expect("it is valid");
    // A rank posts to all others at once.
    for kind in [AllToAll, AllReduce, AllGather, CollectiveKind::SendRecv] {
        let found = lower_bound(kind, &nodes, 8, 1).expect("a bound");
        assert_eq!((found.latency_us, found.time_us), (10.0, 10.0), "{kind:?}");
    }
    // Within a node a load needs no signal, and the machine states no latency of it.
    assert_eq!(lower_bound(AllToAll, &nodes, 2, 1).expect("a bound").latency_us, 0.0);
}

#[test]
fn bound_of_the_largest_machine_is_found_and_of_too_many_kinds_refused() {
    let links = [("gpu", "switch", 450.0), ("gpu", "all:network", 50.0)];
    let start = std::time::Instant::now();
    assert_algbw(&machine(4096, 8, false, &links), AllGather, 4096.0 / (4088.0 / 400.0));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    let ends: Vec<String> = (0..300).map(|gpu| format!("gpu{gpu}")).collect();
    let ring: Vec<_> = (0..300).map(|gpu| (ends[gpu].as_str(), ends[(gpu + 1) % 300].as_str(), 25.0)).collect();
    let error = lower_bound(AllGather, &machine(300, 300, false, &ring), 300, 1).expect_err("299 kinds");
    assert!(matches!(error, BoundError::Kinds { found: 299, .. }), "{error}");
}
