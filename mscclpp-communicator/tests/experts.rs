//! Expert parallelism: tokens reach their experts, and results are those of a computation on one rank.

use crate::ranks::on_ranks;
use half::{bf16, f16};
use mscclpp_communicator::{Communicator, RowElement};
use mscclpp_exec::Error;
use proptest::prelude::*;

/// Multiplies the rows of each expert of a rank by the number of the expert plus 1.
fn multiply<T: RowElement>(comm: &Communicator, rows: &mut [T], counts: &[usize], hidden: usize) {
    let first = comm.rank() as usize * counts.len();
    let mut rows = rows.chunks_exact_mut(hidden);
    for (expert, count) in counts.iter().enumerate() {
        for row in rows.by_ref().take(*count) {
            row.iter_mut().for_each(|x| *x = T::from_f32(x.to_f32() * (first + expert + 1) as f32));
        }
    }
}

#[test]
fn tokens_reach_their_experts_in_order() {
    on_ranks(2, |comm| {
        let is_first = comm.rank() == 0;
        let (tokens, experts, weights) = match is_first {
            true => ([2.0_f32, 4.0], [0_i64, 3, 3, -1], [0.5, 0.5, 1.0, 7.0]),
            false => ([8.0, 16.0], [1, 2, 3, 0], [0.25, 0.75, 0.5, 0.5]),
        };
        let mut arrived = comm.dispatch(&tokens, &experts, 1, 4).expect("dispatch");
        assert_eq!(arrived.counts, if is_first { [2, 1] } else { [1, 3] });
        assert_eq!(arrived.rows, if is_first { vec![2.0, 16.0, 8.0] } else { vec![8.0, 2.0, 4.0, 16.0] });
        multiply(comm, &mut arrived.rows, &arrived.counts, 1);
        let results = comm.combine(&arrived.rows, &weights, &arrived.route).expect("combine");
        assert_eq!(results, if is_first { [5.0, 16.0] } else { [22.0, 40.0] });
    });
}

/// Tokens, choices and weights of a rank; the second rank has no tokens.
fn tokens_of<T: RowElement>(rank: u32, hidden: usize, top_k: usize, num_experts: usize, seed: u64) -> Parts<T> {
    let mut state = seed.wrapping_add(u64::from(rank) << 32);
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let count = if rank == 1 { 0 } else { 1 + next(9) as usize };
    let tokens = (0..count * hidden).map(|_| T::from_f32(next(1000) as f32 / 333.0 - 1.5)).collect();
    let experts = (0..count * top_k).map(|_| next(num_experts as u64 + 1) as i64 - 1).collect();
    (tokens, experts, (0..count * top_k).map(|_| next(1000) as f32 / 997.0).collect())
}

type Parts<T> = (Vec<T>, Vec<i64>, Vec<f32>);

fn equal_those_of_one_rank<T: RowElement + PartialEq + std::fmt::Debug>(ranks: u32, top_k: usize, seed: u64) {
    let (hidden, num_experts) = (5, 3 * ranks as usize);
    on_ranks(ranks, |comm| {
        let (tokens, experts, weights) = tokens_of::<T>(comm.rank(), hidden, top_k, num_experts, seed);
        let mut arrived = comm.dispatch(&tokens, &experts, hidden, num_experts).expect("dispatch");
        multiply(comm, &mut arrived.rows, &arrived.counts, hidden);
        let results = comm.combine(&arrived.rows, &weights, &arrived.route).expect("combine");
        let mut expected = Vec::new();
        for (token, row) in tokens.chunks_exact(hidden).enumerate() {
            for x in row {
                let choices = token * top_k..(token + 1) * top_k;
                let sum = choices.filter(|choice| experts[*choice] >= 0).fold(0.0_f32, |sum, choice| {
                    sum + weights[choice] * T::from_f32(x.to_f32() * (experts[choice] + 1) as f32).to_f32()
                });
                expected.push(T::from_f32(sum));
            }
        }
        assert!(results == expected, "seed {seed}, rank {}: {results:?}, expected {expected:?}", comm.rank());
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 10 } else { 100 }, ..ProptestConfig::default() })]
    #[test]
    fn results_equal_those_of_one_rank(ranks in 1..6_u32, top_k in 1..4_usize, seed: u64) {
        equal_those_of_one_rank::<f32>(ranks, top_k, seed);
        equal_those_of_one_rank::<bf16>(ranks, top_k, seed);
        equal_those_of_one_rank::<f16>(ranks, top_k, seed);
    }
}

#[test]
fn wrong_arguments_are_reported_before_rows_travel() {
    on_ranks(2, |comm| {
        let message = |result: Result<_, Error>| result.map(|_| ()).expect_err("an error").to_string();
        let call = |tokens: &[f32], experts: &[i64], hidden, num_experts| {
            message(comm.dispatch(tokens, experts, hidden, num_experts))
        };
        let rank = comm.rank();
        for (error, expected) in [
            (call(&[0.0; 5], &[0; 2], 2, 4), "the list of tokens has 5 elements, expected rows of 2 elements"),
            (
                call(&[0.0; 4], &[0; 3], 2, 4),
                "the list of experts has 3 elements, expected as many for each of 2 tokens",
            ),
            (call(&[0.0; 4], &[0; 2], 2, 3), "the set of experts has 3 elements, expected as many on each of 2 ranks"),
            (
                call(&[0.0; 4], &[0, 4], 2, 4),
                "the list of experts has 2 elements, expected numbers of 0 to 3, or -1 for none, found 4 for token 1",
            ),
        ] {
            assert_eq!(error, format!("dispatch of rank {rank}: {expected}"));
        }
        let arrived = comm.dispatch(&[1.0_f32; 2], &[0], 2, 2).expect("dispatch");
        let error = comm.combine(&[1.0_f32], &[1.0], &arrived.route).map(|_| ()).expect_err("too few rows").to_string();
        assert!(error.contains("those of the dispatch"), "{error}");
        comm.combine(&arrived.rows, &[1.0], &arrived.route).expect("combine");
    });
}
