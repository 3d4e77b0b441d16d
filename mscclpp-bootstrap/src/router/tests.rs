use super::*;

fn router(ranks: u32) -> Router {
    let members: Vec<_> = (0..ranks).map(|rank| RankInfo::this(rank, None)).collect();
    Router::new(members.into())
}

fn enter_collective(call: Call, bytes: &[u8]) -> Frame {
    let (place, timeout, bytes) = ("main.rs:1:2".to_owned(), Duration::from_secs(1), ByteBuf::from(bytes));
    Frame::EnterCollective { context: 0, sequence: 0, call, part_of: None, place, group: Vec::new(), timeout, bytes }
}

fn failure(out: &[Delivery]) -> &Error {
    match out {
        [.., Delivery { frame: Frame::Failed(error) | Frame::CommunicatorFailed { error, .. }, .. }] => error,
        other => panic!("no failure in {other:?}"),
    }
}

#[test]
fn last_rank_to_enter_completes_the_call() {
    let (mut router, mut out, now) = (router(3), Vec::new(), Instant::now());
    for rank in [2, 0, 1] {
        assert!(out.is_empty());
        router.route(rank, enter_collective(Call::AllGather, &[rank as u8]), now, &mut out);
    }
    assert_eq!(out[0].to, [0, 1, 2]);
    let parts = (0..3).map(|rank| ByteBuf::from([rank])).collect();
    assert_eq!(out[0].frame, Frame::Gathered { context: 0, sequence: 0, parts });
    assert_eq!(router.next_expiry(), None);
}

#[test]
fn expired_call_reports_missing_ranks() {
    let (mut router, mut out, now) = (router(3), Vec::new(), Instant::now());
    router.route(0, enter_collective(Call::Barrier, &[]), now, &mut out);
    router.route(2, enter_collective(Call::Barrier, &[]), now, &mut out);
    router.expire(now + Duration::from_millis(999), &mut out);
    assert!(out.is_empty());
    router.expire(now + Duration::from_secs(1), &mut out);
    match failure(&out) {
        Error::CollectiveTimeout { missing, waiting, .. } => {
            assert_eq!(missing.iter().map(|member| member.rank).collect::<Vec<_>>(), [1]);
            assert_eq!(waiting[..], [0, 2]);
        }
        other => panic!("{other}"),
    }
}

#[test]
fn different_calls_are_both_reported() {
    let (mut router, mut out, now) = (router(2), Vec::new(), Instant::now());
    router.route(1, enter_collective(Call::Barrier, &[]), now, &mut out);
    router.route(0, enter_collective(Call::Broadcast { root: 1 }, &[]), now, &mut out);
    let text = failure(&out).to_string();
    let [first, second] = ["calls broadcast from rank 1 (call 0) at main.rs:1:2", "calls barrier (call 0)"];
    assert!(text.contains(first) && text.contains(second), "{text}");
}

#[test]
fn mismatch_names_the_rank_that_differs_from_most_in_every_order() {
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]] {
        let (mut router, mut out, now) = (router(4), Vec::new(), Instant::now());
        for rank in order {
            let call = if rank == 1 { Call::Barrier } else { Call::AllGather };
            router.route(rank, enter_collective(call, &[]), now, &mut out);
        }
        assert!(out.is_empty(), "rank 3 may decide");
        router.expire(router.next_expiry().unwrap(), &mut out);
        let Error::Mismatch { first, second, .. } = failure(&out) else { panic!("{out:?}") };
        assert_eq!((first.rank, second.rank), (0, 1));
    }
}

#[test]
fn reports_reach_the_rank_that_asked() {
    let (mut router, mut out, now) = (router(3), Vec::new(), Instant::now());
    router.route(1, Frame::Query { from: 0, context: 5, id: 7, group: vec![] }, now, &mut out);
    assert!(matches!(&out[0], Delivery { to, frame: Frame::Query { from: 1, .. } } if to[..] == [0, 2]));
    let report = Frame::Report { from: 0, to: 1, context: 5, id: 7, bytes: ByteBuf::from([3]) };
    router.route(2, report, now, &mut out);
    assert!(matches!(&out[1], Delivery { to, frame: Frame::Report { from: 2, to: 1, .. } } if to[..] == [1]));
}

#[test]
fn call_without_a_left_rank_fails_in_both_orders() {
    for left_first in [true, false] {
        let (mut router, mut out, now) = (router(2), Vec::new(), Instant::now());
        let steps = [(1, Frame::Leave { rank: 1 }), (0, enter_collective(Call::Barrier, &[]))];
        let order = if left_first { [0, 1] } else { [1, 0] };
        for step in order {
            let (from, frame) = steps[step].clone();
            router.route(from, frame, now, &mut out);
        }
        assert!(matches!(failure(&out), Error::RankLeft { who, waiting: Some(0), .. } if who.rank == 1));
    }
}

#[test]
fn failure_of_a_part_leaves_the_others_alone() {
    let (mut router, mut out, now) = (router(4), Vec::new(), Instant::now());
    let enter = |context, group: &[u32]| Frame::EnterCollective {
        context,
        sequence: 0,
        call: Call::Barrier,
        part_of: None,
        place: String::new(),
        group: group.to_vec(),
        timeout: Duration::from_secs(context),
        bytes: ByteBuf::new(),
    };
    router.route(0, enter(5, &[0, 1]), now, &mut out);
    router.route(2, enter(7, &[2, 3]), now, &mut out);
    router.expire(now + Duration::from_secs(5), &mut out);
    assert!(matches!(out[..], [Delivery { frame: Frame::CommunicatorFailed { context: 5, .. }, .. }]));
    router.route(3, enter(7, &[2, 3]), now, &mut out);
    assert!(matches!(out[1..], [Delivery { frame: Frame::Gathered { context: 7, .. }, .. }]));
    // A lost rank ends the calls of its communicators only.
    out.clear();
    router.route(0, enter(9, &[0, 1]), now, &mut out);
    router.route(0, enter(8, &[0, 3]), now, &mut out);
    let died = Error::Died { who: Box::new(RankInfo::this(3, None)), how: "test".into() };
    router.lose(3, died, now, &mut out);
    router.route(1, enter(9, &[0, 1]), now, &mut out);
    assert!(matches!(
        out[..],
        [
            Delivery { frame: Frame::Lost { rank: 3, .. }, .. },
            Delivery { frame: Frame::Gathered { context: 9, .. }, .. }
        ]
    ));
    assert!(!router.has_failed() && router.next_expiry().is_none());
}

#[test]
fn rank_that_ends_after_a_failure_of_another_communicator_is_lost_because_of_it() {
    let late = |router: &Router| Error::CollectiveTimeout {
        call: "a call".into(),
        missing: vec![router.members[1].clone()],
        waiting: vec![0],
        waited: Duration::from_secs(4),
        last_call: None,
    };
    let died = |rank| Error::Died { who: Box::new(RankInfo::unnamed(rank)), how: "test".into() };
    let left = |rank| Error::RankLeft { who: Box::new(RankInfo::unnamed(rank)), waiting: Some(2), call: "b".into() };
    // The error of a rank's end, the seconds after the failure, whether it makes a call before, and the root cause.
    for (end, seconds, calls, cause) in [
        (died(0), 1, false, 1),
        (left(0), 1, false, 1),
        (died(1), 1, false, 1),
        (died(0), 1, true, 0),
        (died(0), 3600, false, 0),
        (died(2), 1, false, 2),
    ] {
        let (mut router, mut out, now) = (router(4), Vec::new(), Instant::now());
        let failed = Frame::CommunicatorFailed { context: 5, group: vec![0, 1], error: late(&router) };
        router.route(0, failed, now, &mut out);
        if calls {
            router.route(0, enter_collective(Call::Barrier, &[]), now, &mut out);
        }
        out.clear();
        let then = now + Duration::from_secs(seconds);
        let frame = match end.clone() {
            Error::Died { who, .. } => Frame::Lost { rank: who.rank, error: end.clone() },
            _ => Frame::CommunicatorFailed { context: 0, group: Vec::new(), error: end.clone() },
        };
        router.route(3, frame, then, &mut out);
        let [Delivery { frame: Frame::Lost { error, .. } | Frame::CommunicatorFailed { error, .. }, .. }] = &out[..]
        else {
            panic!("{out:?}")
        };
        assert_eq!(error.root_cause().map(|cause| cause.rank), Some(cause), "{error}");
        assert_eq!(error.lost(), end.lost(), "{error}");
    }
}

#[test]
fn sender_is_determined_by_its_connection() {
    let (mut router, mut out) = (router(3), Vec::new());
    let forged = Frame::Message { from: 0, to: 2, context: 0, tag: 0, bytes: vec![] };
    router.route(1, forged, Instant::now(), &mut out);
    assert!(matches!(out[..], [Delivery { frame: Frame::Message { from: 1, .. }, .. }]));
}

#[test]
fn unexpected_frame_fails_the_communicator() {
    let strange = [
        Frame::Message { from: 0, to: 9, context: 0, tag: 0, bytes: vec![] },
        Frame::Roster(vec![], 0),
        Frame::Query { from: 0, context: 0, id: 0, group: vec![9] },
        Frame::Report { from: 0, to: 9, context: 0, id: 0, bytes: ByteBuf::new() },
        Frame::EnterCollective {
            context: 1,
            sequence: 0,
            call: Call::Barrier,
            part_of: None,
            place: String::new(),
            group: vec![7],
            timeout: Duration::ZERO,
            bytes: ByteBuf::new(),
        },
        Frame::EnterCollective {
            context: 1,
            sequence: 0,
            call: Call::Barrier,
            part_of: None,
            place: String::new(),
            group: vec![1],
            timeout: Duration::ZERO,
            bytes: ByteBuf::new(),
        },
    ];
    for frame in strange {
        let (mut router, mut out) = (router(2), Vec::new());
        router.route(0, frame, Instant::now(), &mut out);
        assert!(matches!(failure(&out), Error::Protocol { .. }) && router.has_failed());
    }
}
