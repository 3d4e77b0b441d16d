//! `default_plans.txt` agrees with the default rules, and the plans that they select on devices move no more than they
//! should, in no more steps.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::raw::{BufferRef, Op, OpKind, PlanTree};
use mscclpp_core::types::{BufferKind, ChannelKind};
use mscclpp_exec::DataType;
use mscclpp_select::{self, Backend, DecidedBy, Decision, OrderPolicy, Registry, Request};

use super::algorithms::{cost_of, promised};

/// Devices of one machine.
struct Machine {
    name: &'static str,
    ranks: u32,
    ranks_per_node: u32,
    multicast: bool,
}

const MACHINES: [Machine; 6] = [
    Machine { name: "8 H100 on NVSwitch, with multicast", ranks: 8, ranks_per_node: 8, multicast: true },
    Machine { name: "8 A100 on NVSwitch, without multicast", ranks: 8, ranks_per_node: 8, multicast: false },
    Machine { name: "4 L40S on PCIe, with peer access", ranks: 4, ranks_per_node: 4, multicast: false },
    Machine { name: "4 L40S on PCIe, without peer access", ranks: 4, ranks_per_node: 1, multicast: false },
    Machine { name: "NVL72: 72 GPUs on NVSwitch, with multicast", ranks: 72, ranks_per_node: 72, multicast: true },
    Machine { name: "2 nodes of 8 H100 on NVSwitch", ranks: 16, ranks_per_node: 8, multicast: false },
];

/// A collective, and the demand on its order.
const CALLS: [(&str, CollectiveKind, OrderPolicy); 5] = [
    ("all-reduce", CollectiveKind::AllReduce, OrderPolicy::InSwitch),
    ("all-reduce, same bits in every run", CollectiveKind::AllReduce, OrderPolicy::SameOnAllRanks),
    ("all-gather", CollectiveKind::AllGather, OrderPolicy::InSwitch),
    ("reduce-scatter", CollectiveKind::ReduceScatter, OrderPolicy::InSwitch),
    ("reduce-scatter, same bits in every run", CollectiveKind::ReduceScatter, OrderPolicy::SameOnAllRanks),
];

/// Returns the sizes of messages: 1 KiB to 1 GiB.
fn sizes() -> impl Iterator<Item = u64> {
    (10..=30).map(|power| 1 << power)
}

fn request(machine: &Machine, kind: CollectiveKind, order: OrderPolicy, bytes: u64) -> Request {
    Request {
        backend: Backend::Cuda,
        multicast: machine.multicast,
        registered: true,
        ranks_per_node: machine.ranks_per_node,
        order,
        ..Request::new(kind, machine.ranks, DataType::F32, bytes)
    }
}

fn decide(registry: &Registry, request: &Request) -> (Decision, &'static str) {
    let decision = registry.select(request).unwrap_or_else(|error| panic!("{error}"));
    match decision.decided_by {
        DecidedBy::Rule(reason) => (decision, reason),
        other => panic!("{request}: {other}"),
    }
}

/// Returns the plan of an algorithm with one parallel block; more divide the same data.
fn plan(name: &str, machine: &Machine, in_place: bool) -> PlanTree {
    let algorithm = algorithms::find(name).expect("it is in the library");
    let mut spec = algorithm.spec(machine.ranks, machine.ranks_per_node);
    spec.collective.in_place = in_place;
    let (spec, arguments) = algorithm.with_parallel_blocks(spec, 1);
    let trace = algorithm.record(spec, &arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
    lower(&trace).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Costs of plans by algorithm, machine and mode.
#[derive(Default)]
struct Plans(BTreeMap<(String, &'static str, bool), (f64, Option<u32>)>);

impl Plans {
    /// Returns what a rank's operations move over its links, in messages, and the number of dependent transfers if all of
    /// them are packets.
    fn cost(&mut self, name: &str, machine: &Machine, in_place: bool) -> (f64, Option<u32>) {
        *self.0.entry((name.to_owned(), machine.name, in_place)).or_insert_with(|| {
            let plan = plan(name, machine, in_place);
            (cost_of(&plan).moved(), packet_hops(&plan))
        })
    }
}

/// Returns the largest number of transfers from rank to rank each of which depends on the previous one; `None` if the ranks
/// synchronize other than by packets.
fn packet_hops(plan: &PlanTree) -> Option<u32> {
    let ops = |rank: usize| plan.ranks[rank].blocks.iter().flat_map(|block| &block.ops);
    let is_sync = |op: &Op| op.kind.is_sync() || op.kind == OpKind::Pipeline;
    if (0..plan.ranks.len()).any(|rank| ops(rank).any(is_sync)) {
        return None;
    }
    // By rank and chunk of scratch, the transfers that its packet depends on.
    let mut hops: BTreeMap<(usize, u32), u32> = BTreeMap::new();
    loop {
        let before = hops.clone();
        for (rank, tables) in plan.ranks.iter().enumerate() {
            for block in &tables.blocks {
                let mut depth = 0;
                for op in &block.ops {
                    let buffers = block.remote_buffers(op.channel.unwrap_or(ChannelKind::Memory));
                    let rank_of = |number: u32| tables.remote_buffers[buffers[number as usize] as usize].rank as usize;
                    let reads = op.srcs.iter().filter(|src| src.local_buffer() == Some(BufferKind::Scratch));
                    for chunk in reads.flat_map(|src| src.index..src.index + src.size) {
                        depth = depth.max(hops.get(&(rank, chunk)).copied().unwrap_or(0));
                    }
                    for dst in &op.dsts {
                        let members: Vec<(usize, u32)> = match dst.buffer {
                            BufferRef::Local(BufferKind::Scratch) => vec![(rank, depth)],
                            BufferRef::Local(_) => Vec::new(),
                            BufferRef::Remote(number) => vec![(rank_of(number), depth + 1)],
                            BufferRef::Switch(_) => {
                                // The rank's own packets are there already.
                                let others = (0..plan.ranks.len()).filter(|&member| member != rank);
                                others.map(|member| (member, depth + 1)).collect()
                            }
                        };
                        for (member, depth) in members {
                            for chunk in dst.index..dst.index + dst.size {
                                let known = hops.entry((member, chunk)).or_default();
                                *known = depth.max(*known);
                            }
                        }
                    }
                }
            }
        }
        if hops == before {
            return hops.values().copied().max();
        }
        assert!(hops.values().all(|&depth| depth <= plan.ranks.len() as u32), "packets depend on themselves");
    }
}

/// Returns the bytes that a rank must at least move over its links, in messages; a switch reduces and delivers a byte once.
fn bound(kind: CollectiveKind, ranks: u32, by_switch: bool) -> f64 {
    let p = f64::from(ranks);
    match (kind, by_switch) {
        (CollectiveKind::AllReduce, false) => 2.0 * (p - 1.0) / p,
        (CollectiveKind::AllReduce, true) => 2.0 / p,
        (_, false) => (p - 1.0) / p,
        (_, true) => 1.0 / p,
    }
}

#[test]
fn default_plans_on_devices_have_few_steps_and_move_little() {
    let (registry, mut plans) = (Registry::builtin(), Plans::default());
    for machine in &MACHINES {
        let ranks = machine.ranks;
        for (_, kind, order) in CALLS {
            for bytes in sizes() {
                let [separate, same] = [false, true].map(|in_place| {
                    let request = Request { in_place, ..request(machine, kind, order, bytes) };
                    let (decision, _) = decide(&registry, &request);
                    let name = decision.algorithm.name().to_owned();
                    let (moved, hops) = plans.cost(&name, machine, in_place);
                    if bytes <= 64 << 10 && machine.ranks_per_node == ranks {
                        assert!(hops.is_some_and(|hops| hops <= 2), "{request}: `{name}` has {hops:?} steps");
                        let most = 2.0 * f64::from(ranks - 1);
                        assert!(moved <= most, "{request}: `{name}` moves {moved} messages, expected at most {most}");
                    } else {
                        let by_switch = decision.algorithm.constraints().multicast;
                        let (p, g) = (f64::from(ranks), f64::from(machine.ranks_per_node));
                        let scheme = promised(&name, p, p / g, g).expect("a cost in numbers").moved();
                        let least = if bytes < 16 << 20 { scheme } else { bound(kind, ranks, by_switch) };
                        assert!(
                            moved <= 1.05 * least,
                            "{request}: `{name}` moves {moved} messages, the bound is {least}"
                        );
                    }
                    (name, decision.config)
                });
                assert_eq!(separate, same, "{kind:?} of {bytes} bytes on {}", machine.name);
            }
        }
    }
}

/// Thread blocks of 1024 threads that are co-resident on an A100 beside one that is reserved for the driver.
const MAX_BLOCKS: usize = 107;

#[test]
fn default_plans_on_devices_are_co_resident() {
    let registry = Registry::builtin();
    let (mut plans, mut too_many) = (BTreeMap::new(), BTreeMap::new());
    for machine in &MACHINES {
        for (_, kind) in mscclpp_select::CALLS {
            for bytes in sizes() {
                for in_place in [false, true] {
                    let request = request(machine, kind, OrderPolicy::InSwitch, bytes);
                    let (decision, _) = decide(&registry, &Request { in_place, ..request });
                    let name = decision.algorithm.name();
                    let blocks = *plans.entry((name.to_owned(), machine.name, in_place)).or_insert_with(|| {
                        let plan = plan(name, machine, in_place);
                        plan.ranks.iter().map(|rank| rank.blocks.len()).max().unwrap_or(0)
                    });
                    let blocks = blocks * decision.config.blocks.expect("a number") as usize;
                    if blocks > MAX_BLOCKS {
                        too_many.insert((name.to_owned(), machine.name), (bytes, blocks));
                    }
                }
            }
        }
    }
    assert!(too_many.is_empty(), "{too_many:#?}");
}

#[test]
fn machines_without_switches_have_the_plans_of_equal_bits() {
    let registry = Registry::builtin();
    for machine in MACHINES.iter().filter(|machine| !machine.multicast) {
        for (_, kind) in mscclpp_select::CALLS {
            for (bytes, in_place) in sizes().flat_map(|bytes| [(bytes, false), (bytes, true)]) {
                let decided = [OrderPolicy::InSwitch, OrderPolicy::SameOnAllRanks].map(|order| {
                    let (decision, _) =
                        decide(&registry, &Request { in_place, ..request(machine, kind, order, bytes) });
                    (decision.algorithm.name().to_owned(), decision.config)
                });
                assert_eq!(decided[0], decided[1], "{kind:?} of {bytes} bytes on {}", machine.name);
            }
        }
    }
}

/// Formats a size.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

/// Formats a range of numbers.
fn span(numbers: impl Iterator<Item = u32> + Clone) -> String {
    match (numbers.clone().min(), numbers.max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (least, _) => least.unwrap_or(0).to_string(),
    }
}

fn page() -> String {
    let (registry, mut plans) = (Registry::builtin(), Plans::default());
    let mut page = String::from(
        "; The plan that a call on devices gets if neither a selector nor a tuning table decides, by machine, call and size (the larger of
; a rank's input and output), for f32 in registered memory. `mscclpp select` explains one call.
; moved: what a rank's operations store in and load from other memories, in messages; packets count twice, multicast once.
; Written by `MSCCLPP_BLESS=1 cargo test -p mscclpp-exec --test integration default_plans`.
",
    );
    for machine in &MACHINES {
        _ = write!(page, "\n{}\n", machine.name);
        for (title, kind, order) in CALLS {
            // Without a switch both orders have the same plans.
            if order == OrderPolicy::SameOnAllRanks && !machine.multicast {
                continue;
            }
            _ = writeln!(page, "  {title}");
            let decisions: Vec<_> =
                sizes().map(|bytes| (bytes, decide(&registry, &request(machine, kind, order, bytes)))).collect();
            for row in decisions.chunk_by(|(_, (a, _)), (_, (b, _))| a.algorithm.name() == b.algorithm.name()) {
                let (least, (decision, reason)) = &row[0];
                let range = format!("{} to {}", size(*least), size(row[row.len() - 1].0));
                let name = decision.algorithm.name();
                let config = |number: fn(&Decision) -> Option<u32>| {
                    span(row.iter().filter_map(move |(_, (one, _))| number(one)))
                };
                let (blocks, threads) = (config(|one| one.config.blocks), config(|one| one.config.threads));
                let (moved, _) = plans.cost(name, machine, false);
                let config = format!("blocks {blocks}, threads {threads}, moved {moved:.2}");
                _ = writeln!(page, "    {range:<20}{name:<31}{config}: {reason}");
            }
        }
    }
    page
}

#[test]
fn the_listed_plans_are_those_of_the_rules() {
    let (path, expected) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/default_plans.txt"), page());
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the file can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} is stale; set MSCCLPP_BLESS=1 and look at the change", path.display());
}
