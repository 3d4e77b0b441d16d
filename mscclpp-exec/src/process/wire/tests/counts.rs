//! Plans whose sizes are counts between nodes: results are those of a naive exchange, errors are the same on all ranks.

use super::*;
use mscclpp_base::error::{CountLimit, CountOverflow};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::BlockSync;

/// A row for every sender.
type Counts = Vec<Vec<i64>>;

/// Value of elements that nothing writes.
const FILL: i32 = -7;

/// Element `k` of what a rank sends to another one.
fn value(sender: usize, receiver: usize, k: i64) -> i32 {
    (10_000 * sender + 1000 * receiver) as i32 + k as i32
}

fn input(counts: &Counts, rank: usize) -> Vec<i32> {
    let part = |(to, count): (usize, &i64)| (0..*count).map(move |k| value(rank, to, k));
    counts[rank].iter().enumerate().flat_map(part).collect()
}

/// Returns what a rank receives, and two elements of the fill.
fn output(counts: &Counts, rank: usize) -> Vec<i32> {
    let part = |(from, row): (usize, &Vec<i64>)| (0..row[rank]).map(move |k| value(from, rank, k));
    counts.iter().enumerate().flat_map(part).chain([FILL; 2]).collect()
}

/// Ranks put to scratch of the others through ports, and copy from there: also to ranks of their node.
fn staged(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let id = rank.id();
        let ports = rank.port_channels((1..ranks).map(|step| (id + step) % ranks));
        rank.exchange_counts(0);
        for channel in &ports {
            let peer = channel.peer();
            channel.put_counted(scratch[peer.id()].chunk(id), rank.input().chunk(peer.id()), rank, peer, 0);
            channel.signal(0).sync(BlockSync::Before);
        }
        rank.copy_counted(rank.output().chunk(id), rank.input().chunk(id), rank, rank, 0);
        for channel in &ports {
            let peer = channel.peer();
            channel.wait(0).sync(BlockSync::After);
            rank.copy_counted(rank.output().chunk(peer.id()), scratch[id].chunk(peer.id()), peer, rank, 0);
        }
        ports.handshake(0);
        for channel in &ports {
            channel.flush(0);
        }
    }
}

/// Returns the plans for a number of ranks and ranks per node, with their names.
fn plans(ranks: u32, per_node: u32) -> [(&'static str, Plan); 2] {
    let mut spec = AlgoSpec::new("staged", CollectiveKind::AllToAllV, ranks);
    spec.ranks_per_node = per_node;
    let staged = mscclpp_core::compile(spec, staged).expect("a right plan");
    [("alltoallv_ports", Plan::new(&tree("alltoallv_ports", ranks, per_node))), ("staged", staged)]
}

/// Runs a function on all ranks, which are threads.
fn on_nodes<R: Send>(ranks: u32, per_node: u32, seed: u64, f: impl Fn(Executor) -> R + Sync) -> Vec<R> {
    let nodes: Vec<u32> = (0..ranks).map(|rank| rank / per_node).collect();
    let play = |bootstrap: Bootstrap| {
        let engine = Box::new(Hostile::new(Box::new(Tcp::new()), bootstrap.rank(), seed, DELAY));
        f(executor(bootstrap, 60, &nodes, engine).expect("a session"))
    };
    on_threads(Bootstrap::local(ranks), play)
}

/// Launches on this rank, with slices of the caller or registered ones.
fn launch(executor: &Executor, x: &mut PreparedPlan, counts: &Counts, is_shared: bool) -> Result<(), Error> {
    let rank = executor.rank() as usize;
    let expected = output(counts, rank);
    let (input, mut found) = (input(counts, rank), vec![FILL; expected.len()]);
    if is_shared {
        let mut memory = executor.alloc::<i32>(input.len() + found.len())?;
        memory[..input.len()].copy_from_slice(&input);
        let (from, to) = memory.split_at_mut(input.len());
        to.fill(FILL);
        x.launch_counted(from, to, &counts[rank])?;
        found.copy_from_slice(to);
    } else {
        x.launch_counted(&input, &mut found, &counts[rank])?;
    }
    assert_eq!(found, expected, "rank {rank}: {counts:?}");
    Ok(())
}

fn random(ranks: u32, max: i64, seed: u64) -> Counts {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // A third of the parts are empty.
        if state.is_multiple_of(3) { 0 } else { ((state >> 8) % (max as u64 + 1)) as i64 }
    };
    (0..ranks).map(|_| (0..ranks).map(|_| next()).collect()).collect()
}

#[test]
fn every_table_of_two_ranks_arrives() {
    for (name, plan) in plans(2, 1) {
        for seed in seeds(1) {
            println!("{name}, MSCCLPP_SEED={seed}");
            on_nodes(2, 1, seed, |executor| {
                let mut x = executor.prepare(&plan, Message::of::<i32>(2 * 3)).expect("a plan");
                for table in 0..4_i64.pow(4) {
                    let entry = |at: u32| table / 4_i64.pow(at) % 4;
                    let counts = vec![vec![entry(0), entry(1)], vec![entry(2), entry(3)]];
                    launch(&executor, &mut x, &counts, false).expect("counts within the maximum");
                }
            });
        }
    }
}

#[test]
fn random_tables_arrive_between_nodes() {
    for (ranks, per_node) in SHAPES {
        for (name, plan) in plans(ranks, per_node) {
            for seed in seeds(1) {
                println!("{name}, {ranks} ranks, {per_node} per node, MSCCLPP_SEED={seed}");
                on_nodes(ranks, per_node, seed, |executor| {
                    // Longer parts than a message has, and short ones.
                    for max in [2, 150_000] {
                        let mut x = executor.prepare(&plan, Message::of::<i32>(ranks as usize * max)).expect("a plan");
                        for number in 0..if max == 2 { 20 } else { 3 } {
                            let counts = random(ranks, max as i64, 1000 * seed + number + 1);
                            launch(&executor, &mut x, &counts, number.is_multiple_of(2)).expect("counts that fit");
                        }
                    }
                });
            }
        }
    }
}

#[test]
fn overflow_between_nodes_is_one_verdict_and_the_next_launch_follows() {
    let table = || vec![vec![2, 0, 1, 3], vec![0; 4], vec![4, 1, 0, 0], vec![0, 2, 2, 2]];
    for per_node in [1, 2] {
        for (_, plan) in plans(4, per_node) {
            on_nodes(4, per_node, 1, |executor| {
                let mut x = executor.prepare(&plan, Message::of::<i32>(16)).expect("a plan");
                for _ in 0..3 {
                    launch(&executor, &mut x, &table(), false).expect("within the maximum");
                    let rank = executor.rank() as usize;
                    let mut output = vec![FILL; if rank == 0 { 5 } else { 16 }];
                    let found = x.launch_counted(&input(&table(), rank), &mut output, &table()[rank]);
                    let limit = CountLimit::Output;
                    let overflow = CountOverflow { rank: 0, limit, demand: 6, room: 5, peer: 2, part: 4 };
                    assert_eq!(found, Err(Error::CountOverflow(overflow)), "rank {rank}");
                    assert!(output.iter().all(|element| *element == FILL), "rank {rank}: {output:?}");
                    for wrong in [-1, 5, i64::MAX] {
                        let mut counts = table();
                        counts[3][1] = wrong;
                        let found = x.launch_counted(&[1; 16], &mut output, &counts[rank]);
                        let limit = CountLimit::Entry;
                        let overflow = CountOverflow { rank: 3, limit, demand: wrong, room: 4, peer: 1, part: wrong };
                        assert_eq!(found, Err(Error::CountOverflow(overflow)), "rank {rank}");
                        assert!(output.iter().all(|element| *element == FILL), "rank {rank}: {output:?}");
                    }
                }
            });
        }
    }
}

#[test]
fn late_rank_of_another_node_is_waited_for() {
    for (_, plan) in plans(4, 2) {
        on_nodes(4, 2, 1, |executor| {
            let mut x = executor.prepare(&plan, Message::of::<i32>(4 * 100)).expect("a plan");
            for number in 0..3 {
                let mut counts = random(4, 100, number + 1);
                counts[1] = vec![0; 4];
                if executor.rank() == 1 {
                    std::thread::sleep(Duration::from_millis(100));
                }
                launch(&executor, &mut x, &counts, false).expect("within the maximum");
            }
        });
    }
}

#[test]
fn rank_that_never_comes_is_named_on_all_nodes() {
    let (_, plan) = &plans(4, 2)[0];
    let done = Barrier::new(4);
    let errors = on_nodes(4, 2, 1, |executor| {
        let mut x = executor.prepare(plan, Message::of::<i32>(16)).expect("a plan");
        executor.set_timeout(Duration::from_secs(1)).expect("no call is under way");
        let error = match executor.rank() {
            1 => None,
            _ => Some(x.launch_counted(&[1_i32; 4], &mut [0; 16], &[1_i32; 4]).expect_err("rank 1 never comes")),
        };
        done.wait();
        error
    });
    for error in errors.into_iter().flatten() {
        assert!(error.to_string().contains("rank 1"), "{error}");
    }
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn tables_arrive_on_ucx() {
    for (ranks, per_node) in [(2, 1), (4, 2)] {
        let nodes: Vec<u32> = (0..ranks).map(|rank| rank / per_node).collect();
        for (name, plan) in plans(ranks, per_node) {
            println!("{name}, {ranks} ranks, {per_node} per node");
            on_threads(Bootstrap::local(ranks), |bootstrap: Bootstrap| {
                let executor = executor(bootstrap, 60, &nodes, ucx()).expect("a session");
                let mut x = executor.prepare(&plan, Message::of::<i32>(ranks as usize * 150_000)).expect("a plan");
                for number in 0..6 {
                    let counts = random(ranks, 150_000, number + 1);
                    launch(&executor, &mut x, &counts, number.is_multiple_of(2)).expect("counts that fit");
                }
            });
        }
    }
}
