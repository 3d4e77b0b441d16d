//! Ranks as processes: results, killed ranks, and leaks.

use std::fs::File;
use std::time::{Duration, Instant};

use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::process::{Executor, PreparedPlan};
use mscclpp_exec::{Error, Message};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ports;
use super::resources;
use super::results::{Reference, check_on, plan_on};
use super::spawn::{DEADLINE, Job};

fn plan(name: &str, transport: &Executor) -> Plan {
    let algorithm = algorithms::find(name).expect("it is in the library");
    let ranks = transport.num_ranks();
    Plan::new(&algorithm.compile_tree(algorithm.spec(ranks, ranks), &[]).expect("it compiles"))
}

fn prepare(name: &str, transport: &Executor, message: Message) -> PreparedPlan {
    transport.prepare(&plan(name, transport), message).expect("all are there")
}

/// Runs the part of a rank in a role; see [`Job::start`].
pub fn play(role: &str, transport: Executor) {
    if ports::play(role, &transport) || resources::play(role, &transport) {
        return;
    }
    match role {
        "results" => results(&transport, transport.num_ranks()),
        "nodes" => results(&transport, 2),
        "differ" => differ(&transport),
        "ahead" => is_ahead(transport),
        "exits ahead" => exits_ahead(transport),
        "killed" | "stopped" => launches_until_an_error(transport),
        "soak" => soak(&transport),
        "descriptors" => needs_few_descriptors(&transport),
        "short of descriptors" => prepares_on_one_node_only(&transport),
        other => panic!("no role {other}"),
    }
}

/// Compares with the executor within one process, which every rank runs for itself.
fn results(transport: &Executor, per_node: u32) {
    let ranks = transport.num_ranks();
    let supported = |algorithm: &&algorithms::BuiltinAlgorithm| algorithm.supports(ranks, per_node);
    let mut checked = 0;
    for algorithm in algorithms::all().iter().filter(supported) {
        let in_place = algorithm.buffer_mode() == algorithms::BufferMode::InPlace;
        let plan = plan_on(algorithm, (ranks, per_node), in_place, 0);
        for part in [1, 37, 5000] {
            let message = Message::of::<f32>(part * ranks as usize).any_size();
            let reference = Reference::new(&plan, message, part as u64);
            check_on(transport, &plan, message, &reference);
        }
        checked += 1;
    }
    println!("checked {checked} algorithms");
}

#[test]
fn processes_compute_equal_results() {
    for text in Job::start("results", 3, 3).succeed() {
        assert!(text.contains("checked "), "{text}");
    }
}

#[test]
fn nodes_compute_equal_results_through_ports() {
    for text in Job::start("nodes", 4, 2).succeed() {
        assert!(text.contains("checked "), "{text}");
    }
}

/// The root of broadcasts between nodes of one rank waits for no other rank: it makes all its calls and leaves before a receiver makes
/// its first one.
fn is_ahead(transport: Executor) {
    const CALLS: usize = 600;
    let algorithm = algorithms::find("broadcast_tree_ports").expect("it is in the library");
    let plan = plan_on(algorithm, (3, 1), true, 0);
    let mut x = transport.prepare(&plan, Message::of::<f32>(100).any_size()).expect("all are there");
    let mut buffer = vec![0.0_f32; 100];
    transport.barrier().expect("all are there");
    // Exists when the root has left; named after the port of the job.
    let port = std::env::var("MASTER_PORT").expect("of the job");
    let has_left = std::env::temp_dir().join(format!("mscclpp-root-has-left-{port}"));
    let rank = transport.rank();
    let started = Instant::now();
    while rank == 1 && !has_left.exists() {
        assert!(started.elapsed() < Duration::from_secs(DEADLINE), "the root waits");
        std::thread::sleep(Duration::from_millis(5));
    }
    for call in 0..CALLS {
        buffer.fill(if rank == 0 { call as f32 } else { -1.0 });
        x.launch_in_place(&mut buffer).expect("the root has called, or will");
        assert_eq!(buffer, [call as f32; 100], "call {call}");
    }
    drop((x, transport));
    match rank {
        0 => drop(File::create(has_left).expect("a file")),
        1 => std::fs::remove_file(has_left).expect("the root has left"),
        _ => {}
    }
    println!("called");
}

#[test]
fn a_root_may_leave_before_a_receiver_on_another_node_calls() {
    for text in Job::start("ahead", 3, 1).succeed() {
        assert!(text.contains("called"), "{text}");
    }
}

/// The root of broadcasts between nodes exits without running destructors, before a receiver makes its first call.
fn exits_ahead(transport: Executor) {
    const CALLS: usize = 20;
    let algorithm = algorithms::find("broadcast_tree_ports").expect("it is in the library");
    let mut x = transport
        .prepare(&plan_on(algorithm, (2, 1), true, 0), Message::of::<f32>(100).any_size())
        .expect("both are there");
    // The root has its lock until it has exited; named after the port of the job.
    let port = std::env::var("MASTER_PORT").expect("of the job");
    let path = std::env::temp_dir().join(format!("mscclpp-root-has-exited-{port}"));
    let lock = || File::options().create(true).append(true).open(&path).expect("a file");
    let rank = transport.rank();
    let locked = (rank == 0).then(lock);
    locked.iter().for_each(|file| file.lock().expect("no other rank has it"));
    transport.barrier().expect("both are there");
    if rank == 1 {
        lock().lock().expect("the root has exited");
        std::fs::remove_file(&path).expect("it is there");
        // The thread of the connections learns how the root has ended.
        std::thread::sleep(Duration::from_millis(300));
    }
    for call in 0..CALLS {
        let mut buffer = [if rank == 0 { call as f32 } else { -1.0 }; 100];
        x.launch_in_place(&mut buffer).expect("the root has called");
        assert_eq!(buffer, [call as f32; 100], "call {call}");
    }
    println!("called");
    if rank == 0 {
        std::process::exit(0);
    }
}

#[test]
fn root_that_exits_without_destructors_has_sent_its_data() {
    for text in Job::start("exits ahead", 2, 1).succeed() {
        assert!(text.contains("called"), "{text}");
    }
}

/// Returns the number of descriptors of segments that this process has.
fn segment_descriptors() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").expect("descriptors").flatten();
    let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    names.filter(|name| name.to_string_lossy().contains("memfd:mscclpp")).count()
}

/// Checks that memory needs no descriptors once it is shared, and that an error reports when there are none for
/// sharing.
fn needs_few_descriptors(transport: &Executor) {
    let buffers: Vec<_> = (0..20).map(|_| transport.alloc::<f32>(1000).expect("a little")).collect();
    let mut x = prepare("allreduce_packets", transport, Message::of::<f32>(1000).any_size());
    x.launch_in_place(&mut [1.0_f32; 1000]).expect("it runs");
    // Two are for memory whose pages are allocated on demand.
    assert!(segment_descriptors() <= 2, "{}", segment_descriptors());
    drop((x, buffers));
    let mut taken = if transport.rank() == 0 { take_all_descriptors() } else { Vec::new() };
    // One for this rank's memory, none for the peer's.
    taken.pop();
    let result = transport.alloc::<f32>(1000).and_then(|_| transport.barrier());
    drop(taken);
    let error = result.expect_err("a descriptor has nowhere to go");
    let text = error.diagnostic().to_string();
    if transport.rank() == 0 {
        assert!(matches!(error, Error::LimitExceeded { .. }), "{text}");
        assert!(text.contains("rank 1's memory: RLIMIT_NOFILE allows 200") && text.contains("ulimit -n"), "{text}");
    }
    println!("counted");
}

#[test]
fn shared_memory_needs_no_descriptors() {
    for text in Job::start("descriptors", 2, 2).succeed() {
        assert!(text.contains("counted"), "{text}");
    }
}

/// A failed preparation on one node does not affect later preparations on both.
fn prepares_on_one_node_only(transport: &Executor) {
    // Different plans that need the same connections.
    let algorithm = algorithms::find("allgather_two_nodes").expect("it is in the library");
    let plans = [1, 2, 3].map(|instances| {
        let spec = AlgoSpec { instances, ..algorithm.spec(4, 2) };
        Plan::new(&algorithm.compile_tree(spec, &[]).expect("it compiles"))
    });
    let message = Message::of::<f32>(4000).any_size();
    let launch = |plan| check_on(transport, plan, message, &Reference::new(plan, message, 7));
    // Connections between the nodes exist now.
    launch(&plans[0]);
    let taken = if transport.rank() == 0 { take_all_descriptors() } else { Vec::new() };
    // More than there is room for without another descriptor.
    let result = transport.prepare(&plans[1], Message::of::<f32>(4 << 20).any_size());
    drop(taken);
    match transport.rank() {
        0 => assert!(matches!(result, Err(Error::LimitExceeded { .. })), "{result:?}"),
        1 => assert!(
            matches!(result, Err(ref error) if error.root_cause().is_some_and(|cause| cause.rank == 0)),
            "{result:?}"
        ),
        _ => drop(result.expect("the other node has no limit")),
    }
    launch(&plans[2]);
    launch(&plans[1]);
    println!("launched all");
}

/// Opens all descriptors that this process may have.
fn take_all_descriptors() -> Vec<File> {
    let limit = Rlimit { current: Some(200), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).expect("less is always possible");
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

#[test]
fn failed_preparation_on_one_node_does_not_affect_later_ones() {
    for text in Job::start("short of descriptors", 4, 2).succeed() {
        assert!(text.contains("launched all"), "{text}");
    }
}

/// The nodes launch their prepared plans in different orders.
fn differ(transport: &Executor) {
    let algorithm = algorithms::find("allreduce_hierarchical").expect("it is in the library");
    let in_place = algorithm.buffer_mode() == algorithms::BufferMode::InPlace;
    let plan = plan_on(algorithm, (4, 2), in_place, 0);
    let message = |count| Message::of::<f32>(count).any_size();
    let mut small = transport.prepare(&plan, message(400)).expect("the same");
    let mut large = transport.prepare(&plan, message(800)).expect("the same");
    let launch = |x: &mut PreparedPlan| {
        let (mut input, mut output) = (vec![1.0_f32; x.input_len()], vec![0.0_f32; x.output_len()]);
        if in_place { x.launch_in_place(&mut input) } else { x.launch(&input, &mut output) }
    };
    launch(&mut small).expect("the same");
    let error = launch(if transport.rank() < 2 { &mut small } else { &mut large }).expect_err("nodes differ");
    println!("{error}");
}

#[test]
fn different_calls_on_two_nodes_are_both_reported() {
    for (rank, text) in Job::start("differ", 4, 2).succeed().iter().enumerate() {
        assert!(text.contains("400 f32") && text.contains("800 f32"), "rank {rank}: {text}");
    }
}

/// Prints `ready` after some launches, and launches until one fails, whose error it prints.
fn launches_until_an_error(transport: Executor) {
    let mut x = prepare("allreduce_all_pairs", &transport, Message::of::<f32>(100_000).any_size());
    let mut buffer = transport.alloc::<f32>(100_000).expect("memory");
    let mut launches = 0;
    let error = loop {
        buffer.fill(1.0);
        match x.launch_in_place(&mut buffer) {
            Ok(()) => assert_eq!(buffer[99_999], transport.num_ranks() as f32),
            Err(error) => break error,
        }
        launches += 1;
        if launches == 20 {
            println!("ready");
        }
    };
    println!("{error}");
    // A rank that was suspended may learn at the end of its launch that the other one has continued without it.
    assert!(error.root_cause().is_some(), "{error:?}");
    assert_eq!(x.launch_in_place(&mut buffer).unwrap_err().root_cause(), error.root_cause());
    // The resources of the communicator are released with it.
    drop((x, buffer, transport));
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    assert!(!maps.contains("memfd:mscclpp"), "{maps}");
    assert_eq!(segment_descriptors(), 0);
}

#[test]
fn killed_rank_ends_launch_of_all_others() {
    for victim in [0, 2] {
        let mut job = Job::start("killed", 3, 3);
        (0..3).for_each(|rank| job.wait_for_line(rank, "ready\n"));
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", job.ranks[1].id())).expect("it runs");
        assert!(
            maps.contains("memfd:mscclpp"),
            "segments have no name in a file system: they end with who has mapped them"
        );
        job.signal(victim, "KILL");
        let killed = Instant::now();
        let ended = job.wait();
        assert!(killed.elapsed() < Duration::from_secs(DEADLINE), "nobody waits for the deadline");
        for (rank, ended) in ended.iter().enumerate().filter(|(rank, _)| *rank != victim) {
            let text = &ended.text;
            assert_eq!(ended.code, Some(0), "rank {rank}: {text}");
            // In the launch, or at the beginning of the next one.
            let is_named = text.contains(&format!("lost rank {victim}")) || text.contains(&format!("rank {victim} ("));
            assert!(is_named, "rank {rank}: {text}");
        }
    }
}

#[test]
fn stopped_rank_ends_launch_within_timeout() {
    let mut job = Job::start("stopped", 2, 2);
    (0..2).for_each(|rank| job.wait_for_line(rank, "ready\n"));
    job.signal(1, "STOP");
    // The other rank ends; then this one continues and detects that.
    while job.ranks[0].try_wait().expect("a child").is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    job.signal(1, "CONT");
    let ended = job.wait();
    assert_eq!(ended[0].code, Some(0), "{}", ended[0].text);
    assert!(ended[0].text.contains("no answer from rank 1 ("), "{}", ended[0].text);
    assert_eq!(ended[1].code, Some(0), "{}", ended[1].text);
}

/// Makes mixed calls; memory and descriptors do not grow after the first fifth.
fn soak(transport: &Executor) {
    let calls: u64 = std::env::var("MSCCLPP_SOAK").ok().and_then(|calls| calls.parse().ok()).unwrap_or(1000);
    let ranks = transport.num_ranks() as usize;
    let names = ["allreduce_packets", "allreduce_all_pairs", "allreduce_ring", "allreduce_one_shot_packets"];
    let plans = names.map(|name| {
        let algorithm = algorithms::find(name).expect("it is in the library");
        plan_on(algorithm, (ranks as u32, ranks as u32), true, 0)
    });
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    let mut shared = transport.alloc::<f32>(4096).expect("memory");
    let mut first = (0, 0);
    for call in 0..calls {
        let len = next(4096) as usize;
        let plan = &plans[next(4) as usize];
        let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Avg][next(3) as usize];
        let mut x = transport.prepare(plan, Message::of::<f32>(len).op(op).any_size()).expect("all are there");
        let value = 1.0 + transport.rank() as f32;
        let expected = match op {
            ReduceOp::Sum => (ranks * (ranks + 1)) as f32 / 2.0,
            ReduceOp::Max => ranks as f32,
            _ => (ranks + 1) as f32 / 2.0,
        };
        for _ in 0..1 + next(3) {
            if next(2) == 0 {
                shared[..len].fill(value);
                x.launch_in_place(&mut shared[..len]).expect("it runs");
                assert!(shared[..len].iter().all(|found| *found == expected), "call {call}");
            } else {
                let mut own = vec![value; len];
                x.launch_in_place(&mut own).expect("it runs");
                assert!(own.iter().all(|found| *found == expected), "call {call}");
            }
        }
        if next(50) == 0 {
            drop(std::mem::replace(&mut shared, transport.alloc::<f32>(4096).expect("memory")));
        }
        if call == calls / 5 {
            first = used();
        }
    }
    let last = used();
    assert!(last.0 <= first.0 + 1024, "{} KiB after a fifth, {} KiB at the end", first.0, last.0);
    assert!(last.1 <= first.1 + 4, "{} descriptors after a fifth, {} at the end", first.1, last.1);
    println!("soaked {calls} calls: {} KiB, then {} KiB", first.0, last.0);
}

/// Returns KiB of memory without files, which the system loads and evicts, and the number of descriptors.
fn used() -> (u64, usize) {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let kib = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a size");
        line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
    };
    let kib = ["RssAnon:", "RssShmem:", "VmSwap:"].map(kib).iter().sum();
    (kib, std::fs::read_dir("/proc/self/fd").expect("descriptors").count())
}

/// `MSCCLPP_SOAK` is the number of calls, 1000 if it is not set.
#[test]
fn many_mixed_calls_do_not_grow_memory() {
    for text in Job::start("soak", 4, 4).succeed() {
        assert!(text.contains("soaked "), "{text}");
    }
}
