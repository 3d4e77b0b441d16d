//! Plans whose sizes are counts between ranks: results are those of a naive exchange, whatever memory the buffers are in.

use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_exec::error::{CountLimit, CountOverflow};
use mscclpp_exec::process::{Executor, Options, PreparedPlan};
use mscclpp_exec::{Error, Message};

use super::group::{DEADLINE, each, each_with};

/// Value of elements that nothing writes.
const FILL: i32 = -7;

fn plans(ranks: u32) -> Vec<Plan> {
    let algorithms = algorithms::counted().iter();
    algorithms.map(|algorithm| algorithm.plan(algorithm.spec(ranks, ranks), &[]).expect("a right plan")).collect()
}

/// Returns the table of a launch: the same on all ranks.
fn table(ranks: usize, max: u64, launch: u64) -> Vec<Vec<i64>> {
    let mut state = launch + 1;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % (max + 2)).saturating_sub(1) as i64
    };
    (0..ranks).map(|_| (0..ranks).map(|_| next()).collect()).collect()
}

fn element(sender: usize, receiver: usize, k: i64) -> i32 {
    (10_000 * sender + 1000 * receiver) as i32 + k as i32
}

fn input(counts: &[Vec<i64>], rank: usize) -> Vec<i32> {
    let parts = counts[rank].iter().enumerate();
    parts.flat_map(|(receiver, count)| (0..*count).map(move |k| element(rank, receiver, k))).collect()
}

fn expected(counts: &[Vec<i64>], rank: usize) -> Vec<i32> {
    let parts = counts.iter().enumerate();
    let received = parts.flat_map(|(sender, row)| (0..row[rank]).map(move |k| element(sender, rank, k)));
    received.chain([FILL; 2]).collect()
}

/// Launches with a table, with buffers of the kind that is due, on each rank another one.
fn launch(executor: &Executor, x: &mut PreparedPlan, counts: &[Vec<i64>], number: u64) -> Result<(), Error> {
    let rank = executor.rank() as usize;
    let (input, expected) = (input(counts, rank), expected(counts, rank));
    let mut found = vec![FILL; expected.len()];
    let result = match number % 2 {
        0 => x.launch_counted(&input, &mut found, &counts[rank]),
        _ => {
            // Registered, in slices that begin anywhere, of one length on all ranks as allocations require.
            let mut own = executor.alloc::<i32>(4096)?;
            own.fill(FILL);
            own[3..3 + input.len()].copy_from_slice(&input);
            let (from, to) = own.split_at_mut(2048);
            let result = x.launch_counted(&from[3..3 + input.len()], &mut to[..found.len()], &counts[rank]);
            let len = found.len();
            found.copy_from_slice(&to[..len]);
            result
        }
    };
    if result.is_ok() {
        assert_eq!(found, expected, "rank {rank}: {counts:?}");
    } else {
        assert!(found.iter().all(|element| *element == FILL), "rank {rank}: {counts:?}");
    }
    result
}

#[test]
fn counts_between_processes_are_exchanged() {
    for ranks in [2, 3, 4] {
        for plan in plans(ranks) {
            each(ranks, |executor| {
                let max = 200;
                let message = Message::of::<i32>(ranks as usize * max);
                let mut x = executor.prepare(&plan, message).expect("the same");
                for number in 0..8 {
                    let counts = table(ranks as usize, max as u64, number);
                    launch(&executor, &mut x, &counts, number).unwrap_or_else(|error| panic!("{counts:?}: {error}"));
                }
                let zeros = vec![vec![0; ranks as usize]; ranks as usize];
                launch(&executor, &mut x, &zeros, 0).expect("nothing to do");
            });
        }
    }
}

#[test]
fn overflow_between_processes_is_one_verdict_and_the_next_launch_follows() {
    for plan in plans(4) {
        each(4, |executor| {
            let mut x = executor.prepare(&plan, Message::of::<i32>(16)).expect("the same");
            for number in 0..4 {
                let mut counts = vec![vec![2, 0, 1, 3], vec![0; 4], vec![4, 1, 0, 0], vec![0, 2, 2, 2]];
                launch(&executor, &mut x, &counts, number).expect("within the maximum");
                let rank = executor.rank() as usize;
                let mut output = vec![FILL; if rank == 0 { 5 } else { 16 }];
                let error = x.launch_counted(&input(&counts, rank), &mut output, &counts[rank]);
                let overflow =
                    CountOverflow { rank: 0, limit: CountLimit::Output, demand: 6, room: 5, peer: 2, part: 4 };
                assert_eq!(error, Err(Error::CountOverflow(overflow)), "rank {rank}");
                assert!(output.iter().all(|element| *element == FILL), "rank {rank}: {output:?}");
                counts[3][1] = 5;
                let overflow =
                    CountOverflow { rank: 3, limit: CountLimit::Entry, demand: 5, room: 4, peer: 1, part: 5 };
                assert_eq!(launch(&executor, &mut x, &counts, number), Err(Error::CountOverflow(overflow)));
            }
        });
    }
}

#[test]
fn late_rank_without_counts_is_waited_for() {
    for plan in plans(3) {
        each(3, |executor| {
            let mut x = executor.prepare(&plan, Message::of::<i32>(300)).expect("the same");
            for number in 0..4 {
                let mut counts = table(3, 100, number);
                counts[1] = vec![0; 3];
                if executor.rank() == 1 {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                }
                launch(&executor, &mut x, &counts, number).expect("within the maximum");
            }
        });
    }
}

#[test]
fn count_that_its_receiver_does_not_expect_is_one_verdict() {
    for plan in plans(4) {
        each(4, |executor| {
            let mut x = executor.prepare(&plan, Message::of::<i32>(16)).expect("the same");
            let counts = [[2, 0, 1, 3], [0; 4], [4, 1, 0, 0], [0, 2, 2, 2]];
            let rank = executor.rank() as usize;
            // Rank 1 does not know what it receives; rank 2 is wrong in every other launch.
            for number in 0..4 {
                let mut expected = counts.map(|row| row[rank]);
                expected[3] += if rank == 2 { number % 2 } else { 0 };
                let expected = (rank != 1).then_some(&expected[..]);
                let (input, mut output) = (vec![rank as i32; 16], vec![FILL; 16]);
                let result = x.launch_expecting(&input, &mut output, &counts[rank], expected);
                let overflow =
                    CountOverflow { rank: 2, limit: CountLimit::Expected, demand: 2, room: 3, peer: 3, part: 2 };
                match number % 2 {
                    0 => assert_eq!(result, Ok(()), "rank {rank}"),
                    _ => assert_eq!(result, Err(Error::CountOverflow(overflow)), "rank {rank}"),
                }
                assert_eq!(output.iter().all(|element| *element == FILL), result.is_err(), "rank {rank}");
                let found = (0..16).map(|entry| x.count(entry / 4, entry % 4));
                assert!(found.eq(counts.iter().flatten().map(|count| i64::from(*count))), "rank {rank}");
            }
            let error = x.launch_expecting(&[0; 16], &mut [0; 16], &[0; 4], Some(&[0; 3])).expect_err("3 of 4");
            assert_eq!(error, Error::CountRow { rank: rank as u32, expected: 4, found: 3 });
        });
    }
}

#[test]
fn rank_that_never_comes_is_named_by_those_that_wait_for_its_counts() {
    let plan = &plans(3)[0];
    let done = std::sync::Barrier::new(3);
    let options = Options::default().timeout(DEADLINE);
    let errors = each_with(3, options, |executor| {
        let mut x = executor.prepare(plan, Message::of::<i32>(12)).expect("the same");
        executor.set_timeout(std::time::Duration::from_secs(1)).expect("no call is under way");
        let result = match executor.rank() {
            1 => None,
            _ => Some(x.launch_counted(&[1_i32; 3], &mut [0; 12], &[1_i32; 3]).expect_err("rank 1 never comes")),
        };
        done.wait();
        result
    });
    for error in errors.into_iter().flatten() {
        let text = error.to_string();
        assert!(text.contains("rank 1"), "{text}");
    }
}
