//! Communicators of threads in one process.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use mscclpp_bootstrap::{Bootstrap, Error, Options};

/// Runs `body` on one thread per rank, and returns each thread's result, by rank.
fn on_all<T: Send>(groups: Vec<Bootstrap>, body: impl Fn(&Bootstrap) -> T + Sync) -> Vec<T> {
    let body = &body;
    thread::scope(|scope| {
        let threads: Vec<_> = groups.into_iter().map(|group| scope.spawn(move || body(&group))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    })
}

#[test]
fn all_gather_returns_data_of_every_rank() {
    for ranks in [1, 2, 3, 8] {
        let results = on_all(Bootstrap::local(ranks).unwrap(), |group| {
            group.barrier().unwrap();
            let part = vec![group.rank() as u8; group.rank() as usize];
            let parts = group.all_gather(&part).unwrap();
            let root = group.num_ranks() - 1;
            (parts, group.broadcast(root, &[group.rank() as u8]).unwrap())
        });
        let parts: Vec<_> = (0..ranks).map(|rank| vec![rank as u8; rank as usize]).collect();
        for result in results {
            assert_eq!(result, (parts.clone(), vec![ranks as u8 - 1]));
        }
    }
}

#[test]
fn threads_of_one_process_share_a_node() {
    let groups = Bootstrap::local(3).unwrap();
    assert_eq!((groups[1].ranks_per_node(), groups[1].num_nodes(), groups[1].node_of(2)), (3, 1, Ok(0)));
    assert_eq!(groups[1].node_of(3), Err(Error::NoSuchRank { rank: 3, num_ranks: 3 }));
}

#[test]
fn messages_of_one_tag_arrive_in_order_without_mixing_tags() {
    on_all(Bootstrap::local(3).unwrap(), |group| {
        for peer in 0..3 {
            for round in 0..10u8 {
                group.send(peer, 1, &[group.rank() as u8, round]).unwrap();
                group.send(peer, 2, &[round]).unwrap();
            }
        }
        for peer in 0..3 {
            assert_eq!(group.recv(peer, 2).unwrap(), [0]);
            for round in 0..10u8 {
                assert_eq!(group.recv(peer, 1).unwrap(), [peer as u8, round]);
            }
        }
    });
}

#[test]
fn split_communicators_are_ordered_by_key_and_isolated() {
    on_all(Bootstrap::local(5).unwrap(), |world| {
        let rank = world.rank();
        let color = (rank != 4).then_some(rank % 2);
        let Some(group) = world.split(color, 10 - rank).unwrap() else {
            assert_eq!(rank, 4);
            return;
        };
        let ranks: Vec<u8> = group.all_gather(&[rank as u8]).unwrap().concat();
        assert_eq!(ranks, if rank % 2 == 0 { [2, 0] } else { [3, 1] });
        group.send(0, 7, &[rank as u8]).unwrap();
        if group.rank() == 0 {
            assert_eq!((group.recv(0, 7).unwrap(), group.recv(1, 7).unwrap()), (vec![ranks[0]], vec![ranks[1]]));
        }
        let alone = group.subgroup(&[1]).unwrap();
        assert_eq!(alone.is_some(), group.rank() == 1);
        if let Some(alone) = alone {
            alone.barrier().unwrap();
        }
    });
}

#[test]
fn stream_connects_two_ranks() {
    on_all(Bootstrap::local(2).unwrap(), |group| {
        let mut stream = group.stream(1 - group.rank(), 5).unwrap();
        stream.write_all(&[group.rank() as u8]).unwrap();
        let mut byte = [9];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(u32::from(byte[0]), 1 - group.rank());
        assert!(group.stream(group.rank(), 6).is_err());
    });
}

#[test]
fn stream_to_a_leaving_rank_ends() {
    let mut groups = Bootstrap::local(2).unwrap();
    let (second, first) = (groups.pop().unwrap(), groups.pop().unwrap());
    let mut stream = second.stream(0, 5).unwrap();
    drop(first);
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    let error = second.stream(0, 6).unwrap_err();
    assert!(matches!(&error, Error::RankLeft { who, waiting: Some(1), .. } if who.rank == 0), "{error}");
    assert_eq!(second.check_alive(), Err(error));
}

#[test]
fn too_many_unreceived_messages_fail_all_ranks() {
    let groups = Bootstrap::local(3).unwrap();
    let long = vec![0; 16 << 20];
    (0..17).for_each(|_| groups[0].send(1, 0, &long).unwrap());
    for group in groups {
        let error = group.check_alive().unwrap_err();
        assert!(
            matches!(&error, Error::TooLarge { call, .. } if call.contains("unreceived messages from rank 0")),
            "{error}"
        );
    }
}

#[test]
fn unbounded_timeouts_are_clamped() {
    let forever = Options::default().timeout(Duration::MAX).heartbeat_timeout(Some(Duration::MAX));
    on_all(Bootstrap::local_with_options(2, forever).unwrap(), |group| group.barrier().unwrap());
}

#[test]
fn ranks_missing_from_a_call_are_reported_on_all_ranks() {
    // On a busy machine another rank may be late as well; the test then repeats with a longer timeout.
    let errors = [200, 2_000, 20_000].into_iter().find_map(|ms| {
        let short = Options::default().timeout(Duration::from_millis(ms));
        let errors = on_all(Bootstrap::local_with_options(4, short).unwrap(), |group| match group.rank() {
            2 => {
                // This rank stays but does not enter the call; its wait ends with the others' failure.
                group.recv(2, 0).unwrap_err()
            }
            _ => group.barrier().unwrap_err(),
        });
        let late = |error: &Error| matches!(error, Error::CollectiveTimeout { missing, .. } if missing.len() > 1);
        (!errors.iter().any(late)).then_some(errors)
    });
    let errors = errors.expect("nobody is late for long");
    for error in &errors {
        // Rank 2's own timeout may expire first; then its error is what all ranks return.
        match error {
            Error::CollectiveTimeout { missing, waiting, .. } => {
                assert_eq!((missing[0].rank, missing.len(), &waiting[..]), (2, 1, &[0, 1, 3][..]));
            }
            Error::Timeout { rank: 2, .. } => {}
            other => panic!("{other}"),
        }
        assert_eq!(error, &errors[0]);
    }
}

#[test]
fn leaving_or_panicking_rank_ends_the_others_waits() {
    let mut groups = Bootstrap::local(3).unwrap();
    drop(groups.pop());
    for error in on_all(groups, |group| group.barrier().unwrap_err()) {
        assert!(matches!(&error, Error::RankLeft { who, .. } if who.rank == 2), "{error}");
    }

    let mut groups = Bootstrap::local(3).unwrap();
    let victim = groups.pop().unwrap();
    let thread = thread::spawn(move || {
        let _victim = victim;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    for error in on_all(groups, |group| group.barrier().unwrap_err()) {
        assert!(matches!(&error, Error::Died { who, .. } if who.rank == 2), "{error}");
    }
    assert!(thread.join().is_err());
}

#[test]
fn abort_and_mismatches_are_reported_on_all_ranks() {
    let errors = on_all(Bootstrap::local(3).unwrap(), |group| {
        if group.rank() == 1 {
            group.abort("no memory left");
        }
        group.barrier().unwrap_err()
    });
    assert!(errors.iter().all(|error| error == &errors[0] && error.to_string().ends_with("aborted: no memory left")));

    for error in on_all(Bootstrap::local(2).unwrap(), |group| {
        if group.rank() == 0 { group.barrier().unwrap_err() } else { group.all_gather(&[]).unwrap_err() }
    }) {
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
    }

    let errors = on_all(Bootstrap::local(3).unwrap(), |group| {
        let table = if group.rank() == 2 { "b" } else { "a" };
        group.compare(&[("version", "1"), ("table", table)]).unwrap_err()
    });
    for error in errors {
        assert!(error.to_string().starts_with("table differs: rank 0"), "{error}");
        assert!(matches!(error, Error::ConfigMismatch { second, .. } if second.rank == 2));
    }
}

#[test]
fn invalid_rank_counts_and_ranks_are_rejected() {
    assert!(matches!(Bootstrap::local(0), Err(Error::NoSuchRank { .. })));
    assert!(matches!(Bootstrap::local(u32::MAX), Err(Error::TooManyRanks { .. })));
    let group = &Bootstrap::local(1).unwrap()[0];
    assert!(group.send(1, 0, &[]).is_err() && group.broadcast(1, &[]).is_err() && group.subgroup(&[0, 0]).is_err());
    let long = vec![0; group.max_gather_bytes() + 1];
    assert!(matches!(group.all_gather(&long), Err(Error::TooLarge { .. })));
    // An error that affects this rank alone does not fail the communicator.
    group.barrier().unwrap();
}
