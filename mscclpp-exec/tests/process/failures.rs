//! Failures between ranks end in bounded time on all of them, and name the rank and the operation.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use mscclpp_algorithms as algorithms;
use mscclpp_bootstrap::Error as Cause;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::error::{ErrorKind, LaunchAborted, UnblockedBy, WaitsFor};
use mscclpp_exec::process::{Options, PreparedPlan};
use mscclpp_exec::{Error, Message};

use super::group::{DEADLINE, each, each_with};

fn ring(ranks: u32) -> Plan {
    let ring = algorithms::find("allreduce_ring").expect("it is in the library");
    Plan::new(&ring.compile_tree(ring.spec(ranks, ranks), &[]).expect("it compiles"))
}

/// Returns an in-place plan.
fn all_pairs(ranks: u32) -> Plan {
    let all_pairs = algorithms::find("allreduce_all_pairs").expect("it is in the library");
    Plan::new(&all_pairs.compile_tree(all_pairs.spec(ranks, ranks), &[]).expect("it compiles"))
}

/// Returns an unchecked plan.
fn unchecked(ranks: u32, body: impl FnOnce(&Program)) -> Plan {
    let program = Program::new(AlgoSpec::new("plan", CollectiveKind::AllReduce, ranks));
    body(&program);
    Plan::new(&lower(&program.finish().expect("a program")).expect("a plan"))
}

/// A short timeout, to be set once the ranks have all resources that they need of each other.
const SHORT: Duration = Duration::from_secs(1);

fn interrupted(error: Error) -> LaunchAborted {
    match error {
        Error::Interrupted(interrupted) => *interrupted,
        other => panic!("{other}"),
    }
}

fn launch(x: &mut PreparedPlan) -> Result<(), Error> {
    let mut output = vec![0.0_f32; x.output_len()];
    x.launch(&vec![1.0_f32; x.input_len()], &mut output)
}

#[test]
fn different_calls_are_reported() {
    let (plan, other) = (ring(3), algorithms::find("allreduce_packets").expect("it is in the library"));
    let other = Plan::new(&other.compile_tree(other.spec(3, 3), &[]).expect("it compiles"));
    let same = Message::of::<f32>(1000).any_size();
    for (odd_plan, odd, named) in [
        (&plan, Message::of::<f32>(1001).any_size(), ["1000 f32", "1001 f32"]),
        (&plan, Message::of::<i32>(1000).any_size(), ["1000 f32", "1000 i32"]),
        (&plan, Message::of::<f32>(1000).op(ReduceOp::Max).any_size(), ["as planned", "max"]),
        (&other, same, ["allreduce_ring", "allreduce_packets"]),
    ] {
        let begun = Instant::now();
        let errors = each(3, |transport| {
            let (plan, message) = if transport.rank() == 1 { (odd_plan, odd) } else { (&plan, same) };
            let error = transport.prepare(plan, message).expect_err("ranks differ");
            assert_eq!(transport.alloc::<f32>(1).map(drop), Err(error.clone()), "later calls return the cause again");
            error
        });
        assert!(begun.elapsed() < DEADLINE, "nobody waits for the deadline");
        for (rank, error) in errors.iter().enumerate() {
            let text = error.to_string();
            assert_eq!((error, error.code()), (&errors[0], Code::CallMismatch), "{rank}: {text}");
            assert_eq!(error.root_cause().map(|cause| cause.rank), Some(1), "{rank}: {text}");
            assert!(text.contains("failures.rs:"), "{text}");
            assert!(named.iter().all(|named| text.contains(named)), "{rank}: {text}");
            assert!(text.contains("rank 1"), "{rank}: {text}");
        }
    }
}

#[test]
fn launches_in_different_orders_and_with_different_buffers() {
    let plan = ring(2);
    let errors = each(2, |transport| {
        let mut small = transport.prepare(&plan, Message::of::<f32>(10).any_size()).expect("the same");
        let mut large = transport.prepare(&plan, Message::of::<f32>(20).any_size()).expect("the same");
        let (input, mut output) = ([0.0_f32; 20], [0.0_f32; 20]);
        match transport.rank() {
            0 => small.launch(&input[..10], &mut output[..10]),
            _ => large.launch(&input, &mut output),
        }
    });
    for error in errors {
        let text = error.expect_err("launches differ").to_string();
        assert!(text.contains("failures.rs") && text.contains("10 f32") && text.contains("20 f32"), "{text}");
    }
    // A launch on one rank, a different call on the other.
    let errors = each(2, |transport| {
        let mut x = transport.prepare(&plan, Message::of::<f32>(10).any_size()).expect("the same");
        match transport.rank() {
            0 => x.launch(&[0.0_f32; 10], &mut [0.0; 10]).expect_err("the other allocates"),
            _ => transport.alloc::<f32>(10).expect_err("the other launches"),
        }
    });
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("plan `allreduce_ring`") && text.contains("alloc of f32"), "{text}");
    }
}

#[test]
fn wait_without_signal_names_operation_and_channel() {
    let plan = unchecked(2, |p| {
        let channels: Vec<_> = p.ranks().map(|rank| rank.memory_channel(p.rank(1 - rank.id()))).collect();
        channels[1].wait(0);
        channels[0].signal(0);
        channels[1].wait(0);
    });
    let signalled = Barrier::new(2);
    let results = each(2, |transport| {
        let mut x = transport.prepare(&plan, Message::of::<f32>(8)).expect("it can be run");
        if transport.rank() == 0 {
            // It waits for no rank.
            let result = launch(&mut x);
            signalled.wait();
            return result;
        }
        signalled.wait();
        transport.set_timeout(SHORT).expect("no call is under way");
        launch(&mut x)
    });
    assert_eq!(results[0], Ok(()));
    let error = results[1].clone().expect_err("nobody signals twice");
    let text = error.diagnostic().to_string();
    assert_eq!(error.code(), Code::LostRank, "{text}");
    let LaunchAborted { rank, cause, stall, .. } = interrupted(error);
    assert_eq!(rank, 1);
    // Rank 0 may have left by then.
    assert!(matches!(*cause, Cause::CallFailed { kind: ErrorKind::Stalled, .. } | Cause::RankLeft { .. }), "{text}");
    let first = &stall.blocked[0];
    assert_eq!((first.rank, first.block, &first.unblocked_by), (1, 0, &UnblockedBy::Nothing), "{text}");
    assert!(matches!(first.waits_for, WaitsFor::Signal { id: 0, peer: 0, expected: 2, seen: 1, .. }), "{text}");
    assert!(text.contains("failures.rs"), "{text}");
}

#[test]
fn lost_rank_is_reported() {
    let plan = ring(3);
    let results = each(3, |transport| {
        let mut x = transport.prepare(&plan, Message::of::<f32>(300).any_size()).expect("all are there");
        if transport.rank() == 1 {
            return Ok(());
        }
        x.launch(&[0.0_f32; 300], &mut [0.0; 300])
    });
    for rank in [0, 2] {
        let error = results[rank].clone().expect_err("rank 1 has left");
        assert_eq!(error.code(), Code::LostRank, "{error}");
        let Error::Interrupted(interrupted) = error else {
            // A rank that begins its call after rank 1 has left starts no launch.
            let text = error.to_string();
            assert!(text.starts_with("rank 1 ") && text.contains("has left the communicator"), "{text}");
            continue;
        };
        let LaunchAborted { rank: own, cause, .. } = *interrupted;
        assert_eq!(own, rank as u32);
        assert!(matches!(&*cause, Cause::RankLeft { who, .. } if who.rank == 1), "{cause}");
    }
}

/// Also by ranks that can finish it without the one that left.
#[test]
fn first_call_that_a_rank_does_not_make_is_named() {
    let (alone, ring) = (unchecked(3, |_| {}), ring(3));
    let results = each(3, |transport| {
        let message = Message::of::<f32>(300).any_size();
        let mut first = transport.prepare(&alone, message).expect("all are there");
        let mut second = transport.prepare(&ring, message).expect("all are there");
        if transport.rank() == 0 {
            return Ok(());
        }
        first.launch(&[0.0_f32; 300], &mut [0.0; 300])?;
        second.launch(&[0.0_f32; 300], &mut [0.0; 300])
    });
    for result in &results[1..] {
        let LaunchAborted { cause, .. } = interrupted(result.clone().expect_err("rank 0 has left"));
        assert!(
            matches!(&*cause, Cause::RankLeft { who, call, .. } if who.rank == 0 && call.contains("`plan`")),
            "{cause}"
        );
    }
}

#[test]
fn rank_that_leaves_before_preparation_is_reported() {
    let plan = ring(2);
    let errors = each(2, |transport| {
        let rank = transport.rank();
        (rank == 0).then(|| transport.prepare(&plan, Message::of::<f32>(300).any_size()).map(drop))
    });
    let error = errors[0].clone().expect("rank 0 prepares").expect_err("rank 1 has left");
    let text = error.to_string();
    assert!(text.starts_with("rank 1 (") && text.contains("has left the communicator"), "{text}");
    assert_eq!((error.lost(), error.kind()), (vec![1], ErrorKind::RankLost));
}

#[test]
fn missing_rank_is_named_within_timeout() {
    let (plan, over) = (ring(3), Barrier::new(3));
    let results = each(3, |transport| {
        let mut x = transport.prepare(&plan, Message::of::<f32>(300).any_size()).expect("all are there");
        transport.set_timeout(SHORT).expect("no call is under way");
        if transport.rank() == 1 {
            over.wait();
            return Ok(());
        }
        let result = x.launch(&[0.0_f32; 300], &mut [0.0; 300]);
        over.wait();
        result
    });
    for rank in [0, 2] {
        let text = results[rank].clone().expect_err("rank 1 does not come").to_string();
        let LaunchAborted { cause, stall, .. } = interrupted(results[rank].clone().expect_err("as above"));
        let Cause::CollectiveTimeout { call, missing, .. } = &*cause else { panic!("{cause}") };
        assert_eq!(missing.iter().map(|missing| missing.rank).collect::<Vec<_>>(), [1], "{text}");
        assert!(call.contains("allreduce_ring") && call.contains("failures.rs"), "{call}");
        let own = stall.blocked.iter().filter(|blocked| blocked.rank == rank as u32);
        let held = WaitsFor::Peers { ranks: vec![1] };
        let waits: Vec<_> = own.map(|blocked| (&blocked.waits_for, &blocked.unblocked_by)).collect();
        // Rank 0 writes to rank 1's buffer, rank 2 only waits for its signal.
        assert!(!waits.is_empty(), "{text}");
        assert!(rank == 2 || waits.iter().all(|waits| *waits == (&held, &UnblockedBy::PeerStart)), "{text}");
        assert!(text.contains("waits for rank 1 to start this launch"), "{text}");
        assert!(!text.contains("proxy"), "{text}");
    }
    let causes = [0, 2].map(|rank| results[rank].clone().expect_err("as above").root_cause());
    assert_eq!(causes[0], causes[1]);
}

#[test]
fn barrier_after_elided_handshake_blocks() {
    let plan = unchecked(2, |p| {
        for rank in p.ranks() {
            let channel = rank.memory_channel(p.rank(1 - rank.id()));
            channel.signal(0);
            channel.wait(0);
            rank.barrier([0, 1]);
        }
    });
    let over = Barrier::new(2);
    let results = each(2, |transport| {
        let mut x = transport.prepare(&plan, Message::of::<f32>(8).any_size()).expect("it can be run");
        transport.set_timeout(SHORT).expect("no call is under way");
        let result = if transport.rank() == 0 { launch(&mut x) } else { Ok(()) };
        over.wait();
        result
    });
    let stall = interrupted(results[0].clone().expect_err("rank 1 does not come")).stall;
    let first = &stall.blocked.iter().find(|blocked| (blocked.rank, blocked.block) == (0, 0)).expect("it waits");
    assert_eq!((first.kind, &first.waits_for), (OpKind::Barrier, &WaitsFor::Peers { ranks: vec![1] }), "{stall}");
}

#[test]
fn missing_packet_in_a_loop_is_named() {
    // Rank 0 sends the first of two chunks, of 8 windows each, and then waits for another signal.
    let plan = unchecked(2, |p| {
        let scratch = p.rank(1).scratch(2);
        let (there, back) = (p.rank(0).memory_channel(p.rank(1)), p.rank(1).memory_channel(p.rank(0)));
        there.put_packets(scratch.chunk(0), p.rank(0).input().chunk(0), 0);
        there.wait(0);
        p.pipeline(1024, 2, || p.rank(1).unpack_packets(p.rank(1).output().chunk(0..2), scratch.chunk(0..2), 0));
        back.signal(0);
    });
    let results = each(2, |transport| {
        let mut x = transport.prepare(&plan, Message::of::<f32>(2 * 2048).any_size()).expect("it can be run");
        if transport.rank() == 1 {
            // Rank 0 sent its data long before.
            transport.set_timeout(5 * SHORT).expect("no call is under way");
        }
        launch(&mut x)
    });
    for result in results {
        let stall = interrupted(result.expect_err("nobody sends the second chunk")).stall;
        let peer = stall.blocked.iter().find(|blocked| blocked.rank == 1).expect("it waits");
        let WaitsFor::Packet { packet, seen: 0, .. } = peer.waits_for else { panic!("{stall}") };
        assert_eq!((peer.iteration, packet), (Some(8), 1024), "{stall}");
    }
}

#[test]
fn concurrent_call_is_an_error() {
    let (plan, seen) = (ring(2), Barrier::new(2));
    let results = each(2, |transport| {
        let mut x = transport.prepare(&plan, Message::of::<f32>(4).any_size()).expect("all are there");
        if transport.rank() == 1 {
            seen.wait();
            return launch(&mut x).map(|()| Error::Busy);
        }
        std::thread::scope(|scope| {
            let launching = scope.spawn(move || {
                loop {
                    match launch(&mut x) {
                        // The other thread holds the lock only for a check.
                        Err(Error::Busy) => {}
                        result => return result,
                    }
                }
            });
            // The call cannot end before rank 1 makes it too.
            while transport.set_timeout(DEADLINE).is_ok() {
                std::thread::yield_now();
            }
            let busy = transport.alloc::<f32>(1).expect_err("a launch is under way");
            seen.wait();
            launching.join().expect("no panic").map(|()| busy)
        })
    });
    assert_eq!(results, [Ok(Error::Busy), Ok(Error::Busy)]);
}

#[test]
fn buffers_of_failed_launch_are_inaccessible() {
    let gather = algorithms::find("allgather_pairwise").or_else(|| algorithms::find("allgather_all_pairs"));
    let gather = gather.expect("it is in the library");
    let plan = Plan::new(&gather.compile_tree(gather.spec(2, 2), &[]).expect("it compiles"));
    let over = Barrier::new(2);
    let results = each(2, |transport| {
        let mut x = transport.prepare(&plan, Message::of::<u64>(2000).any_size()).expect("all are there");
        let mut buffer = transport.alloc::<u64>(2000).expect("memory");
        let input = transport.alloc::<u64>(1000).expect("memory");
        transport.set_timeout(SHORT).expect("no call is under way");
        buffer.fill(7);
        if transport.rank() == 1 {
            over.wait();
            return None;
        }
        let result = match gather.buffer_mode() {
            algorithms::BufferMode::InPlace => x.launch_in_place(&mut buffer),
            _ => x.launch(&input, &mut buffer),
        };
        let error = result.expect_err("rank 1 does not come");
        over.wait();
        assert!(buffer.iter().all(|&value| value == 0), "{error}");
        Some(error)
    });
    assert!(matches!(results[0], Some(Error::Interrupted(_))));
}

#[test]
fn memory_next_to_failed_launch_is_unchanged() {
    let plan = all_pairs(2);
    // In separate pages and not.
    for len in [1 << 16, 1000] {
        let over = Barrier::new(2);
        each(2, |transport| {
            let mut x = transport.prepare(&plan, Message::of::<u64>(len).any_size()).expect("all are there");
            let mut buffer = transport.alloc::<u64>(3 * len).expect("memory");
            let mut other = transport.alloc::<u64>(len).expect("memory");
            transport.set_timeout(SHORT).expect("no call is under way");
            buffer.fill(7);
            other.fill(8);
            if transport.rank() == 1 {
                over.wait();
                return;
            }
            let (before, rest) = buffer.split_at_mut(len);
            let (part, after) = rest.split_at_mut(len);
            let first = x.launch_in_place(part);
            // The second launch does not even begin.
            let second = x.launch_in_place(&mut other);
            over.wait();
            let cause = interrupted(first.expect_err("as above")).cause;
            assert_eq!(second, Err(Error::Bootstrap(cause)));
            assert_eq!((&*before, &*after), (&vec![7; len][..], &vec![7; len][..]), "{len}");
            assert_eq!(*other, vec![8; len][..]);
        });
    }
}

#[test]
fn missing_memory_is_an_error_on_the_rank_and_its_peers() {
    let results = each(2, |transport| {
        let len = if transport.rank() == 0 { 1 << 50 } else { 10 };
        let error = transport.alloc::<u8>(len).map(drop).expect_err("nobody has so much");
        // The executor remains usable.
        transport.alloc::<u8>(100).map(drop).expect("a little");
        error
    });
    assert!(matches!(results[0], Error::OutOfMemory { .. }), "{}", results[0]);
    assert!(matches!(results[1], Error::PeerOutOfMemory { peer: 0, .. }), "{}", results[1]);
}

#[test]
fn failed_preparation_does_not_affect_earlier_ones() {
    let plan = all_pairs(2);
    each(2, |transport| {
        let mut x = transport.prepare(&plan, Message::of::<f32>(1000).any_size()).expect("a little");
        for _ in 0..2 {
            let mut buffer = vec![1.0_f32; 1000];
            x.launch_in_place(&mut buffer).expect("it has what it needs");
            assert_eq!(buffer, [2.0; 1000]);
            let error =
                transport.prepare(&plan, Message::of::<f32>(1 << 45).any_size()).expect_err("nobody has so much");
            assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        }
    });
}

#[test]
fn maximum_timeout_never_expires() {
    each_with(2, Options::default().timeout(Duration::MAX), |transport| transport.barrier().unwrap());
}

#[test]
fn rank_that_runs_ahead_keeps_unread_data() {
    // Rank 1 reads the input of rank 0, which waits for nothing.
    let plan = unchecked(2, |p| {
        let channels: Vec<_> = p.ranks().map(|rank| rank.memory_channel(p.rank(1 - rank.id()))).collect();
        channels[0].signal(0);
        channels[1].wait(0);
        channels[1].get(p.rank(1).output().chunk(..), p.rank(0).input().chunk(..), 0);
    });
    // Copied to the ring; registered and copied there even so; waited for.
    for (count, registered) in [(500, false), (500, true), (20_000, false), (20_000, true)] {
        each(2, |transport| {
            let mut x = transport.prepare(&plan, Message::of::<f32>(count).any_size()).expect("it can be run");
            let mut shared = transport.alloc::<f32>(x.input_len()).expect("memory");
            let mut private = vec![0.0; x.input_len()];
            let input: &mut [f32] = if registered { &mut shared } else { &mut private };
            let mut output = vec![0.0_f32; x.output_len()];
            for launch in 0..100 {
                input.fill(launch as f32);
                if transport.rank() == 1 && launch % 16 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                x.launch(input, &mut output).expect("both launch");
                let expected = if transport.rank() == 1 { launch as f32 } else { 0.0 };
                assert!(output.iter().all(|&found| found == expected), "{count} {registered}: launch {launch}");
            }
        });
    }
}
