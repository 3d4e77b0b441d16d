//! The path between nodes, on one node.

use super::*;

/// Runs a function on a thread for each of two ranks.
fn on_ranks(rank: impl Fn(&Communicator) + Sync) {
    std::thread::scope(|scope| {
        for comm in Communicator::local(2).expect("ranks") {
            let rank = &rank;
            scope.spawn(move || rank(&comm));
        }
    });
}

#[test]
fn rounds_have_parts_of_any_lengths() {
    on_ranks(|comm| {
        let me = u64::from(comm.rank());
        // 16 MiB for two ranks: parts of 3 million elements of 8 bytes need three rounds.
        for (zero, one) in [([1, 2_999_999], [0, 0]), ([3, 3], [3, 3]), ([0, 2], [1, 0])] {
            let counts: [usize; 2] = if me == 0 { zero } else { one };
            let input: Vec<u64> = (0..counts.iter().sum::<usize>() as u64).map(|index| 2 * index + me).collect();
            let mut elements = Vec::new();
            let parts = Parts { input: &input, counts: &counts, expected: None };
            let found = comm.exchange_in_calls(parts, &mut Output::Growing(&mut elements)).expect("it is there");
            assert_eq!(found, [zero[comm.rank() as usize], one[comm.rank() as usize]]);
            let begin = |counts: [usize; 2]| if me == 0 { 0 } else { counts[0] as u64 };
            let part = |of: u64, counts: [usize; 2]| {
                (0..counts[me as usize] as u64).map(move |index| 2 * (begin(counts) + index) + of)
            };
            assert!(elements.iter().copied().eq(part(0, zero).chain(part(1, one))));
        }
    });
}

#[test]
fn refusal_of_a_rank_is_the_same_error_of_all_ranks() {
    on_ranks(|comm| {
        let (input, counts) = ([1_u32; 5], [2, 3]);
        let mut output = [9; 5];
        let parts = Parts { input: &input, counts: &counts, expected: None };
        let found = comm.exchange_in_calls(parts, &mut Output::Fixed(&mut output));
        let overflow = CountOverflow { rank: 1, limit: CountLimit::Output, demand: 6, room: 5, peer: 0, part: 3 };
        assert_eq!(found, Err(Error::CountOverflow(overflow)));
        assert_eq!(output, [9; 5]);
        let parts = Parts { expected: Some(&[2, 2]), ..parts };
        let found = comm.exchange_in_calls(parts, &mut Output::Fixed(&mut [0; 6]));
        let error = found.expect_err("rank 1 receives 3 elements of each rank").to_string();
        assert_eq!(error, "all_to_all_v: rank 0 sent 12 bytes to rank 1, which expected 8");
    });
}
