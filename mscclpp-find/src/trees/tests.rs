//! Bandwidths of packed trees against optima that were derived manually, and the properties of the trees.

use mscclpp_core::collective::CollectiveKind::{self, AllGather, AllReduce, Broadcast, Reduce, ReduceScatter};
use mscclpp_predict::{Machine, Topology};

use super::TreePlan;

/// A machine without constants: its ranks, and its links as ends and bandwidth.
fn machine(ranks: u32, links: &[(&str, &str, f64)]) -> Machine {
    let mut text = format!("name = \"test\"\ndescription = \"a test\"\nranks = {ranks}\nranks_per_node = {ranks}\n");
    for (from, to, rate) in links {
        text += &format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\ngb_per_s = {rate}\nsource = \"test\"\n");
    }
    Machine::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the bytes of the message per time that links allow if each tree carries an equal part of it, in 10⁹ bytes per second.
fn bandwidth(trees: &TreePlan, topology: &Topology) -> f64 {
    let routes: Vec<_> = (0..topology.num_ranks).map(|rank| topology.routes(rank)).collect();
    let mut load = vec![0.0; topology.edges.len()];
    for (from, to) in trees.up.iter().chain(&trees.down).flat_map(|(_, links)| links) {
        routes[*from][*to].as_ref().expect("a route").iter().for_each(|edge| load[*edge] += 1.0);
    }
    let num_trees = trees.up.len().max(trees.down.len()) as f64;
    let times = topology.edges.iter().zip(&load).map(|(edge, load)| load / num_trees / edge.gb_per_s);
    1.0 / times.fold(0.0, f64::max)
}

#[track_caller]
fn assert_algbw(machine: &Machine, kind: CollectiveKind, expected: f64) {
    let all = TreePlan::all(kind, machine, machine.ranks);
    let topology = Topology::of(machine, machine.ranks);
    let best = all.iter().map(|trees| bandwidth(trees, &topology)).fold(0.0, f64::max);
    assert!(best <= expected * (1.0 + 1e-6) && best >= expected * 0.95, "expected {expected}, found {best}");
    for trees in &all {
        for (root, links) in &trees.down {
            // Every rank but the root is reached once, from one that is reached before.
            let mut reached = vec![*root];
            for (parent, child) in links {
                assert!(reached.contains(parent) && !reached.contains(child), "{links:?}");
                reached.push(*child);
            }
            assert_eq!(reached.len() as u32, machine.ranks);
        }
    }
}

#[test]
fn five_ranks_on_a_switch() {
    let five = machine(5, &[("gpu", "switch", 450.0)]);
    // Four shards of M/5 enter each rank over 450.
    assert_algbw(&five, AllGather, 562.5);
    assert_algbw(&five, ReduceScatter, 562.5);
    assert_algbw(&five, AllReduce, 281.25);
    // The message leaves the root, or enters it, over 450.
    assert_algbw(&five, Broadcast, 450.0);
    assert_algbw(&five, Reduce, 450.0);
}

#[test]
fn islands_with_one_link_between_them() {
    let islands = machine(8, &[("gpu0-3", "left", 450.0), ("gpu4-7", "right", 450.0), ("left", "right", 25.0)]);
    // Four shards of M/8 leave an island over 25.
    assert_algbw(&islands, AllGather, 50.0);
    assert_algbw(&islands, ReduceScatter, 50.0);
    // In each direction, half of the sums and half of the results pass the link.
    assert_algbw(&islands, AllReduce, 25.0);
    assert_algbw(&islands, Broadcast, 25.0);
}

#[test]
fn one_slow_link() {
    let slow = machine(8, &[("gpu0-6", "switch", 450.0), ("gpu7", "switch", 225.0)]);
    // Seven shards of M/8 enter the slow rank over 225.
    assert_algbw(&slow, AllGather, 257.142857);
    // Roots on the seven fast ranks: a message leaves the slow rank over 225, and one enters it at the same time.
    assert_algbw(&slow, AllReduce, 225.0);
    // The message enters the slow rank, or leaves it.
    assert_algbw(&slow, Broadcast, 225.0);
    assert_algbw(&slow, Reduce, 225.0);
}

#[test]
fn ring_with_a_dead_link() {
    let ends: Vec<String> = (0..6).map(|gpu| format!("gpu{gpu}")).collect();
    let links = |count: usize| -> Vec<_> {
        (0..count).map(|gpu| (ends[gpu].as_str(), ends[(gpu + 1) % 6].as_str(), 25.0)).collect()
    };
    // Five shards of M/6 enter each rank over two links of 25.
    assert_algbw(&machine(6, &links(6)), AllGather, 60.0);
    // Without the last link, five shards enter each end of the chain over one.
    assert_algbw(&machine(6, &links(5)), AllGather, 30.0);
    // Sums travel to a root in the middle, and results from it: once over each link and direction.
    assert_algbw(&machine(6, &links(5)), AllReduce, 25.0);
}

#[test]
fn mesh_with_single_and_double_links() {
    let single = [(0, 1), (0, 2), (1, 3), (4, 5), (4, 6), (5, 7), (2, 6), (3, 7)];
    let double = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)];
    let ends: Vec<String> = (0..8).map(|gpu| format!("gpu{gpu}")).collect();
    let of = |pairs: &[(usize, usize)], rate: f64| -> Vec<_> {
        pairs.iter().map(|&(a, b)| (ends[a].as_str(), ends[b].as_str(), rate)).collect()
    };
    assert_algbw(&machine(8, &[of(&single, 25.0), of(&double, 50.0)].concat()), AllGather, 171.428571);
}

#[test]
fn one_root_on_several_nodes() {
    for interfaces in ["gpu", "gpu0", "gpu0-1"] {
        let text = format!(
            "name = \"test\"\ndescription = \"nodes\"\nranks = 12\nranks_per_node = 4\n[[link]]\nfrom = \"gpu\"\nto = \"switch\"\n\
             gb_per_s = 400\nsource = \"test\"\n[[link]]\nfrom = \"{interfaces}\"\nto = \"network\"\ngb_per_s = 50\nshared = true\nsource = \"test\"\n"
        );
        let nodes = Machine::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        // The message passes all interfaces of a node, also those of other ranks than the root.
        let expected = match interfaces {
            "gpu" => 200.0,
            "gpu0" => 50.0,
            _ => 100.0,
        };
        assert_algbw(&nodes, Broadcast, expected);
        assert_algbw(&nodes, Reduce, expected);
        assert!(TreePlan::all(AllGather, &nodes, 12).is_empty());
    }
}

#[test]
fn machine_with_many_elements_has_no_trees() {
    let names: Vec<String> = (0..510).map(|number| format!("host{number}")).collect();
    let links = |count: usize| -> Vec<(&str, &str, f64)> {
        let pairs = names[..count].chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str(), 1.0));
        pairs.chain([("gpu", "switch", 1.0)]).collect()
    };
    assert!(TreePlan::all(AllGather, &machine(2, &links(510)), 2).is_empty());
    assert_eq!(TreePlan::all(AllGather, &machine(2, &links(508)), 2).len(), 1);
}

#[test]
fn ranks_that_are_not_connected_have_no_trees() {
    let apart = machine(4, &[("gpu0-1", "left", 1.0), ("gpu2-3", "right", 1.0)]);
    assert!(TreePlan::all(AllReduce, &apart, 4).is_empty());
    assert!(TreePlan::all(CollectiveKind::AllToAll, &machine(4, &[("gpu", "switch", 1.0)]), 4).is_empty());
}
