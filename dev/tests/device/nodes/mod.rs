//! Ranks on several simulated nodes: processes on this machine, each with a separate device.

mod failures;
mod idle;
mod missing_wait;

use std::ops::Range;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_dev::Options;
use mscclpp_exec::cuda::{self, Buffers, Executor, PrepareOptions, PreparedPlan};
use mscclpp_exec::error::LateData;
use mscclpp_exec::{DataType, Error, Message};

use self::failures::{
    aborted, cross_node_access_is_rejected, different_sizes_are_reported, every_call_fails_once, killed_rank_is_named,
    launches_until_an_error, stalled, stopped_rank_is_named,
};
use self::idle::idle_proxies_sleep_until_a_launch;
use self::missing_wait::{missing_wait, missing_wait_is_found_with_every_seed};
use super::devices::{seeds_of_case, with_seeds};
use super::flushed::{News, dead_put, flushed, used_first_thing};
use super::processes::{Job, Player, Work, files_and_handles, machine_options};

/// Roles in which all ranks succeed, with ranks and ranks per node.
const ROLES: [(&str, u32, u32); 15] = [
    ("one_link", 2, 1),
    ("memory_that_comes_and_goes", 2, 1),
    ("two_nodes", 4, 2),
    ("long_messages", 2, 1),
    ("graphs", 2, 1),
    ("ranks_that_are_late", 2, 1),
    ("news_by_third_rank", 4, 2),
    ("news_by_neighbour", 4, 2),
    ("what_nobody_waits_for", 4, 2),
    ("refused", 4, 2),
    ("ranks_that_differ", 4, 2),
    ("stalled", 4, 2),
    ("aborted", 2, 1),
    ("every_call_fails_once", 2, 1),
    ("idle_proxies", 2, 1),
];

/// Roles over an engine that delivers late and out of order. They take long, so one seed counts unless `MSCCLPP_SOAK` is set.
const HOSTILE_ROLES: [(&str, u32, u32); 2] = [("hostile_engine", 4, 2), ("hostile_graphs", 2, 1)];

pub(crate) fn tests(seeds: Range<u64>) -> Vec<Trial> {
    let in_role = |(role, ranks, per_node), seeds: Range<u64>| {
        with_seeds(format!("nodes::{role}"), seeds, move |seed| {
            Job::start(role, "simulator", seed, ranks, per_node)?.succeed()
        })
    };
    let roles = ROLES.into_iter().enumerate().map(|(number, role)| in_role(role, seeds_of_case(&seeds, number)));
    let end = if std::env::var_os("MSCCLPP_SOAK").is_some() { seeds.end } else { seeds.start + 1 };
    let hostile = HOSTILE_ROLES.into_iter().map(|role| in_role(role, seeds.start..end));
    let bugs = ["early_stores", "early_events"]
        .map(|bug| Trial::test(format!("nodes::bugs::{bug}"), move || injected_bug_is_detected(bug)));
    let killed = with_seeds("nodes::killed_rank_is_named".into(), seeds.clone(), killed_rank_is_named);
    // Once, since it takes long.
    let stopped =
        with_seeds("nodes::stopped_rank_is_named".into(), seeds.start..seeds.start + 1, stopped_rank_is_named);
    let missing = Trial::test("nodes::missing_wait_is_found_with_every_seed", missing_wait_is_found_with_every_seed);
    roles.chain(hostile).chain([killed, stopped, missing]).chain(bugs).collect()
}

/// The same tests with the mock driver.
pub(crate) fn on_mock(seed: u64) -> Vec<Trial> {
    let role = |(role, ranks, per_node)| {
        Trial::test(format!("mock::nodes::{role}"), move || Job::start(role, "mock", seed, ranks, per_node)?.succeed())
    };
    ROLES.into_iter().map(role).collect()
}

/// Runs the part of a process in a role.
pub(crate) fn play(role: &str, player: &Player) -> Result<(), Failed> {
    let rank = player.group.rank();
    let ranks_differ = player.seed % 2 == u64::from(rank) % 2;
    let bug = ["early_stores", "early_events"].into_iter().find(|bug| *bug == role);
    let options = Options {
        // Some ranks are slower than others, and their copies are delayed further; not that which lacks a wait, or the data would
        // arrive before its copies.
        late: role != "hostile_missing_wait" && (ranks_differ || bug.is_some()),
        bug,
        // Long enough for the news to arrive before the data.
        time_per_copy: Duration::from_millis(if role.starts_with("news_") && rank == 2 { 50 } else { 0 }),
        patience: Duration::from_secs(match role {
            "stalled" => 2,
            // One of the ranks has no proxy that would receive the error.
            _ if role.starts_with("news_") => 5,
            _ => 120,
        }),
        ..machine_options(player.seed, rank, false)
    };
    if player.group.num_nodes() != 2 {
        return Err(format!("{} nodes", player.group.num_nodes()).into());
    }
    if role == "every_call_fails_once" {
        return every_call_fails_once(player, options);
    }
    let (device, _rig) = player.device(options)?;
    let timeout = Duration::from_millis(match role {
        "stalled" => 20,
        // One of the ranks has no proxy that would receive the error.
        _ if role.starts_with("news_") => 10_000,
        _ => 120_000,
    });
    let world = Executor::connect(&player.group, &device, cuda::Options::default().timeout(timeout))?;
    match role {
        "one_link" => one_link(&world, player),
        "memory_that_comes_and_goes" => files_and_handles(&world, &device, rank, "allgather_ring_ports"),
        "two_nodes" | "hostile_engine" => two_nodes(&world, player),
        "idle_proxies" => idle_proxies_sleep_until_a_launch(&world, rank),
        "hostile_missing_wait" => missing_wait(&world, rank),
        "long_messages" => long_messages(&world, rank),
        "graphs" | "hostile_graphs" => graphs(&world, rank),
        "ranks_that_are_late" => late_rank_keeps_its_buffers(&world, rank),
        "news_by_third_rank" => data_is_late(&world, rank, News::ByThirdRank, false),
        // The copies of the mock driver's devices take no time.
        "news_by_neighbour" => data_is_late(&world, rank, News::ByNeighbour, player.compiles()),
        "what_nobody_waits_for" => puts_without_wait_stay_in_their_launch(&world, rank),
        "refused" => cross_node_access_is_rejected(&world, rank),
        "ranks_that_differ" => different_sizes_are_reported(&world, rank),
        "stalled" => stalled(&world, player),
        "aborted" => aborted(&world, rank),
        "killed" | "stopped" => launches_until_an_error(&world, rank),
        "reductions" => reductions(&world, rank),
        _ if bug.is_some() => reductions(&world, rank),
        _ => Err(format!("no role `{role}`").into()),
    }
}

/// Returns the plan of an algorithm on ranks of which some share a node.
fn plan_of(algorithm: &BuiltinAlgorithm, ranks: u32, per_node: u32) -> Result<Plan, Failed> {
    let mut spec = algorithm.spec(ranks, per_node);
    spec.collective.in_place = algorithm.buffer_mode() == BufferMode::InPlace;
    Ok(Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?))
}

fn shipped(name: &str, ranks: u32, per_node: u32) -> Result<Plan, Failed> {
    plan_of(algorithms::find(name).ok_or("no such algorithm")?, ranks, per_node)
}

/// Two ranks, all data through ports, by the interpreter and by specialized kernels.
fn one_link(world: &Executor, player: &Player) -> Result<(), Failed> {
    for name in ["allgather_ring_ports", "allreduce_ring_ports"] {
        let plan = shipped(name, 2, 1)?;
        // Longer messages need more scratch than those before.
        for (dtype, count) in [(DataType::F32, 106), (DataType::F16, 106), (DataType::U8, 106), (DataType::F32, 2034)] {
            let work = Work::new(plan.clone(), Message::new(dtype, count).any_size(), 3)?;
            work.run(world, player.group.rank())?;
            if player.compiles() && dtype == DataType::F32 {
                work.run_as(world, player.group.rank(), PrepareOptions::default().specialize(true))?;
            }
        }
    }
    Ok(())
}

/// Algorithms that must be accepted on several nodes.
const ACROSS: [&str; 8] = [
    "allgather_ring_ports",
    "allgather_two_nodes",
    "allgather_hierarchical",
    "allgather_hierarchical_packets",
    "allreduce_ring_ports",
    "allreduce_hierarchical",
    "allreduce_hierarchical_packets",
    "reducescatter_hierarchical",
];

/// Every built-in algorithm, unless it accesses memory across nodes.
fn two_nodes(world: &Executor, player: &Player) -> Result<(), Failed> {
    let rank = player.group.rank();
    let mut ran = Vec::new();
    for (number, algorithm) in (player.seed..).zip(algorithms::all()) {
        if !algorithm.supports(4, 2) {
            continue;
        }
        let plan = plan_of(algorithm, 4, 2)?;
        let name = algorithm.name();
        let [dtype, other] = [DataType::F32, [DataType::BF16, DataType::U8, DataType::F16][number as usize % 3]];
        for (dtype, count) in [(dtype, 4 * 53), (other, 4 * 19)] {
            let work = Work::new(plan.clone(), Message::new(dtype, count).any_size(), 2)?;
            match work.run(world, rank) {
                Ok(()) => ran.push(name),
                Err(Error::CrossNodeAccess { node, peer_node: other, .. }) if node != other => {}
                Err(error) => return Err(format!("{name}, {count} {dtype}: {error}").into()),
            }
        }
    }
    match ACROSS.into_iter().find(|name| !ran.contains(name)) {
        None => Ok(()),
        Some(name) => Err(format!("{name} was refused").into()),
    }
}

/// Long enough for several staging buffers in flight at once, and a remainder.
fn long_messages(world: &Executor, rank: u32) -> Result<(), Failed> {
    let plan = shipped("allgather_ring_ports", 2, 1)?;
    for (dtype, count) in
        [(DataType::F32, 2 * ((5 << 18) + 13)), (DataType::U8, 2 * (1 << 20)), (DataType::U8, 2 * 777)]
    {
        Work::new(plan.clone(), Message::new(dtype, count).any_size(), 2)?.run(world, rank)?;
    }
    Ok(())
}

/// Results of one step are inputs of the next one.
fn reductions(world: &Executor, rank: u32) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring_ports", 2, 1)?;
    Ok(Work::new(plan, Message::new(DataType::F32, 1000).any_size(), 4)?.run(world, rank)?)
}

/// Without the bug the same launches are correct.
fn injected_bug_is_detected(bug: &str) -> Result<(), Failed> {
    Job::start("reductions", "simulator", 1, 2, 1)?.succeed()?;
    for seed in 1..=30 {
        let ended = Job::start(bug, "simulator", seed, 2, 1)?.wait()?;
        if ended.iter().any(|(succeeded, text)| !succeeded && text.contains("expected 0x")) {
            return Ok(());
        }
    }
    Err("not found with 30 seeds".into())
}

/// Graphs that run without the host's involvement, between eager launches, while the ranks are in different launches.
fn graphs(world: &Executor, rank: u32) -> Result<(), Failed> {
    let message = Message::new(DataType::F32, 2 * 33).any_size();
    let mut run = world.prepare(&shipped("allreduce_ring_ports", 2, 1)?, message)?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    let other = world.stream()?;
    let graph = other.capture(|stream| run.launch_buffers(&mut buffers, stream))?;
    for round in 0..12_u8 {
        let value = |rank: u32| f32::from(round) + rank as f32;
        let input: Vec<u8> = std::iter::repeat_n(value(rank).to_ne_bytes(), 66).flatten().collect();
        buffers.write_input(rank, &input)?;
        buffers.write_output(rank, &[0xa5; 264])?;
        if round % 3 == 1 {
            run.launch_buffers(&mut buffers, &stream)?;
        } else {
            // SAFETY: prepared plan and buffers exist until the end.
            unsafe { graph.launch(&stream)? };
        }
        run.synchronize(&stream)?;
        let mut found = [0; 264];
        buffers.read_output(rank, &mut found)?;
        let expected = (value(0) + value(1)).to_ne_bytes();
        if let Some(at) = found.chunks(4).position(|found| found != expected) {
            return Err(
                format!("round {round}, element {at}: {:x?}, expected {expected:x?}", &found[4 * at..][..4]).into()
            );
        }
    }
    Ok(())
}

/// A rank's buffers are not written before it launches, even if the others have begun long before.
fn late_rank_keeps_its_buffers(world: &Executor, rank: u32) -> Result<(), Failed> {
    let algorithm = algorithms::find("allgather_two_nodes").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(2, 1), &algorithm.arguments([])?)?;
    // Removes the check that the other rank has arrived.
    for ops in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks).map(|block| &mut block.ops) {
        for kind in [OpKind::Signal, OpKind::Wait] {
            let at = ops.iter().position(|op| op.kind == kind).ok_or("no question")?;
            ops.remove(at);
        }
    }
    let plan = Plan::new(&tree);
    let mut run = world.prepare(&plan, Message::new(DataType::U8, 2000).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    for round in 1..=4_u8 {
        // Ranks are late in turns.
        let fill = |value: u8| vec![value; 2000];
        buffers.write_output(rank, &fill(0xa5))?;
        buffers.write_input(rank, &vec![16 * round + rank as u8; buffers.input(rank).bytes as usize])?;
        let before: Vec<u8> =
            (0..2000).map(|at| if at / 1000 == rank { 16 * round + rank as u8 } else { 0xa5 }).collect();
        if u32::from(round) % 2 == rank {
            thread::sleep(Duration::from_millis(300));
            let mut found = fill(0);
            buffers.read_output(rank, &mut found)?;
            if found != before {
                return Err(format!("round {round}: written to before it was handed in").into());
            }
        }
        run.launch_buffers(&mut buffers, &stream)?;
        run.synchronize(&stream)?;
        let mut found = fill(0);
        buffers.read_output(rank, &mut found)?;
        let expected: Vec<u8> = (0..2000_u32).map(|at| 16 * round + (at / 1000) as u8).collect();
        if found != expected {
            return Err(format!("round {round}: {:x?}", &found[990..1010]).into());
        }
    }
    Ok(())
}

/// A launch after which `receiver` must have the input of rank `from`.
fn launch_bytes(
    run: &mut PreparedPlan,
    buffers: &mut Buffers,
    world: &Executor,
    rank: u32,
    (from, receiver): (u32, u32),
    number: u8,
) -> Result<(), Error> {
    let stream = world.stream()?;
    let [input, output] = [buffers.input(rank).bytes, buffers.output(rank).bytes];
    buffers.write_input(rank, &vec![16 * number + rank as u8; input as usize])?;
    buffers.write_output(rank, &vec![0xa5; output as usize])?;
    run.launch_buffers(buffers, &stream)?;
    run.synchronize(&stream)?;
    let mut found = vec![0; output as usize];
    buffers.read_output(rank, &mut found)?;
    match found.iter().position(|&byte| byte != 16 * number + from as u8) {
        Some(at) if rank == receiver => {
            Err(Error::Internal(format!("launch {number}, byte {at} of {output}: {:#x}", found[at])))
        }
        _ => Ok(()),
    }
}

/// A plan that mistakes a flush for the arrival of data ends in an error that names both ranks, on all of them; no
/// launch has a wrong result. `is_late`: whether the data is certain to arrive after the news; otherwise all launches
/// may be correct.
fn data_is_late(world: &Executor, rank: u32, news: News, is_late: bool) -> Result<(), Failed> {
    let mut run = world.prepare(&flushed(news), Message::new(DataType::U8, 5 << 20).any_size())?;
    let mut buffers = run.buffers()?;
    let mut launch = |number: u8| launch_bytes(&mut run, &mut buffers, world, rank, (0, 2), number % 15).err();
    let Some(error) = (0..20).find_map(&mut launch) else {
        return if is_late { Err("the data came before the news".into()) } else { Ok(()) };
    };
    let said = "data from rank 0 for the input or output of rank 2 arrived after the operations of rank 2 had finished";
    let names_both = |late: &LateData| (late.rank, late.peer) == (2, 0);
    match &error {
        Error::LateData(late) if rank == 2 && names_both(late) && error.to_string().contains(said) => Ok(()),
        _ if rank != 2 && error.to_string().contains(said) => Ok(()),
        _ => Err(format!("rank {rank}: {error}").into()),
    }
}

/// Puts to scratch without a wait delay no rank, and no launch finds the data of another launch there.
fn puts_without_wait_stay_in_their_launch(world: &Executor, rank: u32) -> Result<(), Failed> {
    let prepare = |plan: &Plan, bytes| -> Result<_, Error> {
        let run = world.prepare(plan, Message::new(DataType::U8, bytes).any_size())?;
        let buffers = run.buffers()?;
        Ok((run, buffers))
    };
    let (mut run, mut buffers) = prepare(&dead_put(), 5 << 20)?;
    for number in 0..6 {
        launch_bytes(&mut run, &mut buffers, world, rank, (0, 3), number)?;
    }
    let plan = used_first_thing();
    let mut runs = [1 << 14, 1 << 10, 3 << 12].map(|bytes| prepare(&plan, bytes));
    for number in 0..12 {
        // Equal sizes and others in sequence.
        match &mut runs[[0, 0, 1, 2, 0, 2][number as usize % 6]] {
            Ok((run, buffers)) => launch_bytes(run, buffers, world, rank, (2, 2), number)?,
            Err(error) => return Err(error.clone().into()),
        }
    }
    Ok(())
}
