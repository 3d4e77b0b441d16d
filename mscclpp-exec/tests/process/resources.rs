//! Descriptors, mappings and memory that ranks need, each counted in a process of its own.

use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use mscclpp_algorithms as algorithms;
use mscclpp_bootstrap::{Options, RootListener};
use mscclpp_communicator::Communicator;
use mscclpp_core::plan::Plan;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::Message;
use mscclpp_exec::process::{Executor, PreparedPlan};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::results::plan_on;
use super::spawn::Job;
use crate::common::ranks::{on_comms, on_ranks};

/// Environment variable for the case that a process counts for.
const CASE: &str = "MSCCLPP_TEST_RESOURCES";

/// Runs a case in a process that runs nothing else and may have 256 descriptors.
fn run_alone(case: &str) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "process::resources::case", "--nocapture", "--test-threads=1"]).env(CASE, case);
    let output = command.output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("counted"), "{text}");
}

/// Not a test by itself: a case in its own process.
#[test]
fn case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let limit = Rlimit { current: Some(256), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("less is always possible");
    match case.as_str() {
        "descriptors" => descriptors_do_not_depend_on_ranks(),
        "tcp" => ranks_of_tcp_share_mappings(),
        "threads" => drop(on_ranks(8, |comm| many_sizes(comm, 270))),
        other => panic!("no case {other}"),
    }
    println!("counted");
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("descriptors").count()
}

/// Returns the number of mappings of this process, and of those of shared memory.
fn mappings() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    (maps.lines().count(), maps.lines().filter(|line| line.contains("memfd:mscclpp")).count())
}

/// Makes calls with private and with registered memory, and checks their results.
fn calls(comm: &Communicator) {
    let expected = (0..comm.num_ranks()).sum::<u32>() as f32;
    for len in [1, 1000, 50_000] {
        let mut own = vec![comm.rank() as f32; len];
        comm.all_reduce_in_place(&mut own, ReduceOp::Sum).expect("all ranks call it");
        assert!(own.iter().all(|&sum| sum == expected), "{len}");
        let mut registered = comm.alloc::<f32>(len).expect("a little memory");
        registered.fill(comm.rank() as f32);
        comm.all_reduce_in_place(&mut registered, ReduceOp::Sum).expect("all ranks call it");
        assert!(registered.iter().all(|&sum| sum == expected), "{len}");
    }
}

fn descriptors_do_not_depend_on_ranks() {
    let needed = [2, 64].map(|ranks| {
        let before = descriptors();
        let count = |comm: &Communicator| {
            calls(comm);
            comm.barrier().expect("all ranks call it");
            let count = descriptors();
            comm.barrier().expect("all ranks call it");
            count
        };
        on_ranks(ranks, count)[0] - before
    });
    // Each slab has one, and reading the list another one.
    assert!(needed.iter().all(|&needed| needed <= 8), "2 ranks need {} descriptors, 64 need {}", needed[0], needed[1]);
}

#[test]
fn ranks_of_one_process_need_no_descriptors_each() {
    run_alone("descriptors");
}

/// Ranks that joined over TCP find out that they are in one process.
fn ranks_of_tcp_share_mappings() {
    let listener = RootListener::bind(Ipv4Addr::LOCALHOST.into()).expect("a port");
    let id = &listener.unique_id().clone();
    let comms = std::thread::scope(|scope| {
        let join = |rank| move || Communicator::join(id, rank, 4, Options::default()).expect("all ranks join");
        let others: Vec<_> = (1..4).map(|rank| scope.spawn(join(rank))).collect();
        let first = Communicator::from_listener(listener, 4, Options::default()).expect("all ranks join");
        let others = others.into_iter().map(|thread| thread.join().expect("no panic"));
        std::iter::once(first).chain(others).collect()
    });
    let counts = on_comms(comms, |comm| {
        let mut own = [comm.rank() as f32; 1000];
        comm.all_reduce_in_place(&mut own, ReduceOp::Sum).expect("all ranks call it");
        assert_eq!(own, [6.0; 1000]);
        comm.barrier().expect("all ranks call it");
        let count = mappings().1;
        comm.barrier().expect("all ranks call it");
        count
    });
    assert!(counts.iter().all(|&count| (1..=3).contains(&count)), "{counts:?} mappings");
}

#[test]
fn ranks_of_one_process_share_mappings_after_rendezvous_over_tcp() {
    run_alone("tcp");
}

fn all_pairs(ranks: u32, in_place: bool) -> Plan {
    plan_on(algorithms::find("allreduce_packets").expect("it is in the library"), (ranks, ranks), in_place, 0)
}

fn launch(x: &mut PreparedPlan, rank: u32, ranks: u32) {
    let len = x.input_len();
    let mut buffer = vec![1.0 + rank as f32; len];
    x.launch_in_place(&mut buffer).expect("it runs");
    let expected = (ranks * (ranks + 1) / 2) as f32;
    assert!(buffer.iter().all(|&sum| sum == expected), "{len} elements: {buffer:?}");
}

/// Keeps `sizes` message sizes prepared, each larger than those before, which need more scratch.
fn many_sizes(comm: &Communicator, sizes: usize) {
    let executor = comm.executor().expect("all ranks call it");
    keeps_many_sizes(&executor, sizes);
}

fn keeps_many_sizes(executor: &Executor, sizes: usize) {
    let (rank, ranks) = (executor.rank(), executor.num_ranks());
    let plan = all_pairs(ranks, true);
    let prepare = |size: usize| {
        let message = Message::of::<f32>(1 + 10 * size * ranks as usize).any_size();
        executor.prepare(&plan, message).expect("all are there")
    };
    let first = prepare(1);
    executor.barrier().expect("all are there");
    let before = mappings();
    executor.barrier().expect("all are there");
    let mut all: Vec<PreparedPlan> = (2..=sizes).map(prepare).collect();
    executor.barrier().expect("all are there");
    let after = mappings();
    executor.barrier().expect("all are there");
    // Slabs at least double; the rest is for memory of the process itself.
    assert!(after.1 <= before.1 + 8, "{before:?} mappings for one size, {after:?} for {sizes}");
    assert!(after.0 <= before.0 + 64, "{before:?} mappings for one size, {after:?} for {sizes}");
    for x in all.iter_mut().step_by(sizes / 8) {
        launch(x, rank, ranks);
    }
    drop(first);
}

#[test]
fn threads_keep_many_sizes_in_few_mappings() {
    run_alone("threads");
}

/// Returns the bytes of memory of all segments of which this process has a descriptor.
fn slab_bytes() -> u64 {
    let files = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten().map(|file| file.path());
    let of_slabs = files
        .filter(|path| std::fs::read_link(path).is_ok_and(|name| name.to_string_lossy().contains("memfd:mscclpp")));
    of_slabs.map(|path| std::fs::metadata(path).map_or(0, |file| file.blocks() * 512)).sum()
}

/// Prepares ever larger sizes, none of which is kept.
fn reuses_dropped_memory(executor: &Executor) {
    const SIZES: usize = 100;
    let (rank, ranks) = (executor.rank(), executor.num_ranks());
    let plans = [true, false].map(|in_place| all_pairs(ranks, in_place));
    let mut bytes = Vec::new();
    for size in 1..=SIZES {
        let message = Message::of::<f32>(1000 * size * ranks as usize).any_size();
        let mut x = executor.prepare(&plans[0], message).expect("all are there");
        launch(&mut x, rank, ranks);
        drop(x);
        drop(executor.prepare(&plans[1], message).expect("all are there"));
        bytes.push(slab_bytes());
    }
    executor.barrier().expect("all are there");
    // The largest size needs 12 times its message per rank. All sizes together need 50 times as much, and without the
    // pages of dropped plans being freed the places that they had needed 30 times the message.
    let message = (1000 * SIZES * ranks as usize * size_of::<f32>()) as u64;
    let (most, bound) = (bytes.iter().max().expect("some"), 20 * u64::from(ranks) * message);
    assert!(*most <= bound, "{most} bytes, expected at most {bound}: {bytes:?}");
}

/// Runs the part of a rank in a role; returns whether the role is one of these.
pub fn play(role: &str, executor: &Executor) -> bool {
    match role {
        "many sizes" => keeps_many_sizes(executor, 300),
        "dropped sizes" => reuses_dropped_memory(executor),
        _ => return false,
    }
    println!("counted");
    true
}

#[test]
fn processes_keep_many_sizes_in_few_mappings() {
    for text in Job::start("many sizes", 4, 4).succeed() {
        assert!(text.contains("counted"), "{text}");
    }
}

#[test]
fn memory_of_dropped_plans_is_reused() {
    for text in Job::start("dropped sizes", 3, 3).succeed() {
        assert!(text.contains("counted"), "{text}");
    }
}
