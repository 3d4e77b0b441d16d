//! Plans whose sizes are counts, on the CPU: results are those of a naive exchange, for all tables of few ranks and random ones of many.

use mscclpp_algorithms as algorithms;
use mscclpp_base::error::{CountLimit, CountOverflow};
use mscclpp_core::plan::Plan;
use mscclpp_exec::cpu::{Executor, Options, Schedule};
use mscclpp_exec::{Element, Error, Message};

/// Value of elements that nothing writes.
const FILL: i32 = -7;

fn plans(ranks: u32) -> Vec<Plan> {
    let algorithms = algorithms::counted().iter();
    algorithms.map(|algorithm| algorithm.plan(algorithm.spec(ranks, ranks), &[]).expect("a right plan")).collect()
}

/// Returns the inputs for a table: element k of what s has for r is 100 s + 10 r + k.
fn inputs(counts: &[Vec<i64>]) -> Vec<Vec<i32>> {
    let part = |s: usize, r: usize, count: i64| (0..count).map(move |k| (100 * s + 10 * r) as i32 + k as i32);
    let row = |(s, row): (usize, &Vec<i64>)| row.iter().enumerate().flat_map(|(r, count)| part(s, r, *count)).collect();
    counts.iter().enumerate().map(row).collect()
}

/// Returns what a rank receives, followed by `rest` elements of the fill.
fn expected(counts: &[Vec<i64>], rank: usize, rest: usize) -> Vec<i32> {
    let part = |(s, row): (usize, &Vec<i64>)| (0..row[rank]).map(move |k| (100 * s + 10 * rank) as i32 + k as i32);
    let mut all: Vec<i32> = counts.iter().enumerate().flat_map(part).collect();
    all.extend(std::iter::repeat_n(FILL, rest));
    all
}

fn outputs(counts: &[Vec<i64>], rest: usize) -> Vec<Vec<i32>> {
    let sum = |rank: usize| counts.iter().map(|row| row[rank] as usize).sum::<usize>();
    (0..counts.len()).map(|rank| vec![FILL; sum(rank) + rest]).collect()
}

fn run(prepared: &mut mscclpp_exec::cpu::PreparedPlan, counts: &[Vec<i64>], rest: usize) {
    let mut found = outputs(counts, rest);
    prepared.launch_counted(&inputs(counts), &mut found, counts).unwrap_or_else(|error| panic!("{counts:?}: {error}"));
    for (rank, found) in found.iter().enumerate() {
        assert_eq!(*found, expected(counts, rank, rest), "{counts:?}, rank {rank}");
    }
}

fn s() -> Vec<Vec<i64>> {
    vec![vec![2, 0, 1, 3], vec![0, 0, 0, 0], vec![4, 1, 0, 0], vec![0, 2, 2, 2]]
}

#[test]
fn parts_arrive_one_after_the_other() {
    for plan in plans(4) {
        let mut prepared = Executor::new(4).prepare(&plan, Message::of::<i32>(16)).expect("a plan");
        let mut found = outputs(&s(), 2);
        prepared.launch_counted(&inputs(&s()), &mut found, &s()).expect("counts within the maximum");
        assert_eq!(found[0], [0, 1, 200, 201, 202, 203, FILL, FILL]);
        assert_eq!(found[1], [210, 310, 311, FILL, FILL]);
        assert_eq!(found[2], [20, 320, 321, FILL, FILL]);
        assert_eq!(found[3], [30, 31, 32, 330, 331, FILL, FILL]);
    }
}

#[test]
fn counts_change_from_launch_to_launch() {
    let transposed: Vec<Vec<i64>> = (0..4).map(|r| s().iter().map(|row| row[r]).collect()).collect();
    for plan in plans(4) {
        let mut prepared = Executor::new(4).prepare(&plan, Message::of::<i32>(16)).expect("a plan");
        for counts in [s(), vec![vec![0; 4]; 4], transposed.clone()] {
            run(&mut prepared, &counts, 3);
        }
    }
}

#[test]
fn overflow_is_the_same_verdict_everywhere_and_moves_nothing() {
    let launch = |prepared: &mut mscclpp_exec::cpu::PreparedPlan, counts: &[Vec<i64>], room: usize| {
        let mut outputs = vec![vec![FILL; room]; 4];
        let result = prepared.launch_counted(&vec![vec![1_i32; 16]; 4], &mut outputs, counts);
        assert!(result.is_ok() || outputs.iter().flatten().all(|element| *element == FILL), "{counts:?}");
        result
    };
    for plan in plans(4) {
        let mut prepared = Executor::new(4).prepare(&plan, Message::of::<i32>(16)).expect("a plan");
        let overflow = CountOverflow { rank: 0, limit: CountLimit::Output, demand: 6, room: 5, peer: 2, part: 4 };
        assert_eq!(launch(&mut prepared, &s(), 5), Err(Error::CountOverflow(overflow)));
        assert_eq!(launch(&mut prepared, &s(), 6), Ok(()));
        for wrong in [-1, 5, (1 << 32) + 1, i64::MIN, i64::MAX] {
            let mut counts = s();
            counts[3][1] = wrong;
            let overflow =
                CountOverflow { rank: 3, limit: CountLimit::Entry, demand: wrong, room: 4, peer: 1, part: wrong };
            assert_eq!(launch(&mut prepared, &counts, 16), Err(Error::CountOverflow(overflow)));
        }
        run(&mut prepared, &s(), 0);
        let short = vec![vec![0_i32; 5]; 4];
        let error = prepared.launch_counted(&short, &mut vec![vec![0; 16]; 4], &s()).expect_err("input of 5");
        assert!(error.to_string().contains("6 elements for the input of rank 0, which has room for 5"), "{error}");
    }
}

#[test]
fn counts_are_required_of_plans_that_have_them_only() {
    let plan = &plans(2)[0];
    let mut prepared = Executor::new(2).prepare(plan, Message::of::<i32>(4)).expect("a plan");
    let error = prepared.launch(&[[0_i32; 4]; 2], &mut [[0; 4]; 2]).expect_err("no counts");
    assert!(error.to_string().contains("takes counts: call `launch_counted`"), "{error}");
    let error = prepared.launch_counted(&[[0_i32; 4]; 2], &mut [[0; 4]; 2], &[vec![0_i64; 2], vec![0]]);
    assert_eq!(error, Err(Error::CountRow { rank: 1, expected: 2, found: 1 }));
    let pull = algorithms::find("alltoall_pull").expect("it is built in");
    let plan = pull.plan(pull.spec(2, 2), &[]).expect("a plan");
    let mut prepared = Executor::new(2).prepare(&plan, Message::of::<i32>(4)).expect("a plan");
    let error = prepared.launch_counted(&[[0_i32; 4]; 2], &mut [[0; 4]; 2], &[[1_i32; 2]; 2]).expect_err("no counts");
    assert!(error.to_string().contains("has no counts: call `launch`"), "{error}");
}

/// Calls a function with every table of counts up to a maximum.
fn for_tables(ranks: usize, max: i64, mut each: impl FnMut(&[Vec<i64>])) {
    let mut counts = vec![vec![0; ranks]; ranks];
    loop {
        each(&counts);
        // The next number in the base of max + 1; after the last one all are 0 again.
        let mut carry = true;
        for count in counts.iter_mut().flatten() {
            if carry {
                *count = (*count + 1) % (max + 1);
                carry = *count == 0;
            }
        }
        if carry {
            return;
        }
    }
}

#[test]
fn every_table_of_few_ranks_is_exchanged() {
    for (ranks, max) in [(2, 3), (3, 2)] {
        for plan in plans(ranks as u32) {
            let message = Message::of::<i32>(ranks * max as usize);
            let mut prepared = Executor::new(ranks as u32).prepare(&plan, message).expect("a plan");
            for_tables(ranks, max, |counts| run(&mut prepared, counts, 1));
        }
    }
}

/// Checks an all-to-all-v plan with random tables of counts.
pub(crate) fn exchanges_random_tables(plan: &Plan) {
    for seed in 0..4 {
        random::<i32>(std::slice::from_ref(plan), seed, |value| value as i32);
    }
}

/// Launches with random tables of counts and elements of a type.
fn random<T: Element + PartialEq>(plans: &[Plan], seed: u64, element: impl Fn(u64) -> T + Copy) {
    let mut state = seed;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let max = 1 + next(40) as usize;
    for plan in plans {
        let ranks = plan.num_ranks() as usize;
        let schedule = if next(2) == 0 { Schedule::Seeded(seed) } else { Schedule::RoundRobin };
        let options = Options::default().schedule(schedule).parallel_from(0).workers(Some(2));
        let executor = Executor::with_options(ranks as u32, options);
        let mut prepared = executor.prepare(plan, Message::of::<T>(ranks * max)).expect("a plan");
        for _ in 0..3 {
            let counts: Vec<Vec<i64>> = (0..ranks)
                .map(|_| (0..ranks).map(|_| next(max as u64 + 1).saturating_sub(next(9)) as i64).collect())
                .collect();
            let value = |s: usize, r: usize, k: i64| element((s * 89 + r * 31) as u64 + k as u64);
            let part = |s: usize, r: usize| (0..counts[s][r]).map(move |k| value(s, r, k));
            let inputs: Vec<Vec<T>> = (0..ranks).map(|s| (0..ranks).flat_map(|r| part(s, r)).collect()).collect();
            let expected: Vec<Vec<T>> =
                (0..ranks).map(|r| (0..ranks).flat_map(|s| part(s, r)).chain([element(77)]).collect()).collect();
            let mut outputs: Vec<Vec<T>> = expected.iter().map(|row| vec![element(77); row.len()]).collect();
            prepared.launch_counted(&inputs, &mut outputs, &counts).expect("counts within the maximum");
            assert!(outputs == expected, "seed {seed}, {ranks} ranks: {counts:?}");
        }
    }
}

#[test]
fn random_tables_of_many_ranks_are_exchanged() {
    let seed = std::env::var("MSCCLPP_FIRST").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("seed {seed}");
    for ranks in [2, 3, 5, 8, 16] {
        let plans = plans(ranks);
        random::<u8>(&plans, seed, |value| value as u8);
        random::<f32>(&plans, seed + 1, |value| value as f32);
        random::<f64>(&plans, seed + 2, |value| value as f64);
    }
}
