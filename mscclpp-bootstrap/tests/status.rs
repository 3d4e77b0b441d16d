//! Processes that ask what the ranks of a job are doing.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::port::Port;
use mscclpp_bootstrap::{Address, Bootstrap, Error, JobReport, Options, Presence, Secret, Topic, observe};

const MINUTE: Duration = Duration::from_secs(60);

fn secret() -> Secret {
    Secret::derived(&["a test"])
}

/// Connects `ranks` ranks to a job at a new address, and calls `observer` while their threads run `body`.
fn with_job<T>(ranks: u32, body: impl Fn(&Bootstrap) + Sync, observer: impl FnOnce(&Address) -> T) -> T {
    let port = Port::new();
    let address = Address::new("127.0.0.1", port.number);
    thread::scope(|scope| {
        for rank in 0..ranks {
            let (address, body) = (&address, &body);
            scope.spawn(move || {
                let options = Options::default().timeout(MINUTE);
                body(&Bootstrap::connect(address, rank, ranks, &secret(), options).expect("all ranks join"));
            });
        }
        observer(&address)
    })
}

/// Asks until the job answers as expected.
fn ask_until(address: &Address, is_expected: impl Fn(&JobReport) -> bool) -> JobReport {
    loop {
        match observe(address, &secret(), Topic::Calls, MINUTE) {
            Ok(report) if is_expected(&report) => return report,
            Ok(_) | Err(Error::NotObserved { .. }) => thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn all_ranks_report_while_their_threads_are_busy() {
    let done = AtomicBool::new(false);
    let body = |group: &Bootstrap| {
        let rank = group.rank();
        group.set_report(Topic::Calls, Some(Arc::new(move || vec![rank as u8; 3])));
        while !done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        group.barrier().unwrap();
    };
    with_job(3, body, |address| {
        let reports = |report: &JobReport| {
            let of = |rank: &mscclpp_bootstrap::RankReport| rank.reports.clone().unwrap_or_default();
            report.ranks.iter().flat_map(of).map(|report| (report.context, report.bytes)).collect::<Vec<_>>()
        };
        let report = ask_until(address, |report| reports(report).len() == 3);
        assert_eq!(reports(&report), [0, 1, 2].map(|rank| (0, vec![rank; 3])));
        assert!(report.ranks.iter().all(|rank| matches!(rank.presence, Presence::Joined(_))), "{report:?}");
        assert!(report.ranks.iter().all(|rank| rank.info.pid == std::process::id()));
        // Another topic has no reports, but all ranks answer.
        let report = observe(address, &secret(), Topic::Metrics, MINUTE).unwrap();
        assert!(report.ranks.iter().all(|rank| rank.reports == Some(Vec::new())), "{report:?}");
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn calls_that_wait_and_ranks_that_have_not_joined_are_reported() {
    let done = AtomicBool::new(false);
    let body = |group: &Bootstrap| {
        while group.rank() == 1 && !done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        group.barrier().unwrap();
    };
    with_job(2, body, |address| {
        let report = ask_until(address, |report| report.pending.iter().any(|call| call.call.starts_with("barrier")));
        let [call] = &report.pending[..] else { panic!("{report:?}") };
        assert_eq!((call.missing.as_slice(), call.entered.len()), (&[1][..], 1));
        assert!(call.entered[0].1.contains("status.rs:"), "{call:?}");
        done.store(true, Ordering::Relaxed);
    });
    let port = Port::new();
    let address = Address::new("127.0.0.1", port.number);
    thread::scope(|scope| {
        let join =
            |rank| Bootstrap::connect(&address, rank, 2, &secret(), Options::default().timeout(MINUTE)).map(drop);
        let first = scope.spawn(move || join(0));
        let report = ask_until(&address, |_| true);
        assert!(matches!(report.ranks[0].presence, Presence::Joined(_)), "{report:?}");
        assert!(matches!(report.ranks[1].presence, Presence::NotJoined(_)), "{report:?}");
        assert_eq!((join(1), first.join().unwrap()), (Ok(()), Ok(())));
    });
}

#[test]
fn observer_with_another_secret_or_at_another_rank_is_refused() {
    let addresses = std::sync::Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    let body = |group: &Bootstrap| {
        addresses.lock().unwrap().push(group.rank_info(1).unwrap().address.unwrap());
        while !done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        group.barrier().unwrap();
    };
    with_job(2, body, |address| {
        ask_until(address, |report| report.ranks.iter().all(|rank| matches!(rank.presence, Presence::Joined(_))));
        let error = observe(address, &Secret::derived(&["another"]), Topic::Calls, MINUTE).unwrap_err();
        assert!(matches!(&error, Error::AuthenticationFailed { peer } if *peer == address.to_string()), "{error}");
        let other = loop {
            if let Some(at) = addresses.lock().unwrap().first() {
                break Address::new(&at.ip().to_string(), at.port());
            }
        };
        let error = observe(&other, &secret(), Topic::Calls, MINUTE).unwrap_err().to_string();
        assert!(error.contains("rank 1 listens there, and rank 0 answers"), "{error}");
        done.store(true, Ordering::Relaxed);
    });
    let closed = Port::new();
    let error = observe(&Address::new("127.0.0.1", closed.number), &secret(), Topic::Calls, MINUTE).unwrap_err();
    assert!(error.to_string().starts_with("no job answers at 127.0.0.1:"), "{error}");
}

/// Observers that say nothing, or ask and do not read, more than rank 0 keeps.
#[test]
fn stalled_observers_do_not_disturb_the_job() {
    let done = AtomicBool::new(false);
    let body = |group: &Bootstrap| {
        group.set_report(Topic::Calls, Some(Arc::new(|| vec![0; 1 << 20])));
        while !group.agree(done.load(Ordering::Relaxed)).unwrap() {}
    };
    with_job(3, body, |address| {
        ask_until(address, |_| true);
        let port = address.port();
        let silent: Vec<_> = (0..20).map(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap()).collect();
        let relayed: Vec<_> = (0..20).map(|_| stalled(port)).collect();
        for _ in 0..5 {
            let report = observe(address, &secret(), Topic::Calls, MINUTE).unwrap();
            assert_eq!(report.ranks.len(), 3);
        }
        done.store(true, Ordering::Relaxed);
        drop((silent, relayed));
    });
}

/// Starts an observer behind a relay that forwards its question and never its answer, and returns both connections.
fn stalled(port: u16) -> [TcpStream; 2] {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let relay = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
    thread::spawn(move || observe(&relay, &secret(), Topic::Calls, Duration::from_millis(200)));
    let (mut observer, _) = listener.accept().unwrap();
    let mut root = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    // The challenge is passed on, the answer is not.
    let (mut up, mut down) = (observer.try_clone().unwrap(), root.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut up, &mut down));
    let mut challenge = [0; 256];
    let bytes = root.read(&mut challenge).unwrap();
    std::io::Write::write_all(&mut observer, &challenge[..bytes]).unwrap();
    [observer, root]
}
