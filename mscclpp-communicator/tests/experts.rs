//! Expert parallelism: tokens reach their experts, and results are those of a computation on one rank.

use crate::ranks::on_ranks;
use half::{bf16, f16};
use mscclpp_communicator::{Communicator, ExpertShape, RowElement, RowLayout, quantize_rows};
use mscclpp_exec::Error;
use mscclpp_exec::error::{CountLimit, ErrorKind};
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
        ] {
            assert_eq!(error, format!("dispatch of rank {rank}: {expected}"));
        }
        let arrived = comm.dispatch(&[1.0_f32; 2], &[0], 2, 2).expect("dispatch");
        let error = comm.combine(&[1.0_f32], &[1.0], &arrived.route).map(|_| ()).expect_err("too few rows").to_string();
        assert!(error.contains("those of the dispatch"), "{error}");
        comm.combine(&arrived.rows, &[1.0], &arrived.route).expect("combine");
    });
}

/// The rows of each expert of a rank: of rank 0, 1, …, each in the order of its tokens.
fn rows_of_experts(all: &[Parts<f32>], rank: usize, shape: &ExpertShape) -> Vec<Vec<Vec<f32>>> {
    let each = shape.num_experts / all.len();
    let of = |expert: usize, (tokens, experts, _): &Parts<f32>| {
        let tokens = tokens.chunks(shape.hidden).zip(experts.chunks(shape.top_k));
        let chosen = tokens.filter(|(_, chosen)| chosen.contains(&((rank * each + expert) as i64)));
        chosen.flat_map(|(row, _)| row.to_vec()).collect::<Vec<f32>>()
    };
    (0..each).map(|expert| all.iter().map(|parts| of(expert, parts)).collect()).collect()
}

#[test]
fn layouts_put_rows_where_they_say() {
    let shape = ExpertShape { hidden: 128, num_experts: 6, top_k: 2, max_tokens: 9 };
    on_ranks(3, |comm| {
        let (rank, each) = (comm.rank() as usize, 2);
        let all: Vec<Parts<f32>> = (0..3)
            .map(|rank| {
                let mut parts = tokens_of::<f32>(rank, 128, 2, 6, 5);
                // Choices of a token are different.
                parts.1.chunks_mut(2).filter(|pair| pair[0] == pair[1]).for_each(|pair| pair[1] = -1);
                parts
            })
            .collect();
        let (tokens, experts, weights) = &all[rank];
        let expected = rows_of_experts(&all, rank, &shape);
        let counts = |rows: &[f32]| rows.len() / 128;
        let by_expert: Vec<usize> = expected.iter().map(|rows| counts(&rows.concat())).collect();
        let padded = |mut rows: Vec<f32>, places: usize| {
            rows.resize(places * 128, 0.0);
            rows
        };
        let simple = comm.dispatch(tokens, experts, 128, 6).expect("dispatch");
        let sums = comm.combine(&simple.rows, weights, &simple.route).expect("combine");
        for layout in [RowLayout::Slots, RowLayout::ByExpert { alignment: 4 }, RowLayout::ByRank] {
            let found = comm.dispatch_in(tokens, experts, &shape, layout).expect("dispatch");
            let rows: Vec<f32> = match layout {
                RowLayout::Slots => expected.iter().flat_map(|rows| padded(rows.concat(), 27)).collect(),
                RowLayout::ByRank => (0..3)
                    .flat_map(|source| {
                        (0..each).flat_map(|expert| expected[expert][source].clone()).collect::<Vec<_>>()
                    })
                    .collect(),
                _ => expected
                    .iter()
                    .flat_map(|rows| padded(rows.concat(), counts(&rows.concat()).next_multiple_of(4)))
                    .collect(),
            };
            assert!(found.rows == rows, "{layout:?}");
            match layout {
                RowLayout::ByRank => {
                    let of = |at: usize| counts(&expected[at % each][at / each]);
                    assert_eq!(found.counts, (0..6).map(of).collect::<Vec<_>>());
                }
                _ => assert_eq!(found.counts, by_expert, "{layout:?}"),
            }
            assert_eq!(comm.combine(&found.rows, weights, &found.route).expect("combine"), sums, "{layout:?}");

            // In e4m3, where a row and its scale have the same place.
            let (quantized, scales) = comm.dispatch_quantized(tokens, experts, &shape, layout).expect("dispatch");
            let (on_one_rank, expected_scales) = quantize_rows(&rows);
            assert_eq!((&quantized.rows, &quantized.counts), (&on_one_rank, &found.counts));
            let is_filled = |place: usize| rows[place * 128..][..128].iter().any(|x| *x != 0.0);
            assert!(
                (0..scales.len())
                    .all(|place| scales[place] == if is_filled(place) { expected_scales[place] } else { 0.0 })
            );
            assert_eq!(quantized.route.clone(), quantized.route);
            comm.combine(&found.rows, weights, &quantized.route).expect("results of quantized rows");
        }
    });
}

#[test]
fn refused_tokens_are_the_same_error_on_all_ranks() {
    let shape = ExpertShape { hidden: 1, num_experts: 4, top_k: 2, max_tokens: 2 };
    on_ranks(2, |comm| {
        for (experts, limit, place) in [
            (vec![0, 1, 2, 3, -1, -1], CountLimit::Tokens, (3, 2, 0)),
            (vec![0, 1, 2, 4], CountLimit::Choice, (1, 4, 1)),
            (vec![i64::MIN, 1, 2, 2], CountLimit::Choice, (0, 4, 0)),
            (vec![1, 3, 2, 2], CountLimit::Choice, (1, 4, 1)),
        ] {
            let experts = if comm.rank() == 1 { experts } else { vec![3, 0] };
            let tokens = vec![1.0_f32; experts.len() / 2];
            let found = comm.dispatch_in(&tokens, &experts, &shape, RowLayout::Slots);
            let Err(Error::CountOverflow(found)) = found else { panic!("expected an overflow, found {found:?}") };
            assert_eq!((found.rank, found.limit, (found.demand, found.room, found.part)), (1, limit, place));
        }
        let wrong = if comm.rank() == 1 { 4 } else { 0 };
        let found = comm.dispatch(&[1.0_f32], &[wrong], 1, 4).map(|_| ()).expect_err("no expert").to_string();
        let expected = "choice 0 of token 0 of rank 1 is no expert, or repeats another choice of the token, expected different \
                        numbers from 0 to 3, or -1 for none; no data was moved: correct the choices";
        assert_eq!(found, expected);
        let wrong = comm.dispatch_in(&[1.0_f32], &[0, 1], &shape, RowLayout::ByExpert { alignment: 0 });
        assert!(wrong.map(|_| ()).expect_err("no alignment").to_string().contains("expected 1 to 65536 rows"));
        // The next call.
        let found = comm.dispatch_in(&[2.0_f32], &[0, 3], &shape, RowLayout::ByRank).expect("dispatch");
        assert_eq!((found.rows, found.counts.len()), (vec![2.0, 2.0], 4));
    });
}

#[test]
fn ranks_with_other_numbers_of_experts_are_reported() {
    on_ranks(2, |comm| {
        let num_experts = 4 + 2 * comm.rank() as usize;
        let error = comm.dispatch(&[1.0_f32], &[0], 1, num_experts).map(|_| ()).expect_err("different calls");
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
    });
}

#[test]
fn rows_of_any_length_may_be_none() {
    on_ranks(2, |comm| {
        let arrived = comm.dispatch::<f32>(&[], &[], usize::MAX, 2).expect("dispatch");
        assert_eq!((arrived.rows, arrived.counts), (vec![], vec![0]));
        assert!(comm.combine::<f32>(&[], &[], &arrived.route).expect("combine").is_empty());
    });
}

#[test]
fn sending_halves_do_not_wait() {
    on_ranks(2, |comm| {
        let dispatch = |value: f32| comm.start(move |comm| comm.dispatch(&[value], &[1], 1, 2)).expect("started");
        // A result for which no caller waits does not disturb the next call.
        drop(dispatch(7.0));
        let pending = dispatch(comm.rank() as f32);
        let computed: u64 = (0..1000_u64).sum();
        let arrived = pending.wait().expect("dispatch");
        assert_eq!(arrived.rows, if comm.rank() == 1 { vec![0.0, 1.0] } else { vec![] });
        let results = arrived.rows.iter().map(|x| x + computed as f32).collect::<Vec<_>>();
        let route = arrived.route;
        let sums = comm.start(move |comm| comm.combine(&results, &[2.0], &route)).expect("started").wait();
        assert_eq!(sums.expect("combine"), [2.0 * (comm.rank() as f32 + 499_500.0)]);
    });
}

#[test]
fn ranks_continue_with_the_experts_of_those_that_remain() {
    let leaves = 2;
    let body = |comm: Communicator| {
        let step = |comm: &Communicator, num_experts: usize| -> Result<(), Error> {
            let ranks = comm.num_ranks() as usize;
            let (tokens, experts, weights) = tokens_of::<f32>(comm.rank(), 4, 2, num_experts, 3);
            let mut arrived = comm.dispatch(&tokens, &experts, 4, num_experts)?;
            assert_eq!(arrived.counts.len(), num_experts / ranks);
            multiply(comm, &mut arrived.rows, &arrived.counts, 4);
            let sums = comm.combine(&arrived.rows, &weights, &arrived.route)?;
            for (at, sum) in sums.iter().enumerate() {
                let expected = (at / 4 * 2..at / 4 * 2 + 2)
                    .filter(|choice| experts[*choice] >= 0)
                    .fold(0.0, |sum, choice| sum + weights[choice] * (tokens[at] * (experts[choice] + 1) as f32));
                assert_eq!(*sum, expected);
            }
            Ok(())
        };
        step(&comm, 8).expect("all ranks");
        if comm.rank() == leaves {
            // Between a dispatch and its combine.
            comm.dispatch(&[1.0_f32; 4], &[0], 4, 8).expect("dispatch");
            return;
        }
        let arrived = comm.dispatch(&[1.0_f32; 4], &[5], 4, 8);
        let lost = arrived.and_then(|arrived| comm.combine(&arrived.rows, &[1.0], &arrived.route));
        let lost = lost.expect_err("a lost rank");
        // All that follows has the same cause.
        let again = comm.dispatch(&[1.0_f32; 4], &[0], 4, 8).map(|_| ()).expect_err("a lost rank");
        assert_eq!((lost.lost(), again.lost()), (vec![leaves], vec![leaves]), "{lost}; {again}");
        // The experts of three ranks, two of each.
        let fewer = comm.shrink(&lost.lost()).expect("the others");
        assert_eq!(fewer.num_ranks(), 3);
        step(&fewer, 6).expect("the ranks that remain");
    };
    std::thread::scope(|scope| {
        let options = mscclpp_bootstrap::Options::default().timeout(std::time::Duration::from_secs(120));
        for comm in Communicator::local_with_options(4, options).expect("ranks") {
            scope.spawn(|| body(comm));
        }
    });
}

#[test]
fn unusual_choices_have_the_results_of_their_sums() {
    on_ranks(2, |comm| {
        let first = comm.rank() == 0;
        // More choices than experts, one of them several times; no choice at all; a weight that is no number.
        let (tokens, experts): (&[f32], &[i64]) = match first {
            true => (&[1.0, 2.0], &[1, 1, 0, 1, -1, -1, -1, -1]),
            false => (&[4.0], &[0, -1, 0, 0]),
        };
        let weights =
            if first { vec![1.0, 2.0, 4.0, 8.0, f32::NAN, 1.0, 1.0, 1.0] } else { vec![1.0, f32::NAN, 0.5, 0.0] };
        let arrived = comm.dispatch(tokens, experts, 1, 2).expect("dispatch");
        assert_eq!(arrived.rows, if first { vec![1.0, 4.0, 4.0, 4.0] } else { vec![1.0; 3] });
        let sums = comm.combine(&arrived.rows, &weights, &arrived.route).expect("combine");
        assert_eq!(sums, if first { vec![15.0, 0.0] } else { vec![6.0] });
        let arrived = comm.dispatch(tokens, experts, 1, 2).expect("dispatch");
        let weights = vec![f32::NAN; weights.len()];
        let sums = comm.combine(&arrived.rows, &weights, &arrived.route).expect("combine");
        assert!(sums[0].is_nan() && sums.get(1).is_none_or(|sum| *sum == 0.0), "{sums:?}");
    });
}

#[test]
fn dispatches_in_flight_are_combined_in_any_order() {
    on_ranks(3, |comm| {
        let send = |token: f32, expert: i64| comm.dispatch(&[token], &[expert], 1, 3).expect("dispatch");
        let own = comm.rank() as f32 + 1.0;
        // The first one is never combined.
        let (_, one, two) = (send(100.0, 0), send(own, 0), send(10.0 * own, (i64::from(comm.rank()) + 1) % 3));
        let message = |result: Result<Vec<f32>, Error>| result.expect_err("other rows").to_string();
        if comm.rank() == 0 {
            assert!(message(comm.combine(&one.rows, &[1.0], &two.route)).contains("expected 1, those of the dispatch"));
        }
        let [two, one] =
            [two, one].map(|arrived| comm.combine(&arrived.rows, &[2.0], &arrived.route).expect("combine"));
        assert_eq!((one, two), (vec![2.0 * own], vec![20.0 * own]));
    });
}

#[test]
fn shapes_that_do_not_fit_are_the_same_error_on_all_ranks() {
    on_ranks(2, |comm| {
        let shape = ExpertShape { hidden: 128, num_experts: 2, top_k: 1, max_tokens: 1 };
        let layout = RowLayout::ByExpert { alignment: 1 };
        let length = |result: Result<(), Error>| match result.expect_err("it does not fit") {
            Error::Length { what, found, .. } => (what, found),
            other => panic!("{other}"),
        };
        // Fewer experts than ranks.
        assert_eq!(length(comm.dispatch(&[1.0_f32], &[0], 1, 1).map(drop)), ("the set of experts", 1));
        // Scales of another number of groups, and rows without whole groups.
        let (rows, scales) = quantize_rows(&[1.0_f32; 128]);
        let scaled = |scales: &[f32], shape: &ExpertShape| {
            length(comm.dispatch_scaled((&rows, scales), &[0], shape, layout).map(drop))
        };
        assert_eq!(scaled(&[1.0; 2], &shape), ("the list of scales", 2));
        assert_eq!(scaled(&scales, &ExpertShape { hidden: 64, ..shape }), ("a row", 64));
        // Rows that fill up those of experts, and slots, that have no addresses.
        let hidden = usize::MAX >> 16;
        let long = ExpertShape { hidden, ..shape };
        let dispatch = |shape: &ExpertShape, layout| length(comm.dispatch_in::<f32>(&[], &[], shape, layout).map(drop));
        assert_eq!(dispatch(&long, RowLayout::ByExpert { alignment: 1 << 16 }), ("a row", hidden));
        let many = ExpertShape { max_tokens: usize::MAX, ..shape };
        assert_eq!(dispatch(&many, RowLayout::Slots), ("the set of tokens", usize::MAX));
        // The next call.
        let (arrived, scales) = comm.dispatch_scaled((&rows, &scales), &[1], &shape, layout).expect("dispatch");
        let expected = if comm.rank() == 1 { 2 } else { 0 };
        assert_eq!((arrived.counts, scales.len(), arrived.rows.len()), (vec![expected], expected, 128 * expected));
    });
}
