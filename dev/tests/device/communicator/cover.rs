//! Calls whose properties occur in all pairs: the ranks, devices, nodes and multicast objects, the collective, the type, the
//! reduction, the length, the memory, and whether the call is in place.
//!
//! `MSCCLPP_COVER=all` makes all calls instead, which takes hours.

use std::collections::HashSet;

use libtest_mimic::Failed;
use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind::{
    AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter, SendRecv,
};
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::Device;
use mscclpp_exec::{DataType, with_type};

use super::cases::{Case, Home, Small, call};
use super::{each_on, group_options};
use crate::processes::{Job, Player, machine_options};

const KINDS: [mscclpp_core::collective::CollectiveKind; 7] =
    [AllReduce, AllGather, ReduceScatter, AllToAll, Broadcast, Reduce, SendRecv];
const OPS: [ReduceOp; 5] = [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::Avg];
/// Elements of a part: none, few, odd numbers, and more than packets carry. Large messages have as many in all parts.
const LENGTHS: [usize; 6] = [0, 1, 7, 53, 1025, 140_003];
const HOMES: [Home; 3] = [Home::Registered, Home::Own, Home::Raw];

/// Where the ranks of calls are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum World {
    /// Ranks in threads; of a host with this number of devices, with multicast objects or without.
    Threads { ranks: u32, devices: u32, multicast: bool },
    /// Ranks in processes on nodes of this size.
    Processes { ranks: u32, per_node: u32 },
}

const WORLDS: [World; 12] = [
    World::Threads { ranks: 1, devices: 1, multicast: false },
    World::Threads { ranks: 2, devices: 1, multicast: false },
    World::Threads { ranks: 2, devices: 2, multicast: false },
    World::Threads { ranks: 2, devices: 2, multicast: true },
    World::Threads { ranks: 4, devices: 2, multicast: false },
    World::Threads { ranks: 4, devices: 4, multicast: true },
    World::Threads { ranks: 8, devices: 8, multicast: false },
    World::Threads { ranks: 8, devices: 8, multicast: true },
    World::Threads { ranks: 8, devices: 1, multicast: false },
    World::Processes { ranks: 2, per_node: 2 },
    World::Processes { ranks: 2, per_node: 1 },
    World::Processes { ranks: 4, per_node: 2 },
];

/// Number of values of each property, the world first.
const FACTORS: [usize; 7] = [WORLDS.len(), KINDS.len(), DataType::ALL.len(), OPS.len(), LENGTHS.len(), HOMES.len(), 2];

type Choice = [usize; FACTORS.len()];

/// Returns choices in which every two values of different properties occur together; with `MSCCLPP_COVER=all`, all choices.
fn choices(seed: u64) -> Vec<Choice> {
    if std::env::var("MSCCLPP_COVER").is_ok_and(|cover| cover == "all") {
        let next = |all: Vec<Vec<usize>>, values: usize| -> Vec<Vec<usize>> {
            all.iter().flat_map(|choice| (0..values).map(move |value| [&choice[..], &[value]].concat())).collect()
        };
        let all = FACTORS.into_iter().fold(vec![Vec::new()], next);
        return all.into_iter().filter_map(|choice| choice.try_into().ok()).collect();
    }
    let mut state = seed;
    let mut random = |below: usize| {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) as usize % below
    };
    let pairs = |a: usize, b: usize| (0..FACTORS[a]).flat_map(move |x| (0..FACTORS[b]).map(move |y| ((a, x), (b, y))));
    let mut open: Vec<_> = (0..FACTORS.len()).flat_map(|b| (0..b).flat_map(move |a| pairs(a, b))).collect();
    let mut choices = Vec::new();
    while !open.is_empty() {
        // One open pair for certain, then value by value those with the most open pairs.
        let ((a, x), (b, y)) = open[random(open.len())];
        let is_open: HashSet<_> = open.iter().copied().collect();
        let mut choice: Choice = [usize::MAX; FACTORS.len()];
        (choice[a], choice[b]) = (x, y);
        for at in (0..FACTORS.len()).filter(|at| ![a, b].contains(at)) {
            let gain = |value: usize| {
                let chosen = (0..FACTORS.len()).filter(|other| choice[*other] != usize::MAX);
                let pair = |other: usize| {
                    if other < at {
                        ((other, choice[other]), (at, value))
                    } else {
                        ((at, value), (other, choice[other]))
                    }
                };
                chosen.filter(|other| is_open.contains(&pair(*other))).count()
            };
            let first = random(FACTORS[at]);
            let values = (0..FACTORS[at]).map(|value| (value + first) % FACTORS[at]);
            choice[at] = values.max_by_key(|value| gain(*value)).unwrap_or(0);
        }
        open.retain(|((a, x), (b, y))| choice[*a] != *x || choice[*b] != *y);
        choices.push(choice);
    }
    choices
}

/// Makes the calls of a world in the order of the choices.
fn calls(comm: &Communicator, device: &Device, world: usize, seed: u64) -> Result<(), Failed> {
    for (number, choice) in choices(seed).into_iter().enumerate().filter(|(_, choice)| choice[0] == world) {
        let [_, kind, dtype, op, length, home, in_place] = choice;
        let case = Case { kind: KINDS[kind], op: OPS[op], root: number as u32 % comm.num_ranks() };
        let has_parts = matches!(case.kind, AllGather | ReduceScatter | AllToAll);
        let each = match LENGTHS[length] {
            large @ 10_000.. if has_parts => large / comm.num_ranks() as usize,
            each => each,
        };
        let (home, in_place) = (HOMES[home], in_place == 1);
        with_type!(DataType::ALL[dtype], T => typed::<T>(comm, device, case, each, home, in_place))?;
    }
    Ok(())
}

fn typed<T: Small>(
    comm: &Communicator,
    device: &Device,
    case: Case,
    each: usize,
    home: Home,
    in_place: bool,
) -> Result<(), Failed> {
    call::<T>(comm, device, case, each, home, in_place).map_err(|failed| {
        format!("{case:?} of {each} {} per rank, {home:?}, in place: {in_place}: {failed}", T::TYPE).into()
    })
}

pub(super) fn of_threads(seed: u64) -> Result<(), Failed> {
    for (number, world) in WORLDS.into_iter().enumerate() {
        let World::Threads { ranks, devices, multicast } = world else { continue };
        let options =
            mscclpp_dev::Options { multicast: if multicast { u32::MAX } else { 0 }, ..machine_options(seed, 0, false) };
        let run = |comm: &Communicator, device: &Device| calls(comm, device, number, seed);
        let results: Result<(), Failed> =
            each_on(options, ranks, devices, group_options(300), run).into_iter().collect();
        results.map_err(|failed| crate::at(format_args!("{world:?}"), &failed))?;
    }
    Ok(())
}

pub(super) fn of_processes(seed: u64) -> Result<(), Failed> {
    for world in WORLDS {
        let World::Processes { ranks, per_node } = world else { continue };
        let done = Job::start("communicator_cover", "simulator", seed, ranks, per_node)?.succeed();
        done.map_err(|failed| crate::at(format_args!("{world:?}"), &failed))?;
    }
    Ok(())
}

/// The part of a process.
pub(super) fn play(comm: &Communicator, device: &Device, player: &Player) -> Result<(), Failed> {
    let ranks = comm.num_ranks();
    let nodes = comm.bootstrap().num_nodes();
    let own = World::Processes { ranks, per_node: ranks / nodes };
    let number = WORLDS.iter().position(|world| *world == own).ok_or("no such world")?;
    calls(comm, device, number, player.seed)
}

pub(super) fn choices_have_all_pairs(seed: u64) -> Result<(), Failed> {
    let choices = choices(seed);
    for b in 0..FACTORS.len() {
        for a in 0..b {
            let found: HashSet<_> = choices.iter().map(|choice| (choice[a], choice[b])).collect();
            assert_eq!(found.len(), FACTORS[a] * FACTORS[b], "properties {a} and {b}");
        }
    }
    println!("seed {seed}: {} calls for all pairs", choices.len());
    Ok(())
}
