//! Communicators over TCP, between threads instead of processes.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::port::Port;
use mscclpp_bootstrap::{Address, Bootstrap, Error, NodeTransport, Options, RootListener, Secret, UniqueId};

/// Timeouts that exceed any time without a processor on a busy machine.
fn options() -> Options {
    Options::default().timeout(Duration::from_secs(60)).heartbeat_timeout(Some(Duration::from_secs(30)))
}

/// Runs a test that must end at its timeout with a short one, and with longer ones while it returns `None`, because a
/// rank was late.
fn by_a_deadline<T>(run: impl Fn(Options) -> Option<T>) -> T {
    let found = [300, 3_000, 30_000].into_iter().find_map(|ms| run(options().timeout(Duration::from_millis(ms))));
    found.expect("nobody is late for half a minute")
}

fn host() -> RootListener {
    RootListener::bind(Ipv4Addr::LOCALHOST.into()).unwrap()
}

/// Connects `ranks` ranks, runs `body` on each, and returns the results by rank.
fn on_all<T: Send>(ranks: u32, options: Options, body: impl Fn(Bootstrap) -> T + Sync) -> Vec<T> {
    let run = |group: Result<Bootstrap, Error>| body(group.unwrap());
    on_all_that_come(ranks, options, run)
}

/// Does what `on_all` does for tests that end in an error. The error of a rank that did not join counts too.
fn try_all(ranks: u32, options: Options, body: impl Fn(Bootstrap) -> Error + Sync) -> Vec<Error> {
    on_all_that_come(ranks, options, |group| group.map_or_else(|error| error, &body))
}

fn on_all_that_come<T: Send>(
    ranks: u32,
    options: Options,
    body: impl Fn(Result<Bootstrap, Error>) -> T + Sync,
) -> Vec<T> {
    let host = host();
    // As text, as users pass it.
    let id = host.unique_id().to_string();
    thread::scope(|scope| {
        let (body, id) = (&body, &id);
        let join = move |rank| body(id.parse::<UniqueId>().unwrap().join(rank, ranks, options));
        let others: Vec<_> = (1..ranks).map(|rank| scope.spawn(move || join(rank))).collect();
        let first = scope.spawn(move || body(host.connect(ranks, options)));
        [first].into_iter().chain(others).map(|thread| thread.join().expect("no thread panics")).collect()
    })
}

#[test]
fn many_ranks_connect_before_rank_0_accepts() {
    let limit = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
    let limit: usize = limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(128);
    let host = host();
    let id = host.unique_id().to_string();
    let address = id.split('/').nth(1).unwrap().parse().unwrap();
    let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(20));
    let streams: Result<Vec<_>, _> = (0..limit.min(300)).map(|_| connect()).collect();
    streams.expect("none is dropped");
}

fn address(port: &Port) -> Address {
    Address::new("127.0.0.1", port.number)
}

fn secret() -> Secret {
    Secret::derived(&["a test"])
}

/// Runs both ranks of a job of two, each with its own configuration.
fn two<T: Send>(first: impl FnOnce(&Address) -> T + Send, second: impl FnOnce(&Address) -> T + Send) -> (T, T) {
    let port = Port::new();
    let address = address(&port);
    thread::scope(|scope| {
        let second = scope.spawn(|| second(&address));
        (first(&address), second.join().expect("no thread panics"))
    })
}

#[test]
fn joined_ranks_can_make_all_calls() {
    for ranks in [1, 2, 3, 6] {
        on_all(ranks, options(), |group| {
            let rank = group.rank();
            assert_eq!((group.num_ranks(), group.ranks_per_node()), (ranks, ranks));
            for round in 0..20u8 {
                let parts = group.all_gather(&vec![round; rank as usize]).unwrap();
                assert_eq!(parts, (0..ranks).map(|rank| vec![round; rank as usize]).collect::<Vec<_>>());
            }
            assert_eq!(group.broadcast(ranks - 1, &[rank as u8]).unwrap(), [ranks as u8 - 1]);
            group.compare(&[("version", "1")]).unwrap();
            for peer in 0..ranks {
                group.send(peer, 3, &[rank as u8]).unwrap();
            }
            for peer in 0..ranks {
                assert_eq!(group.recv(peer, 3).unwrap(), [peer as u8]);
            }
            let half = group.split(Some(rank % 2), 0).unwrap().unwrap();
            let ours: Vec<u8> = (0..ranks as u8).filter(|other| u32::from(*other) % 2 == rank % 2).collect();
            assert_eq!(half.all_gather(&[rank as u8]).unwrap().concat(), ours);
            group.barrier().unwrap();
        });
    }
}

#[test]
fn long_messages_arrive_complete() {
    let bytes: Vec<u8> = (0..16usize << 20).map(|index| ((index * 31) >> 8) as u8).collect();
    on_all(3, options(), |group| {
        let (rank, ranks) = (group.rank(), group.num_ranks());
        group.send((rank + 1) % ranks, 0, &bytes).unwrap();
        assert!(group.recv((rank + ranks - 1) % ranks, 0).unwrap() == bytes);
        let part = &bytes[..group.max_gather_bytes()];
        assert!(group.all_gather(part).unwrap().iter().all(|other| other == part));
        assert!(matches!(group.send(0, 0, &vec![0; bytes.len() + 1]), Err(Error::TooLarge { .. })));
    });
}

#[test]
fn messages_sent_before_leaving_arrive() {
    on_all(3, options(), |group| match group.rank() {
        0 => {}
        1 => group.send(2, 0, &vec![7; 1 << 20]).unwrap(),
        _ => assert_eq!(group.recv(1, 0).unwrap(), vec![7; 1 << 20]),
    });
}

#[test]
fn streams_connect_any_two_ranks() {
    on_all(4, options(), |group| {
        let rank = group.rank();
        for peer in (0..4).filter(|peer| *peer != rank) {
            let mut stream = group.stream(peer, 11).unwrap();
            stream.write_all(&[rank as u8]).unwrap();
            let mut byte = [99];
            stream.read_exact(&mut byte).unwrap();
            assert_eq!(u32::from(byte[0]), peer);
        }
        group.barrier().unwrap();
    });
}

#[test]
fn job_of_one_rank_joins_at_once() {
    let port = Port::new();
    let group = Bootstrap::connect(&address(&port), 0, 1, &secret(), options()).unwrap();
    group.barrier().unwrap();
    assert_eq!((group.num_ranks(), group.ranks_per_node()), (1, 1));
}

#[test]
fn unbounded_timeouts_are_clamped() {
    let forever = Options::default().timeout(Duration::MAX).heartbeat_timeout(Some(Duration::MAX));
    on_all(2, forever, |group| {
        let year = Duration::from_secs(365 * 86400);
        assert_eq!((group.options().timeout, group.options().heartbeat_timeout), (year, Some(year)));
        let peer = 1 - group.rank();
        group.send(peer, 0, &[]).unwrap();
        assert_eq!(group.recv(peer, 0), Ok(vec![]));
        group.stream(peer, 0).unwrap();
        group.barrier().unwrap();
    });
    let (first, second) = two(
        |address| Bootstrap::connect(address, 0, 2, &secret(), forever).unwrap().barrier(),
        |address| Bootstrap::connect(address, 1, 2, &secret(), forever).unwrap().barrier(),
    );
    assert_eq!((first, second), (Ok(()), Ok(())));
}

#[test]
fn stream_to_a_lost_rank_fails_at_once_on_all_ranks() {
    for dies in [true, false] {
        let errors = on_all(3, options(), |group| match group.rank() {
            1 if dies => {
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let _lives_here = group;
                    std::panic::resume_unwind(Box::new("on purpose"));
                }));
                assert!(ended.is_err());
                None
            }
            1 => None,
            2 => {
                while group.check_alive().is_ok() && group.has_left(1) == Ok(false) {
                    thread::sleep(Duration::from_millis(1));
                }
                group.stream(1, 0).err()
            }
            _ => group.recv(2, 0).err(),
        });
        for error in [&errors[0], &errors[2]] {
            match error {
                Some(Error::Died { who, .. }) if dies => assert_eq!(who.rank, 1),
                Some(Error::RankLeft { who, waiting: Some(2), .. }) if !dies => assert_eq!(who.rank, 1),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn too_many_unreceived_messages_fail_all_ranks() {
    let errors = on_all(3, Options::default().heartbeat_timeout(None), |group| match group.rank() {
        0 => {
            let long = vec![0; 16 << 20];
            (0..17).find_map(|_| group.send(1, 0, &long).err()).unwrap_or_else(|| group.recv(1, 0).unwrap_err())
        }
        rank => group.recv(3 - rank, 0).unwrap_err(),
    });
    for error in &errors {
        assert!(
            matches!(error, Error::TooLarge { call, .. } if call.contains("unreceived messages from rank 0")),
            "{error}"
        );
    }
}

#[test]
fn rank_that_left_is_reported_on_all_ranks() {
    for error in on_all(3, options(), |group| match group.rank() {
        2 => None,
        _ => group.barrier().err(),
    })
    .into_iter()
    .take(2)
    {
        assert!(matches!(&error, Some(Error::RankLeft { who, .. }) if who.rank == 2), "{error:?}");
    }
}

#[test]
fn rank_missing_from_a_call_is_reported_on_all_ranks() {
    let errors = by_a_deadline(|short| {
        let errors = try_all(3, short, |group| match group.rank() {
            1 => {
                while group.check_alive().is_ok() {
                    thread::sleep(Duration::from_millis(10));
                }
                group.check_alive().unwrap_err()
            }
            _ => group.barrier().unwrap_err(),
        });
        let late = |error: &Error| match error {
            Error::JoinTimeout { .. } | Error::Unreachable { .. } => true,
            Error::CollectiveTimeout { missing, .. } => missing.len() > 1 || missing[0].rank != 1,
            _ => false,
        };
        (!errors.iter().any(late)).then_some(errors)
    });
    for error in errors {
        assert!(matches!(&error, Error::CollectiveTimeout { missing, .. } if missing[0].rank == 1), "{error}");
    }
}

#[test]
fn abort_is_reported_on_all_ranks() {
    for error in on_all(3, options(), |group| {
        if group.rank() == 2 {
            group.abort("on purpose");
        }
        group.recv((group.rank() + 1) % 3, 0).unwrap_err()
    }) {
        assert!(matches!(&error, Error::Aborted { who, reason } if who.rank == 2 && reason == "on purpose"), "{error}");
    }
}

#[test]
fn rank_whose_thread_panics_is_reported_dead() {
    let errors = on_all(3, options(), |group| match group.rank() {
        1 => {
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _lives_here = group;
                std::panic::resume_unwind(Box::new("on purpose"));
            }));
            assert!(ended.is_err());
            None
        }
        _ => group.barrier().err(),
    });
    for error in [&errors[0], &errors[2]] {
        assert!(
            matches!(error, Some(Error::Died { who, how }) if who.rank == 1 && how.contains("panicked")),
            "{error:?}"
        );
    }
}

#[test]
fn ranks_that_did_not_join_are_reported_on_joined_ranks() {
    let (first, second) = by_a_deadline(|short| {
        let (first, second) = two(
            |address| Bootstrap::connect(address, 0, 4, &secret(), short).unwrap_err(),
            |address| Bootstrap::connect(address, 2, 4, &secret(), short).unwrap_err(),
        );
        let late = matches!(&first, Error::JoinTimeout { missing, .. } if missing.contains(&2));
        (!late).then_some((first, second))
    });
    assert!(matches!(&first, Error::JoinTimeout { missing, .. } if missing[..] == [1, 3]), "{first}");
    assert_eq!(first, second);
}

#[test]
fn missing_rank_0_is_reported_with_its_address() {
    let short = options().timeout(Duration::from_millis(200));
    let port = Port::new();
    let address = address(&port);
    let error = Bootstrap::connect(&address, 1, 2, &secret(), short).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.contains("no process is listening there"), "{text}");
}

#[test]
fn duplicate_ranks_and_other_sizes_are_reported_on_all_ranks() {
    let port = Port::new();
    let address = address(&port);
    let errors: Vec<_> = thread::scope(|scope| {
        let connect = |rank| Bootstrap::connect(&address, rank, 3, &secret(), options()).unwrap_err();
        let threads: Vec<_> = [0, 1, 1].into_iter().map(|rank| scope.spawn(move || connect(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for error in errors {
        assert!(matches!(&error, Error::DuplicateRank { first, .. } if first.rank == 1), "{error}");
    }
    let (first, second) = two(
        |address| Bootstrap::connect(address, 0, 3, &secret(), options()).unwrap_err(),
        |address| Bootstrap::connect(address, 1, 4, &secret(), options()).unwrap_err(),
    );
    assert!(matches!(&first, Error::WorldSize { who, theirs: 4, peer: 0, ours: 3 } if who.rank == 1), "{first}");
    assert_eq!(first, second);
}

#[test]
fn different_authentication_of_data_is_reported_on_all_ranks() {
    let (first, second) = two(
        |address| Bootstrap::connect(address, 0, 2, &secret(), options()).unwrap_err(),
        |address| Bootstrap::connect(address, 1, 2, &secret(), options().authenticate_data(true)).unwrap_err(),
    );
    let text = first.to_string();
    assert!(text.starts_with("MSCCLPP_AUTHENTICATE_DATA differs: rank 0"), "{text}");
    assert_eq!(first, second);
}

#[test]
fn different_transports_are_reported_on_all_ranks() {
    let (first, second) = two(
        |address| Bootstrap::connect(address, 0, 2, &secret(), options()).unwrap_err(),
        |address| Bootstrap::connect(address, 1, 2, &secret(), options().transport(NodeTransport::Ucx)).unwrap_err(),
    );
    let text = first.to_string();
    assert!(text.starts_with("MSCCLPP_TRANSPORT differs: rank 0"), "{text}");
    assert_eq!(first, second);
}

#[test]
fn data_streams_have_keys_on_request() {
    for authenticates in [false, true] {
        on_all(2, options().authenticate_data(authenticates), |group| {
            let (mut stream, keys) = group.data_stream(1 - group.rank(), 3).unwrap();
            let Some(mut keys) = keys else { return assert!(!authenticates) };
            let body = mscclpp_bootstrap::digest(b"body");
            stream.write_all(&keys.send.seal(b"header", &body)).unwrap();
            let mut seal = [0; mscclpp_bootstrap::SEAL_BYTES];
            stream.read_exact(&mut seal).unwrap();
            assert_eq!(keys.receive.open(b"header", &seal), Some(body));
        });
    }
}

#[test]
fn wrong_secret_is_rejected_at_once_and_recorded() {
    let (first, second) = by_a_deadline(|short| {
        let (first, second) = two(
            |address| Bootstrap::connect(address, 0, 2, &secret(), short).unwrap_err(),
            |address| Bootstrap::connect(address, 1, 2, &Secret::random().unwrap(), short).unwrap_err(),
        );
        let late = matches!(&first, Error::JoinTimeout { rejections, .. } if rejections.is_empty());
        (!late).then_some((first, second))
    });
    assert!(matches!(second, Error::AuthenticationFailed { .. }), "{second}");
    let text = first.to_string();
    assert!(text.starts_with("rank 1 did not join") && text.contains("claims to be rank 1 of 2, but failed"), "{text}");
}

#[test]
fn late_process_does_not_disturb_a_running_job() {
    let host = host();
    let id = host.unique_id().clone();
    thread::scope(|scope| {
        let joined = scope.spawn(|| id.join(1, 2, options()).unwrap());
        let first = host.connect(2, options()).unwrap();
        let second = joined.join().unwrap();
        let late = id.join(1, 2, options()).unwrap_err();
        assert!(matches!(late, Error::DuplicateRank { .. }), "{late}");
        let both = [scope.spawn(move || first.barrier()), scope.spawn(move || second.barrier())];
        assert!(both.into_iter().all(|thread| thread.join().unwrap().is_ok()));
    });
}

#[test]
fn unauthenticated_connections_do_not_delay_ranks() {
    let host = host();
    let id = host.unique_id().clone();
    let text = id.to_string();
    let at = text.split('/').nth(1).unwrap().to_owned();
    // Garbage, half a header, a header with a length of four gigabytes, and no bytes. All connections stay open.
    let half = *b"MSCB\x04\x00";
    let long = *b"MSCB\x04\x00\x00\x00\xff\xff\xff\xff";
    let payloads: [&[u8]; 4] = [b"GET / HTTP/1.1\r\n\r\n", &half, &long, &[]];
    let mut rejections: Vec<TcpStream> = Vec::new();
    for round in 0..100 {
        let mut unauthenticated = TcpStream::connect(&at).unwrap();
        unauthenticated.write_all(payloads[round % payloads.len()]).unwrap();
        rejections.push(unauthenticated);
    }
    let start = Instant::now();
    thread::scope(|scope| {
        let second = scope.spawn(|| id.join(1, 2, options()).unwrap().barrier());
        let first = host.connect(2, options()).unwrap();
        first.barrier().unwrap();
        second.join().unwrap().unwrap();
    });
    assert!(start.elapsed() < options().timeout);
}

#[test]
fn idle_pending_connections_are_evicted_when_full() {
    let host = host();
    let id = host.unique_id().clone();
    let text = id.to_string();
    let at = text.split('/').nth(1).unwrap().to_owned();
    thread::scope(|scope| {
        let first = scope.spawn(|| host.connect(2, options()).unwrap());
        // More than the acceptor keeps at once, and fewer than a process may have descriptors. All connections stay
        // open.
        let idle_connections: Vec<_> = (0..300).map(|_| TcpStream::connect(&at).unwrap()).collect();
        let second = id.join(1, 2, options()).unwrap();
        assert_eq!((second.rank(), first.join().unwrap().rank()), (1, 0));
        drop(idle_connections);
    });
}

#[test]
fn shrink_keeps_order_and_excludes_lost_ranks() {
    let groups = on_all(4, options(), |group| {
        let lost = group.rank() == 1;
        if lost {
            group.abort("on purpose");
        }
        let failure = group.barrier().unwrap_err();
        assert_eq!(failure.lost(), [1]);
        let shrunk = group.shrink(&failure.lost());
        if lost {
            let error = shrunk.unwrap_err();
            assert!(matches!(&error, Error::Excluded { who, by, .. } if who.rank == 1 && by == &[0, 2, 3]), "{error}");
            return None;
        }
        let shrunk = shrunk.unwrap();
        let old = shrunk.all_gather(&[group.rank() as u8]).unwrap().concat();
        assert_eq!(old, [0, 2, 3]);
        // Streams use the new ranks' addresses as well.
        let next = (shrunk.rank() + 1) % 3;
        let last = (shrunk.rank() + 2) % 3;
        shrunk.stream(next.min(last), 1).unwrap();
        shrunk.stream(next.max(last), 1).unwrap();
        shrunk.barrier().unwrap();
        Some(shrunk.rank())
    });
    assert_eq!(groups, [Some(0), None, Some(1), Some(2)]);
}

#[test]
fn shrink_to_one_rank_works() {
    on_all(2, options(), |group| {
        let part = group.split(Some(0), 1 - group.rank()).unwrap().unwrap();
        match group.rank() {
            0 => {
                let failure = group.barrier().unwrap_err();
                for (group, lost) in [(&group, 1), (&part, 0)] {
                    // The ranks of the split communicator have the reverse order.
                    assert_eq!(group.check_alive().unwrap_err().lost(), [lost]);
                    let alone = group.shrink(&[lost]).unwrap();
                    assert_eq!((alone.num_ranks(), alone.all_gather(&[7])), (1, Ok(vec![vec![7]])));
                }
                assert_eq!(failure.lost(), [1]);
            }
            _ => group.abort("on purpose"),
        }
    });
}

#[test]
fn unknown_version_is_reported() {
    let host = host();
    let text = host.unique_id().to_string();
    let mut unauthenticated = TcpStream::connect(text.split('/').nth(1).unwrap()).unwrap();
    unauthenticated.write_all(b"MSCB\x63\x00\x00\x00\x00\x00\x00\x00").unwrap();
    let short = options().timeout(Duration::from_millis(300));
    let error = host.connect(2, short).unwrap_err().to_string();
    assert!(error.contains("version 99 of the bootstrap protocol"), "{error}");
}

#[test]
fn foreign_service_on_the_port_is_reported() {
    let (ready, at) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        ready.send(listener.local_addr().unwrap().port()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
        let _ = stream.read(&mut [0; 64]);
    });
    let address = Address::new("127.0.0.1", at.recv().unwrap());
    let error = Bootstrap::connect(&address, 1, 2, &secret(), options()).unwrap_err();
    assert!(matches!(&error, Error::Protocol { what, .. } if what.contains("220 ")), "{error}");
}

/// A process may end as soon as its call returns an error, and without rank 0 no failure arrives any more.
#[test]
fn rank_0_returns_a_failure_after_all_ranks_have_noticed_it() {
    let ranks = on_all(6, options(), |group| group);
    thread::scope(|scope| {
        scope.spawn(|| ranks[1].abort("a test"));
        let error = ranks[0].recv(2, 0).unwrap_err();
        let noticed: Vec<_> = ranks.iter().map(Bootstrap::check_alive).collect();
        assert!(noticed.iter().all(|found| *found == Err(error.clone())), "{error}: {noticed:?}");
    });
}
