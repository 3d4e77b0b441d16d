//! Failures of parts of a job, and how the others continue: over TCP, and within one process.

use std::net::Ipv4Addr;
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_bootstrap::{Bootstrap, Error, ErrorKind, Options, RootListener, UniqueId};

/// Timeouts that exceed any time without a processor on a busy machine.
fn options() -> Options {
    Options::default().timeout(Duration::from_secs(60)).heartbeat_timeout(Some(Duration::from_secs(30)))
}

/// Runs `body` on each rank of a job in this process, and of one over TCP.
fn on_both(ranks: u32, body: impl Fn(Bootstrap) + Sync) {
    let body = &body;
    thread::scope(|scope| {
        Bootstrap::local_with_options(ranks, options()).unwrap().into_iter().for_each(|group| {
            scope.spawn(move || body(group));
        });
    });
    over_tcp(ranks, options(), body);
}

fn over_tcp(ranks: u32, options: Options, body: impl Fn(Bootstrap) + Sync) {
    let (listener, body) = (RootListener::bind(Ipv4Addr::LOCALHOST.into()).unwrap(), &body);
    let id = &listener.unique_id().clone();
    thread::scope(|scope| {
        (1..ranks).for_each(|rank| _ = scope.spawn(move || body(id.join(rank, ranks, options).unwrap())));
        body(listener.connect(ranks, options).unwrap());
    });
}

/// Checks that the ranks of a communicator are `ranks` of the job, and that it works.
fn check(group: &Bootstrap, ranks: &[u8], own: u32) {
    assert_eq!(group.all_gather(&[own as u8]).unwrap().concat(), ranks);
    let (rank, ranks) = (group.rank(), group.num_ranks());
    group.send((rank + 1) % ranks, 3, &[rank as u8]).unwrap();
    assert_eq!(group.recv((rank + ranks - 1) % ranks, 3).unwrap(), [((rank + ranks - 1) % ranks) as u8]);
    group.barrier().unwrap();
}

/// Ends a rank as if its thread had panicked.
fn panic_with(group: Bootstrap) {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _dropped_by_the_panic = group;
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(ended.is_err());
}

#[test]
fn rank_that_ends_because_of_another_communicator_is_not_the_cause() {
    on_both(4, |group| {
        let own = group.rank();
        let part = group.subgroup(&[1, 2]).unwrap();
        if let Some(part) = part {
            let error = match own {
                1 => part.failure_within(Duration::from_secs(60)).unwrap(),
                _ => {
                    part.set_timeout(Duration::from_millis(100));
                    part.barrier().unwrap_err()
                }
            };
            assert_eq!(error.root_cause().map(|cause| cause.rank), Some(0), "rank 1 of the job is late: {error}");
            if own == 2 {
                drop(part);
                return panic_with(group);
            }
        }
        let error = group.barrier().unwrap_err();
        assert_eq!((error.root_cause().map(|cause| cause.rank), error.lost()), (Some(1), vec![2]), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with("rank 2 (pid ") && text.contains(" ended after another failure: rank 1 (pid "),
            "{text}"
        );
    });
}

#[test]
fn ranks_continue_after_one_died() {
    on_both(4, |group| {
        let own = group.rank();
        if own == 1 {
            return panic_with(group);
        }
        let error = group.barrier().unwrap_err();
        assert_eq!((error.kind(), error.lost()), (ErrorKind::RankLost, vec![1]));
        let shrunk = group.shrink(&error.lost()).unwrap();
        drop(group);
        check(&shrunk, &[0, 2, 3], own);
        // A rank of the new communicator leaves, and the others continue again.
        if own == 2 {
            return;
        }
        let error = shrunk.barrier().unwrap_err();
        assert!(matches!(&error, Error::RankLeft { who, .. } if who.rank == 1), "{error}");
        let again = shrunk.shrink(&error.lost()).unwrap();
        check(&again, &[0, 3], own);
    });
}

#[test]
fn ranks_continue_after_rank_0_died() {
    over_tcp(4, options(), |group| {
        let own = group.rank();
        if own == 0 {
            return panic_with(group);
        }
        let error = group.barrier().unwrap_err();
        assert_eq!(error.lost(), [0]);
        let shrunk = group.shrink(&error.lost()).unwrap();
        drop(group);
        check(&shrunk, &[1, 2, 3], own);
        shrunk.barrier().unwrap();
    });
}

#[test]
fn communicator_is_usable_after_a_shrink_without_rank_0() {
    over_tcp(4, options(), |group| {
        let own = group.rank();
        // Each of them is a job of its own.
        let shrinks: Vec<_> =
            (own != 0).then(|| [0, 1].map(|_| group.shrink(&[0]).unwrap())).into_iter().flatten().collect();
        shrinks.iter().for_each(|shrunk| check(shrunk, &[1, 2, 3], own));
        // The host of the new jobs still accepts streams of the old one.
        (0..4).filter(|peer| *peer != own).for_each(|peer| drop(group.stream(peer, 0).unwrap()));
        check(&group, &[0, 1, 2, 3], own);
        let part = group.split(Some(own % 2), 0).unwrap().unwrap();
        if own != 0 {
            // Only ranks 0 and 2 are in this part.
            let lost: &[u32] = if own == 2 { &[0] } else { &[] };
            check(&part.shrink(lost).unwrap(), if own == 2 { &[2] } else { &[1, 3] }, own);
        }
        shrinks.iter().for_each(|shrunk| check(shrunk, &[1, 2, 3], own));
        group.barrier().unwrap();
    });
}

#[test]
fn rank_that_died_with_rank_0_need_not_be_in_the_list() {
    let barrier = Barrier::new(4);
    over_tcp(4, options(), |group| {
        let own = group.rank();
        barrier.wait();
        if own == 0 || own == 2 {
            panic_with(group);
            barrier.wait();
            return;
        }
        let error = group.failure_within(Duration::from_secs(60)).unwrap();
        // Both are gone, though this rank knows of one perhaps.
        barrier.wait();
        thread::sleep(Duration::from_millis(1500));
        let shrunk = group.shrink(&error.lost()).unwrap();
        check(&shrunk, &[1, 3], own);
    });
}

#[test]
fn ranks_with_different_lists_agree_on_the_union() {
    on_both(5, |group| {
        let own = group.rank();
        let lost: &[u32] = match own {
            0 => &[4],
            1 => &[2],
            _ => &[],
        };
        let shrunk = group.shrink(lost);
        match own {
            2 | 4 => {
                let error = shrunk.unwrap_err();
                let by = if own == 2 { 1 } else { 0 };
                assert!(matches!(&error, Error::Excluded { who, by: found, .. } if who.rank == own && *found == [by]));
                assert!(error.to_string().contains(&format!("was excluded from the communicator by rank {by}")));
            }
            _ => check(&shrunk.unwrap(), &[0, 1, 3], own),
        }
    });
}

#[test]
fn straggler_learns_who_continued_without_it() {
    let barrier = Barrier::new(3);
    on_both(3, |group| {
        let own = group.rank();
        group.set_timeout(Duration::from_millis(300));
        if own == 1 {
            barrier.wait();
            // Its failure names itself, and without its list the others name it.
            let error = group.barrier().unwrap_err();
            assert_eq!(error.lost(), [1], "{error}");
            for lost in [&[1][..], &[]] {
                let error = group.shrink(lost).unwrap_err();
                assert!(matches!(&error, Error::Excluded { by, .. } if by == &[0, 2]), "{error}");
            }
            barrier.wait();
            return;
        }
        // The other rank of the two may be late as well.
        let error = group.barrier().unwrap_err();
        assert!(matches!(&error, Error::CollectiveTimeout { missing, .. } if missing.iter().any(|who| who.rank == 1)));
        let shrunk = group.shrink(&[1]).unwrap();
        barrier.wait();
        check(&shrunk, &[0, 2], own);
        barrier.wait();
    });
}

#[test]
fn aborting_rank_may_continue() {
    on_both(3, |group| {
        if group.rank() == 1 {
            group.abort("on purpose");
        }
        let error = group.barrier().unwrap_err();
        assert!(matches!(&error, Error::Aborted { who, .. } if who.rank == 1), "{error}");
        // No list contains it.
        check(&group.shrink(&[]).unwrap(), &[0, 1, 2], group.rank());
    });
}

#[test]
fn all_ranks_continue_after_a_mismatch_and_after_revocation() {
    on_both(3, |group| {
        let own = group.rank();
        let error = if own == 2 { group.all_gather(&[]).unwrap_err() } else { group.barrier().unwrap_err() };
        assert_eq!((error.kind(), error.lost()), (ErrorKind::Mismatch, vec![]));
        let again = group.shrink(&error.lost()).unwrap();
        check(&again, &[0, 1, 2], own);
        if own == 1 {
            again.revoke();
        }
        let error = again.recv((own + 1) % 3, 9).unwrap_err();
        assert_eq!((error.kind(), error.lost()), (ErrorKind::Revoked, vec![]));
        assert!(
            error.to_string().starts_with("rank 1 (pid") && error.to_string().ends_with("revoked the communicator")
        );
        assert_eq!(again.barrier().unwrap_err(), error);
        check(&again.shrink(&[]).unwrap(), &[0, 1, 2], own);
    });
}

#[test]
fn failure_of_a_split_communicator_is_its_own() {
    on_both(4, |group| {
        let own = group.rank();
        let part = group.split(Some(own % 2), 4 - own).unwrap().unwrap();
        let inner = part.split(Some(0), 0).unwrap().unwrap();
        match own {
            3 => part.abort("on purpose"),
            1 => {
                // The ranks of the part are in reverse order, so rank 3 is its rank 0.
                let error = part.barrier().unwrap_err();
                assert!(matches!(&error, Error::Aborted { who, .. } if who.rank == 0), "{error}");
                assert_eq!(error.lost(), [0]);
            }
            _ => part.barrier().unwrap(),
        }
        assert_eq!(inner.check_alive().is_err(), own % 2 == 1 && part.check_alive().is_err());
        check(&group, &[0, 1, 2, 3], own);
        assert_eq!(part.check_alive().is_err(), own % 2 == 1, "the parent's calls follow the abort");
        if own % 2 == 1 {
            assert!(inner.barrier().is_err());
            check(&part.shrink(&[]).unwrap(), &[3, 1], own);
        } else {
            check(&part, &[2, 0], own);
        }
        group.barrier().unwrap();
    });
}

#[test]
fn dead_rank_ends_its_communicators_only() {
    on_both(4, |group| {
        let own = group.rank();
        let part = group.split(Some(own / 2), 0).unwrap().unwrap();
        if own == 3 {
            drop(part);
            return panic_with(group);
        }
        assert_eq!(group.barrier().unwrap_err().lost(), [3]);
        match own {
            2 => {
                assert_eq!(part.barrier().unwrap_err().lost(), [1]);
                check(&part.shrink(&[]).unwrap(), &[2], own);
            }
            _ => check(&part, &[0, 1], own),
        }
        check(&group.shrink(&[]).unwrap(), &[0, 1, 2], own);
    });
}

#[test]
fn shrink_reports_a_rank_that_does_not_take_part() {
    let barrier = Barrier::new(3);
    let short = options().rendezvous_timeout(Duration::from_secs(2));
    let body = |group: Bootstrap| {
        if group.rank() != 2 {
            let error = group.shrink(&[]).unwrap_err();
            assert!(matches!(&error, Error::CollectiveTimeout { call, .. } if call == "shrink"), "{error}");
            assert_eq!(error.lost(), [2]);
            check(&group.shrink(&error.lost()).unwrap(), &[0, 1], group.rank());
        }
        barrier.wait();
        // The old communicator has not failed.
        group.barrier().unwrap();
    };
    over_tcp(3, short, body);
    thread::scope(|scope| {
        Bootstrap::local_with_options(3, short).unwrap().into_iter().for_each(|group| _ = scope.spawn(|| body(group)));
    });
}

#[test]
fn timeout_of_one_handle_bounds_its_calls() {
    on_both(2, |group| {
        if group.rank() == 1 {
            let error = group.failure_within(Duration::from_secs(60)).unwrap();
            return assert_eq!(error.lost(), [1]);
        }
        assert_eq!(group.timeout(), options().timeout);
        group.set_timeout(Duration::from_millis(50));
        let start = Instant::now();
        let error = group.barrier().unwrap_err();
        assert!(matches!(&error, Error::CollectiveTimeout { waited, .. } if waited.as_millis() == 50), "{error}");
        assert!(start.elapsed() < Duration::from_secs(30));
    });
}

#[test]
fn lost_rank_is_replaced() {
    for lost in [1, 2] {
        let (sender, ids) = channel::<UniqueId>();
        let ids = std::sync::Mutex::new(ids);
        on_both(3, |group| {
            let own = group.rank();
            if own == lost {
                panic_with(group);
                let id = ids.lock().unwrap().recv().unwrap();
                let grown = Bootstrap::join_grown(&id, own, 3, options()).unwrap();
                return check(&grown, &[0, 1, 2], own);
            }
            let shrunk = group.shrink(&group.barrier().unwrap_err().lost()).unwrap();
            let listener = (own == 0).then(|| shrunk.listen_for_newcomers().unwrap());
            if let Some(listener) = &listener {
                sender.send(listener.unique_id().clone()).unwrap();
            }
            let grown = shrunk.grow(&[lost], listener).unwrap();
            assert_eq!(grown.rank(), own);
            check(&grown, &[0, 1, 2], own);
        });
    }
}

#[test]
fn invalid_lists_of_newcomers_are_rejected() {
    on_both(2, |group| {
        for newcomers in [&[0][..], &[3], &[1, 1]] {
            assert!(matches!(group.grow(newcomers, None), Err(Error::NoSuchRank { .. })));
        }
        let error = group.grow(&[2], None).unwrap_err();
        assert!(error.to_string().contains("rank 0 did not pass a listener"), "{error}");
        group.barrier().unwrap();
    });
}

#[test]
fn missing_newcomer_is_named() {
    let short = Options::default().timeout(Duration::from_secs(60)).rendezvous_timeout(Duration::from_secs(2));
    over_tcp(2, short, |group| {
        let listener = (group.rank() == 0).then(|| group.listen_for_newcomers().unwrap());
        let error = group.grow(&[1], listener).unwrap_err();
        assert!(matches!(&error, Error::JoinTimeout { missing, .. } if missing == &[1]), "{error}");
        group.barrier().unwrap();
    });
}
