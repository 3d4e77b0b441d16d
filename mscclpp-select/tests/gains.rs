//! What selection by predicted times gains over the default rules, as the timing model has it, and what it loses where constants of a
//! description are wrong. `MSCCLPP_MACHINES` names machines, separated by commas; `MSCCLPP_LIST=1` lists the calls that predictions gain.

use std::collections::BTreeMap;

use mscclpp_core::collective::CollectiveKind::{self, AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter};
use mscclpp_exec::DataType;
use mscclpp_predict::predict;
use mscclpp_select::{Backend, Machine, Registry, Request};

const KINDS: [CollectiveKind; 5] = [AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast];
const SIZES: [u64; 6] = [1 << 10, 16 << 10, 256 << 10, 4 << 20, 32 << 20, 256 << 20];
/// Part of the time that a selection may lose where one constant is wrong by 20 %.
const MAX_REGRET: f64 = 0.05;
/// Collectives and sizes for which constants are changed.
const CHANGED_KINDS: [CollectiveKind; 2] = [AllReduce, AllGather];
const CHANGED_SIZES: [u64; 3] = [16 << 10, 1 << 20, 64 << 20];

fn registry(machine: &Machine) -> Registry {
    let mut registry = Registry::builtin();
    registry.set_machine(Some(machine.clone()));
    registry
}

fn request(machine: &Machine, kind: CollectiveKind, bytes: u64) -> Request {
    Request {
        ranks_per_node: machine.ranks_per_node,
        multicast: machine.multicast,
        max_blocks: 108,
        backend: Backend::Cuda,
        ..Request::new(kind, machine.ranks, DataType::F32, bytes)
    }
}

/// Returns the predicted time of what a registry selects; `None` if the machine cannot run it.
fn time(selecting: &Registry, request: &Request, machine: &Machine) -> Option<f64> {
    timed(selecting, request, machine).map(|(_, us)| us)
}

/// Returns what a registry selects, and its predicted time.
fn timed(selecting: &Registry, request: &Request, machine: &Machine) -> Option<(String, f64)> {
    let decision = selecting.select(request).unwrap_or_else(|error| panic!("{request}: {error}"));
    let plan = selecting.plan(request, &decision).unwrap_or_else(|error| panic!("{request}: {error}"));
    let tree = plan.tree();
    let blocks = tree.ranks.iter().map(|rank| rank.blocks.len()).max().unwrap_or(0);
    let name = format!("{} of {blocks} thread blocks", decision.algorithm.name());
    predict(&tree, machine, request.bytes, None).ok().map(|found| (name, found.time_us))
}

/// Returns the largest part by which the selection for a machine is slower than that for one whose constants are changed by 20 %, one at a
/// time, with the constant.
fn regret(machine: &Machine) -> (f64, String) {
    let nominal = registry(machine);
    let mut worst = (0.0, "none".to_owned());
    for (name, factor) in machine.constants.0.keys().flat_map(|name| [(name, 0.8), (name, 1.2)]) {
        let mut changed = machine.clone();
        let constant = changed.constants.0.get_mut(name).expect("a constant of the machine");
        constant.value *= factor;
        // No link carries more than its bandwidth.
        if name.ends_with("_efficiency") || name == "spread" {
            constant.value = constant.value.min(1.0);
        }
        let other = registry(&changed);
        for (kind, bytes) in CHANGED_KINDS.into_iter().flat_map(|kind| CHANGED_SIZES.map(|bytes| (kind, bytes))) {
            let request = request(machine, kind, bytes);
            let times = (time(&nominal, &request, &changed), time(&other, &request, &changed));
            let (Some(chosen), Some(best)) = times else { continue };
            if chosen / best - 1.0 > worst.0 {
                worst = (chosen / best - 1.0, format!("{name} × {factor}, {} of {bytes} bytes", kind.name()));
            }
        }
    }
    worst
}

/// Returns the machines with devices of their own, of at most 16 ranks, that are wanted.
fn machines() -> impl Iterator<Item = Machine> {
    let wanted = std::env::var("MSCCLPP_MACHINES").unwrap_or_default();
    let is_wanted = move |name: &&str| wanted.is_empty() || wanted.split(',').any(|one| one == *name);
    let machines = Machine::names().filter(is_wanted).map(|name| Machine::builtin(name).expect("it is built in"));
    machines.filter(|machine| machine.ranks <= 16 && !machine.one_device)
}

#[test]
#[ignore = "takes minutes"]
fn predictions_select_nothing_that_the_rules_beat() {
    println!("| machine | rules take, geometric mean | most | by more than 5 % |");
    println!("|---|---|---|---|");
    for machine in machines() {
        let by_prediction = registry(&machine);
        let mut ratios: BTreeMap<(&str, u64), f64> = BTreeMap::new();
        for (kind, bytes) in KINDS.into_iter().flat_map(|kind| SIZES.map(|bytes| (kind, bytes))) {
            let request = request(&machine, kind, bytes);
            let by_rules = timed(&Registry::builtin(), &request, &machine);
            let chosen = timed(&by_prediction, &request, &machine);
            if let (Some((better, chosen)), Some((rule, by_rules))) = (chosen, by_rules) {
                if std::env::var_os("MSCCLPP_LIST").is_some() && by_rules > 1.05 * chosen {
                    println!("{request}: {rule} {by_rules:.1} us, {better} {chosen:.1} us");
                }
                // Fewer thread blocks may cost 0.5 %.
                assert!(chosen <= by_rules * 1.006, "{}: {request}: {chosen} us, by rules {by_rules} us", machine.name);
                ratios.insert((kind.name(), bytes), by_rules / chosen);
            }
        }
        let mean = (ratios.values().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let most = ratios.iter().max_by(|a, b| a.1.total_cmp(b.1)).expect("calls");
        let more = ratios.values().filter(|ratio| **ratio > 1.05).count();
        let (kind, kib) = (most.0.0, most.0.1 >> 10);
        println!(
            "| `{}` | {mean:.2} × | {:.2} × ({kind}, {kib} KiB) | {more} of {} |",
            machine.name,
            most.1,
            ratios.len()
        );
    }
}

#[test]
#[ignore = "takes minutes"]
fn wrong_constants_are_tolerated() {
    for machine in machines() {
        let (lost, why) = regret(&machine);
        println!("| `{}` | {:.1} % ({why}) |", machine.name, 100.0 * lost);
        // An all-reduce of 1 MiB there, with fewer bytes of packets of a block per second; docs/measured.md says so.
        let limit = if machine.name == "2x8xb200" { 0.085 } else { MAX_REGRET };
        assert!(lost <= limit, "{}: {why}", machine.name);
    }
}
