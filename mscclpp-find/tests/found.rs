//! Found plans on odd machines: the checks accept them, they give right results on the CPU executor, their functions compile to them,
//! and no time is below the bound.
//!
//! `MSCCLPP_BLESS=1` writes the functions in `functions` anew.

// The functions are public in the files that users get.
#[expect(unreachable_pub)]
mod functions {
    #[rustfmt::skip]
    pub mod all_gather;
    #[rustfmt::skip]
    pub mod all_reduce;
    #[rustfmt::skip]
    pub mod broadcast;
    #[rustfmt::skip]
    pub mod builtin;
    #[rustfmt::skip]
    pub mod reduce;
    #[rustfmt::skip]
    pub mod reduce_scatter;
}

use mscclpp_core::check::check;
use mscclpp_core::collective::CollectiveKind::{
    self, AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter,
};
use mscclpp_core::plan::Plan;
use mscclpp_exec::cpu::Executor;
use mscclpp_exec::{Message, verify::Verifier};
use mscclpp_find::{Candidate, FindError, Finder, Ranking, Request};
use mscclpp_predict::Machine;

/// Constants with which thread blocks are fast and operations take time.
const CONSTANTS: &str = "[constant]\nop_us = { value = 0.1, source = \"test\" }\nsignal_us = { value = 1, source = \"test\" }\n\
    launch_us = { value = 2, source = \"test\" }\n";

fn machine(ranks: u32, links: &[(&str, &str, f64)]) -> Machine {
    let mut text = format!("name = \"test\"\ndescription = \"a test\"\nranks = {ranks}\nranks_per_node = {ranks}\n");
    for (from, to, rate) in links {
        text += &format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\ngb_per_s = {rate}\nsource = \"test\"\n");
    }
    Machine::parse(&(text + CONSTANTS)).unwrap_or_else(|error| panic!("{error}"))
}

/// Five GPUs, two islands, a slow link, and a ring with a dead link.
fn machines() -> Vec<(&'static str, Machine)> {
    vec![
        ("five", machine(5, &[("gpu", "switch", 450.0)])),
        ("islands", machine(8, &[("gpu0-3", "left", 450.0), ("gpu4-7", "right", 450.0), ("left", "right", 25.0)])),
        ("slow", machine(4, &[("gpu0-2", "switch", 400.0), ("gpu3", "switch", 200.0)])),
        ("dead", machine(4, &[("gpu0", "gpu1", 25.0), ("gpu1", "gpu2", 25.0), ("gpu2", "gpu3", 25.0)])),
    ]
}

fn request(kind: CollectiveKind, machine: &Machine) -> Request<'_> {
    Request { kind, machine, num_ranks: machine.ranks, max_blocks: Some(64), in_place: None }
}

#[track_caller]
fn assert_is_right(candidate: &Candidate) {
    assert!(check(candidate.plan()).is_empty(), "{}", candidate.name());
    let plan = Plan::new(candidate.plan());
    for parts in [1, 1000, 20_003] {
        let count = parts * plan.num_ranks() as usize;
        if !(candidate.plan().min_message_size..=candidate.plan().max_message_size).contains(&(4 * count as u64)) {
            continue;
        }
        let mut prepared =
            Executor::new(plan.num_ranks()).prepare(&plan, Message::of::<f32>(count)).expect("a message that fits");
        let mut buffers = prepared.buffers().expect("little memory");
        let verifier = Verifier::new(&prepared, 42);
        verifier.fill(&mut buffers);
        prepared.launch_buffers(&mut buffers).expect("it runs");
        assert!(verifier.check(&buffers).is_correct(), "{} of {count} elements", candidate.name());
    }
}

#[test]
fn found_plans_are_right_and_close_to_the_bound() {
    for (name, machine) in machines() {
        for kind in [AllGather, ReduceScatter, AllReduce, Broadcast, Reduce] {
            let finder = Finder::new(request(kind, &machine));
            let rankings = finder.rank(&[1 << 10, 1 << 30], 50).unwrap_or_else(|error| panic!("{name}: {error}"));
            for ranking in &rankings {
                assert!(ranking.ranked.is_sorted_by(|a, b| a.time_us <= b.time_us), "{name}");
                for found in &ranking.ranked {
                    assert!(found.time_us >= ranking.bound.time_us, "{name}: {}", found.candidate.name());
                    // Built-in algorithms have tests of their own.
                    if !matches!(kind, Broadcast | Reduce) || found.candidate.builtin().is_none() {
                        assert_is_right(&found.candidate);
                    }
                }
            }
            let (long, best) = (&rankings[1], &rankings[1].ranked[0]);
            let times = best.time_us / long.bound.time_us;
            // The way through the trees is not free, and links idle at times.
            let (plan, config) = (best.candidate.name(), best.candidate.config());
            assert!(times < 1.1, "{name}: {kind:?} by {plan} ({config}) takes {times} times the bound");
            let trees = long.ranked.iter().find(|found| found.candidate.builtin().is_none()).expect("trees");
            let trees = trees.links_gb_per_s.expect("links");
            let bound = long.bound.algbw_gb_per_s;
            assert!(trees >= 0.95 * bound && trees <= bound * (1.0 + 1e-9), "{name}: {kind:?} {trees} {bound}");
        }
    }
}

/// Bytes of messages whose time is that of links.
const LONG: u64 = 256 << 20;

/// Returns how many times the bound the links take, for the plan that uses them best and for the fastest one. Sums in switches load the
/// caller's own part as well, so they are compared with the bound of such loads.
fn times_of_links(ranking: &Ranking) -> (f64, f64) {
    let bound_us = ranking.bound.load_reduce_us.unwrap_or(ranking.bound.throughput_us);
    let times = ranking.ranked.iter().filter_map(|found| {
        let us = ranking.bytes as f64 / found.links_gb_per_s? / 1000.0;
        Some(us / bound_us)
    });
    let times: Vec<f64> = times.collect();
    (times.iter().copied().fold(f64::INFINITY, f64::min), times[0])
}

/// Finds plans of long messages on machines, and checks that links take at most 1.05 times the bound. Prints a row of each collective.
fn assert_use_links(machines: impl Iterator<Item = Machine>) {
    let rows: Vec<_> = machines.flat_map(|machine| uses_of_links(&machine)).collect();
    let worse: Vec<_> = rows.iter().filter(|(best, _)| *best > 1.05).collect();
    assert!(worse.is_empty(), "{worse:?}");
}

/// Finds plans of long messages on a machine, and returns and prints how many times the bound the links take for each collective.
fn uses_of_links(machine: &Machine) -> Vec<(f64, String)> {
    let kinds = [AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce];
    let rows = kinds.map(|kind| {
        let request = Request { kind, machine, num_ranks: machine.ranks, max_blocks: None, in_place: None };
        let start = std::time::Instant::now();
        let rankings = Finder::new(request).rank(&[LONG], 50).unwrap_or_else(|error| panic!("{error}"));
        let took = start.elapsed();
        let (best, fastest) = times_of_links(&rankings[0]);
        let name = &machine.name;
        if machine.ranks <= 16 {
            rankings[0].ranked.iter().for_each(|found| assert_is_right(&found.candidate));
        }
        let first = rankings[0].ranked[0].candidate.name();
        let row = format!("{name:16} {:14} links {best:.3}, fastest {first} {fastest:.3}, {took:.1?}", kind.name());
        println!("{row}");
        (best, row)
    });
    rows.to_vec()
}

#[test]
fn links_between_nodes_are_used_as_the_bound_allows() {
    assert_use_links([machine_of_nodes(8, 4, "multicast = true\n"), machine_of_nodes(6, 2, "")].into_iter());
}

#[test]
fn memory_of_the_host_is_used_as_the_bound_allows() {
    assert_use_links([Machine::builtin("4xrtx4090-pcie").expect("it is built in")].into_iter());
}

/// Nodes on switches, with an interface for each rank to a network that all nodes share.
fn machine_of_nodes(ranks: u32, per_node: u32, more: &str) -> Machine {
    let link = |to: &str, rate: u32, shared: bool| {
        format!("[[link]]\nfrom = \"gpu\"\nto = \"{to}\"\ngb_per_s = {rate}\nshared = {shared}\nsource = \"test\"\n")
    };
    let text = format!(
        "name = \"nodes\"\ndescription = \"d\"\nranks = {ranks}\nranks_per_node = {per_node}\n{more}{}{}{CONSTANTS}",
        link("switch", 400, false),
        link("network", 50, true)
    );
    Machine::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
#[ignore = "takes minutes"]
fn links_of_every_described_machine_are_used_as_the_bound_allows() {
    let machines = Machine::names().map(|name| Machine::builtin(name).expect("it is built in"));
    assert_use_links(machines.filter(|machine| machine.ranks <= 64 && !machine.one_device));
}

#[test]
fn all_reduce_trees_run_in_place() {
    let (_, islands) = machines().swap_remove(1);
    let in_place = Request { in_place: Some(true), ..request(AllReduce, &islands) };
    let finder = Finder::new(in_place);
    let rankings = finder.rank(&[1 << 30], 1).expect("a plan");
    let best = &rankings[0].ranked[0].candidate;
    assert!(best.plan().collective.in_place && best.name() == "allreduce_trees", "{}", best.name());
    assert_is_right(best);
}

#[test]
fn nothing_that_fits_is_an_error() {
    let (_, five) = machines().swap_remove(0);
    let apart = machine(4, &[("gpu0-1", "left", 1.0), ("gpu2-3", "right", 1.0)]);
    let error = Finder::new(request(AllReduce, &apart)).rank(&[1], 1).expect_err("it is not connected");
    assert!(matches!(error, FindError::Bound(_)), "{error}");
    let large = machine(1024, &[("gpu", "switch", 1.0)]);
    let error = Finder::new(request(AllReduce, &large)).rank(&[1], 1).expect_err("too many ranks");
    assert!(matches!(error, FindError::TooManyRanks { limit: 512, found: 1024 }), "{error}");
    let beyond = Request { num_ranks: 9, ..request(AllReduce, &five) };
    assert!(matches!(Finder::new(beyond).rank(&[1], 1), Err(FindError::Bound(_))));
    let none = Request { max_blocks: Some(0), ..request(AllReduce, &five) };
    let error = Finder::new(none).rank(&[1], 1).expect_err("no thread blocks").to_string();
    assert!(error.contains("with at most 0 thread blocks; allow more"), "{error}");
    // Ranks 0 and 2 exchange data by rank 1 alone, which no built-in algorithm does.
    let chain = machine(3, &[("gpu0", "gpu1", 1.0), ("gpu1", "gpu2", 1.0)]);
    let error = Finder::new(request(CollectiveKind::AllToAll, &chain)).rank(&[1 << 10], 1).expect_err("no route");
    assert!(matches!(&error, FindError::None { first: Some(_), .. }), "{error}");
    let expected = "thread blocks; the first one has no time: expected links of machine `test` from rank 0 to rank 2";
    assert!(error.to_string().contains(expected), "{error}");
}

/// Returns the text of the fastest function of a name, and the plan to which it compiles.
fn found(kind: CollectiveKind, machine: usize, bytes: u64, algorithm: &str) -> (String, Plan) {
    let mut machines = machines();
    machines.push(("nodes", machine_of_nodes(4, 2, "")));
    let (name, machine) = machines.swap_remove(machine);
    let finder = Finder::new(request(kind, &machine));
    let rankings = finder.rank(&[bytes], 50).unwrap_or_else(|error| panic!("{name}: {error}"));
    let best = rankings[0].ranked.iter().find(|found| found.candidate.name() == algorithm);
    let best = &best.expect("it is among them").candidate;
    (best.source(&[format!("Found for {name}.")]), Plan::new(best.plan()))
}

#[test]
fn functions_compile_to_the_plans() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/functions");
    for (file, compiled, (text, plan)) in [
        (
            "all_gather",
            (|| functions::all_gather::allgather_trees::plan(4)) as fn() -> &'static Plan,
            found(AllGather, 3, 1 << 30, "allgather_trees"),
        ),
        (
            "reduce_scatter",
            (|| functions::reduce_scatter::reducescatter_trees::plan(4)) as fn() -> &'static Plan,
            found(ReduceScatter, 2, 1 << 30, "reducescatter_trees"),
        ),
        (
            "all_reduce",
            (|| functions::all_reduce::allreduce_trees::plan(8)) as fn() -> &'static Plan,
            found(AllReduce, 1, 1 << 30, "allreduce_trees"),
        ),
        (
            "broadcast",
            (|| functions::broadcast::broadcast_trees::plan(4)) as fn() -> &'static Plan,
            found(Broadcast, 4, 1 << 30, "broadcast_trees"),
        ),
        (
            "reduce",
            (|| functions::reduce::reduce_trees::plan(4)) as fn() -> &'static Plan,
            found(Reduce, 4, 1 << 30, "reduce_trees"),
        ),
        (
            "builtin",
            (|| functions::builtin::allreduce_packets::plan(5)) as fn() -> &'static Plan,
            found(AllReduce, 0, 1 << 10, "allreduce_packets"),
        ),
    ] {
        let path = path.join(file).with_extension("rs");
        if std::env::var_os("MSCCLPP_BLESS").is_some() {
            std::fs::write(&path, text).expect("it is written");
            continue;
        }
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), text, "{file}: MSCCLPP_BLESS=1 writes it anew");
        assert_eq!(*compiled(), plan, "{file}");
    }
}
