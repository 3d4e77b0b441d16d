//! All-to-all with parts of any lengths.

use crate::ranks::on_ranks;
use mscclpp_core::diag::Code;
use mscclpp_exec::Error;
use mscclpp_exec::error::CountLimit;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 20 } else { 200 }, ..ProptestConfig::default() })]
    #[test]
    fn parts_of_any_lengths_arrive(
        ranks in 1..6_u32,
        counts in proptest::collection::vec(prop_oneof![Just(0_usize), 0..9_usize, 0..3000_usize], 25),
    ) {
        let count = |from: u32, to: u32| counts[(from * 5 + to) as usize % counts.len()];
        let part = |from: u32, to: u32| -> Vec<u32> {
            (0..count(from, to) as u32).map(|index| index * 31 + from * 7 + to).collect()
        };
        on_ranks(ranks, |comm| {
            let me = comm.rank();
            let input: Vec<u32> = (0..ranks).flat_map(|to| part(me, to)).collect();
            let own: Vec<_> = (0..ranks).map(|to| count(me, to)).collect();
            let found = comm.all_to_all_v(&input, &own).expect("all_to_all_v");
            for from in 0..ranks {
                assert_eq!(found.counts[from as usize], count(from, me));
                assert_eq!(found.from_rank(from), part(from, me));
            }
            assert_eq!(found.elements.len(), found.counts.iter().sum::<usize>());
        });
    }
}

#[test]
fn equal_parts_arrive() {
    on_ranks(3, |comm| {
        let me = comm.rank();
        for len in [0, 1, 1000] {
            let input: Vec<u32> = (0..3 * len as u32).map(|index| index + 10_000 * me).collect();
            let found = comm.all_to_all_v(&input, &[len; 3]).expect("all_to_all_v");
            assert_eq!(found.counts, [len; 3]);
            for from in 0..3 {
                let sent = (0..len as u32).map(|index| index + me * len as u32 + 10_000 * from);
                assert!(found.from_rank(from).iter().copied().eq(sent));
            }
        }
    });
}

#[test]
fn long_part_arrives() {
    on_ranks(2, |comm| {
        let me = u64::from(comm.rank());
        let long: Vec<u64> = (0..3_000_000).map(|index| index * 2 + me).collect();
        let counts = if me == 0 { [1, 2_999_999] } else { [0, 0] };
        let len = counts.iter().sum();
        let found = comm.all_to_all_v(&long[..len], &counts).expect("all_to_all_v");
        if me == 1 {
            assert_eq!(found.counts, [2_999_999, 0]);
            assert!(found.elements.iter().enumerate().all(|(index, value)| *value == 2 * (index as u64 + 1)));
        } else {
            assert_eq!(found.elements, [0]);
        }
    });
}

#[test]
fn parts_of_other_lengths_than_expected_are_the_same_error_of_all_ranks() {
    on_ranks(3, |comm| {
        let me = comm.rank();
        // Rank r sends r + 1 elements to each rank.
        let (input, counts) = (vec![me; 3 * (me as usize + 1)], [me as usize + 1; 3]);
        let mut output = [9; 7];
        let found = comm.all_to_all_v_into(&input, &counts, &mut output, Some(&[1, 2, 3]));
        assert_eq!(found.expect("the lengths are right"), [1, 2, 3]);
        assert_eq!(output, [0, 1, 1, 2, 2, 2, 9]);
        let expected = if me == 1 { [1, 2, 4] } else { [1, 2, 3] };
        let error =
            comm.all_to_all_v_into(&input, &counts, &mut output, Some(&expected)).expect_err("rank 1 expects more");
        assert_eq!((error.code(), error.rank()), (Code::CallMismatch, Some(1)));
        assert_eq!(error.root_cause().map(|cause| cause.rank), Some(2));
        assert_eq!(error.to_string(), "all_to_all_v: rank 2 sent 12 bytes to rank 1, which expected 16");
        // Calls go on.
        assert_eq!(comm.all_to_all_v(&input, &counts).expect("all_to_all_v").counts, [1, 2, 3]);
        let error = comm.all_to_all_v_into(&input, &counts, &mut output, Some(&[1, 2]));
        let error = error.expect_err("two expected counts").to_string();
        assert_eq!(
            error,
            format!("all_to_all_v of rank {me}: the list of expected counts has 2 elements, expected 3, one per rank")
        );
    });
}

#[test]
fn outputs_that_are_too_short_are_the_same_error_of_all_ranks() {
    let table = [[2, 0, 1, 3], [0, 0, 0, 0], [4, 1, 0, 0], [0, 2, 2, 2]];
    on_ranks(4, |comm| {
        let me = comm.rank() as usize;
        let value = |from: usize, to: usize, k: usize| (100 * from + 10 * to + k) as u64;
        let input: Vec<_> = (0..4).flat_map(|to| (0..table[me][to]).map(move |k| value(me, to, k))).collect();
        // Rank 0 receives 6 elements, the largest part from rank 2.
        for (room, fits) in [(5, false), (6, true), (0, false), (7, true)] {
            let mut output = vec![7; room];
            match comm.all_to_all_v_into(&input, &table[me], &mut output, None) {
                Ok(found) => {
                    assert!(fits);
                    assert_eq!(found, table.map(|row| row[me]));
                    let sent = (0..4).flat_map(|from| (0..table[from][me]).map(move |k| value(from, me, k)));
                    let all: Vec<_> = sent.chain(std::iter::repeat(7)).take(room).collect();
                    assert_eq!(output, all);
                }
                Err(Error::CountOverflow(found)) => {
                    assert!(!fits && output.iter().all(|element| *element == 7));
                    assert_eq!((found.rank, found.limit, found.demand), (0, CountLimit::Output, 6));
                    assert_eq!((found.room, found.peer, found.part), (room as u64, 2, 4));
                }
                Err(error) => panic!("{error}"),
            }
        }
    });
}

/// Lengths of parts grow and shrink from call to call, on registered and other memory.
#[test]
fn parts_of_changing_lengths_arrive() {
    on_ranks(3, |comm| {
        let me = comm.rank() as usize;
        let mut registered = comm.alloc::<u32>(120_000).expect("memory");
        for (call, len) in [0, 1, 9000, 3, 40_000, 0, 5].into_iter().enumerate() {
            let count = |from: usize, to: usize| if (from + to + call).is_multiple_of(3) { len } else { len / 8 };
            let value = |from: usize, to: usize, k: usize| (1000 * from + 300 * to + k) as u32;
            let counts = [0, 1, 2].map(|to| count(me, to));
            let input: Vec<_> = (0..3).flat_map(|to| (0..counts[to]).map(move |k| value(me, to, k))).collect();
            let expected: Vec<_> =
                (0..3).flat_map(|from| (0..count(from, me)).map(move |k| value(from, me, k))).collect();
            let found = comm.all_to_all_v(&input, &counts).expect("all_to_all_v");
            assert_eq!(found.elements, expected);
            registered[1..=input.len()].copy_from_slice(&input);
            let mut output = vec![0; expected.len()];
            let received = [0, 1, 2].map(|from| count(from, me));
            comm.all_to_all_v_into(&registered[1..=input.len()], &counts, &mut output, Some(&received)).expect("equal");
            assert_eq!(output, expected);
        }
    });
}

/// A rank whose output grows does not wait for one whose output does not.
#[test]
fn outputs_of_both_kinds_go_together() {
    on_ranks(2, |comm| {
        let me = comm.rank();
        // Rank 0 sends nothing and receives 3 elements, more than it sends; rank 1 has room for what it receives, and then not.
        let (input, counts) = if me == 0 { (vec![], [0, 0]) } else { (vec![1_u64; 5], [3, 2]) };
        for room in [2, 1] {
            let found = match me {
                0 => comm.all_to_all_v(&input, &counts).map(|found| found.elements),
                _ => {
                    let mut output = vec![0; room];
                    comm.all_to_all_v_into(&input, &counts, &mut output, None).map(|_| output)
                }
            };
            match found {
                Ok(found) => assert_eq!((found, room), (vec![1; if me == 0 { 3 } else { 2 }], 2)),
                Err(error) => {
                    let cause = error.root_cause().map(|cause| cause.rank);
                    assert_eq!((error.rank(), cause, room), (Some(1), Some(1), 1), "{error}");
                }
            }
        }
        comm.barrier().expect("calls go on");
    });
}
