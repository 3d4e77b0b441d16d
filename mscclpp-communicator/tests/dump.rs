//! Analysis of the dumps of several ranks.

use std::path::Path;

use mscclpp_communicator::flight_recorder::{
    Analysis, CallRecord, Dump, FailureRecord, OpRecord, RankRecord, WaitRecord, analyze,
};
use proptest::prelude::*;

fn call(number: u64, request: &str) -> CallRecord {
    CallRecord { number, request: request.into(), at: format!("src/train.rs:{number}0:9"), kernel: None }
}

fn op(rank: u32, block: u32, operation: &str) -> OpRecord {
    OpRecord { rank, block, op: 3, operation: operation.into(), at: Some("src/ring.rs:7:5".into()) }
}

fn wait(rank: u32, released_by: Option<OpRecord>) -> WaitRecord {
    WaitRecord { op: op(rank, 0, "wait"), waits_for: format!("a signal of rank {}", rank + 1), released_by }
}

fn dump(rank: u32, calls: Vec<CallRecord>, waits: Vec<WaitRecord>) -> Dump {
    Dump {
        rank: RankRecord {
            format: 1,
            version: "0".into(),
            job: "7".into(),
            rank,
            num_ranks: 4,
            group: None,
            process: 100 + rank,
        },
        calls,
        failure: Some(FailureRecord { message: format!("rank {rank}: no progress for 30s\nmore"), root_cause: None }),
        state: None,
        waits,
    }
}

/// Analyzes the dumps of one communicator.
fn joined(dumps: &[Dump]) -> Analysis {
    let mut groups = analyze(dumps);
    assert_eq!(groups.len(), 1);
    groups.remove(0)
}

#[test]
fn first_divergence_names_differing_rank() {
    let usual = || vec![call(1, "allreduce"), call(2, "allgather"), call(3, "broadcast")];
    let mut other = usual();
    other[1].request = "alltoall".into();
    let found =
        joined(&[dump(0, usual(), vec![]), dump(1, usual(), vec![]), dump(2, other, vec![]), dump(3, usual(), vec![])]);
    let divergence = found.divergence.as_ref().expect("they differ");
    assert_eq!(divergence.number, 2);
    assert_eq!(divergence.calls[0].1, [0, 1, 3]);
    let (culprit, why) = found.root_cause.clone().expect("one");
    assert_eq!(
        (culprit, why.as_str()),
        (2, "in call 2 it calls alltoall at src/train.rs:20:9, unlike the other ranks")
    );
    assert!(found.to_string().contains("call 2 differs:\n  rank 0, 1, 3: allgather at src/train.rs:20:9\n"), "{found}");
}

#[test]
fn slow_rank_is_named_with_its_last_call() {
    let calls = |count: u64| (1..=count).map(|number| call(number, "allreduce")).collect::<Vec<_>>();
    // The first calls of rank 0 are no longer in its recorder.
    let found =
        joined(&[dump(0, calls(70).split_off(6), vec![]), dump(1, calls(69), vec![]), dump(2, calls(70), vec![])]);
    let (culprit, why) = found.root_cause.expect("one");
    assert_eq!(culprit, 1);
    assert_eq!(why, "it did not make call 70; its last call was allreduce at src/train.rs:690:9");
    assert_eq!(found.missing_dumps, [3]);
}

#[test]
fn wait_chain_ends_at_rank_without_dump() {
    let calls = || vec![call(1, "allreduce")];
    let found = joined(&[
        dump(0, calls(), vec![wait(0, Some(op(1, 0, "signal")))]),
        dump(1, calls(), vec![wait(1, Some(op(2, 0, "signal")))]),
        dump(3, calls(), vec![wait(3, Some(op(0, 0, "signal")))]),
    ]);
    assert_eq!(found.wait_chain.iter().map(|wait| wait.op.rank).collect::<Vec<_>>(), [0, 1]);
    let (culprit, why) = found.root_cause.clone().expect("one");
    assert_eq!(culprit, 2);
    assert!(why.contains("(signal) at src/ring.rs:7:5 would unblock") && why.contains("killed or suspended"), "{why}");
    let text = found.to_string();
    assert!(text.starts_with("4 ranks; dumps of rank 0, 1, 3\nno dump from rank 2\n"), "{text}");
    assert!(text.contains("rank 0: no progress for 30s\n"), "{text}");
}

#[test]
fn cycles_and_chains_are_distinguished() {
    let all = |waits: [Option<OpRecord>; 4]| {
        let dumps: Vec<_> =
            (0..).zip(waits).map(|(rank, by)| dump(rank, vec![call(1, "x")], vec![wait(rank, by)])).collect();
        joined(&dumps)
    };
    let ring = |rank: u32| Some(op((rank + 1) % 4, 0, "signal"));
    let circle = all([ring(0), ring(1), ring(2), ring(3)]);
    assert_eq!(circle.wait_chain.len(), 5);
    assert!(circle.root_cause.expect("one").1.contains("wait-for cycle"));
    let end = all([ring(0), ring(1), None, ring(3)]);
    let (culprit, why) = end.root_cause.expect("one");
    assert_eq!(culprit, 2);
    assert!(why.starts_with("no remaining operation would unblock rank 2 / thread block 0"), "{why}");
    assert_eq!(analyze(&[]), []);
}

#[test]
fn no_rank_is_blamed_without_majority() {
    let calls = |requests: &[&str]| {
        let dumps: Vec<_> =
            (0..).zip(requests).map(|(rank, request)| dump(rank, vec![call(1, request)], vec![])).collect();
        joined(&dumps)
    };
    for requests in [&["a", "b"][..], &["a", "b", "b", "a"], &["a", "a", "b", "c"]] {
        let found = calls(requests);
        assert_eq!(found.divergence.as_ref().expect("they differ").number, 1);
        assert_eq!(found.root_cause, None, "{found}");
        assert!(found.to_string().ends_with("\nno root cause found\n"), "{found}");
    }
    assert_eq!(calls(&["a", "b", "b", "b"]).root_cause.expect("one").0, 0);
}

#[test]
fn call_numbers_ascend_up_to_the_maximum() {
    let last = |number| dump(1, vec![call(number, "a")], vec![]);
    let found = joined(&[dump(0, vec![call(u64::MAX - 1, "a")], vec![]), last(u64::MAX)]);
    assert_eq!(found.divergence.expect("one is behind").number, u64::MAX);
    assert_eq!(joined(&[dump(0, vec![call(u64::MAX, "a")], vec![]), last(u64::MAX)]).divergence, None);
    for numbers in [&[1, 1][..], &[2, 1], &[0]] {
        let calls = numbers.iter().map(|number| call(*number, "a")).collect();
        let error =
            Dump::parse(Path::new("d"), dump(0, calls, vec![]).text().as_bytes()).expect_err("they do not ascend");
        assert!(error.to_string().contains(" after call "), "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_parse_as_dump_or_error(bytes in proptest::collection::vec(any::<u8>(), 0..80), at in any::<prop::sample::Index>(), junk: u8) {
        _ = Dump::parse(Path::new("d"), &bytes);
        let good = dump(2, vec![call(7, "allreduce")], vec![wait(2, Some(op(3, 1, "put"))), wait(1, None)]);
        prop_assert_eq!(&Dump::parse(Path::new("d"), good.text().as_bytes()).expect("it is right"), &good);
        let mut mutant = good.text().into_bytes();
        let index = at.index(mutant.len());
        mutant[index] = junk;
        if let Ok(read) = Dump::parse(Path::new("d"), &mutant) {
            for found in analyze(&[read, good]) {
                _ = found.to_string();
            }
        }
    }
}
