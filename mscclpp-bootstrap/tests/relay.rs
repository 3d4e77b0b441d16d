//! A relay between rank 1 and rank 0 that changes, repeats, drops, reorders or injects frames.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_bootstrap::{Bootstrap, Error, Options, RootListener, UniqueId};

/// Number of bytes of a header, and of header and seal.
const HEADER: usize = 12;
const PREFIX: usize = HEADER + 48;

/// What the relay does to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Changes bit `bit` of the part of the frame from byte `from` to byte `to`; the last part has the rest.
    Flip {
        from: usize,
        to: usize,
        bit: u64,
    },
    /// Sends it twice.
    Repeat,
    Drop,
    /// Sends it after the next one.
    Swap,
    /// Sends the first frame after the handshake in its place.
    Replace,
    /// Sends a frame of the other direction before it.
    Reflect,
    /// Sends a frame without seal before it.
    Inject,
    /// Leaves out bytes in its middle.
    Cut,
}

/// The parts of a frame: magic, version, kind, length, digest, code, body.
const PARTS: [(usize, usize); 7] = [(0, 4), (4, 6), (6, 8), (8, 12), (12, 44), (44, 60), (60, usize::MAX)];

/// Where the relay acts: on frame `frame` of a direction of the connection with number `connection`.
#[derive(Clone, Copy, Debug)]
struct Place {
    connection: usize,
    to_root: bool,
    frame: usize,
}

/// Applies `fault` at `place`, and passes all other frames unchanged.
struct Relay {
    place: Place,
    fault: Option<Fault>,
    /// Where new connections lead.
    target: Mutex<SocketAddr>,
    /// Last complete frame of each direction.
    last: Mutex<[Vec<u8>; 2]>,
}

impl Relay {
    /// Returns the relay, and its address.
    fn start(target: SocketAddr, place: Place, fault: Option<Fault>) -> (Arc<Self>, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let relay = Arc::new(Self { place, fault, target: Mutex::new(target), last: Mutex::default() });
        let this = relay.clone();
        thread::spawn(move || {
            for (number, incoming) in listener.incoming().enumerate() {
                let incoming = incoming.unwrap();
                let target = *this.target.lock().unwrap();
                let Ok(outgoing) = TcpStream::connect(target) else { continue };
                for to_root in [true, false] {
                    let (from, to) = if to_root { (&incoming, &outgoing) } else { (&outgoing, &incoming) };
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    to.set_nodelay(true).unwrap();
                    let this = this.clone();
                    thread::spawn(move || this.pass(from, to, number, to_root));
                }
            }
        });
        (relay, at)
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, connection: usize, to_root: bool) {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        let (mut number, mut first, mut held) = (0, Vec::new(), None::<Vec<u8>>);
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            bytes.extend_from_slice(&buffer[..n]);
            while bytes.len() >= HEADER {
                let prefix = if bytes[6] == 1 { PREFIX } else { HEADER };
                let end = prefix + u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
                if bytes.len() < end {
                    break;
                }
                let frame: Vec<u8> = bytes.drain(..end).collect();
                if prefix == PREFIX && first.is_empty() {
                    first.clone_from(&frame);
                }
                let here = self.place.connection == connection && self.place.to_root == to_root;
                let fault = self.fault.filter(|_| here && self.place.frame == number);
                number += 1;
                let mut sent = match fault {
                    None => frame.clone(),
                    Some(fault) => self.apply(fault, &frame, &first, to_root, &mut held),
                };
                if fault.is_none()
                    && let Some(held) = held.take()
                {
                    sent.extend(held);
                }
                self.last.lock().unwrap()[usize::from(to_root)] = frame;
                if to.write_all(&sent).is_err() {
                    return;
                }
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    }

    /// Returns the bytes to send in place of a frame.
    fn apply(&self, fault: Fault, frame: &[u8], first: &[u8], to_root: bool, held: &mut Option<Vec<u8>>) -> Vec<u8> {
        match fault {
            Fault::Flip { from, to, bit } => {
                let mut frame = frame.to_vec();
                let from = from.min(frame.len() - 1);
                let bits = (to.min(frame.len()) - from) as u64 * 8;
                let bit = (bit % bits) as usize;
                frame[from + bit / 8] ^= 1 << (bit % 8);
                frame
            }
            Fault::Repeat => frame.repeat(2),
            Fault::Drop => Vec::new(),
            Fault::Swap => {
                *held = Some(frame.to_vec());
                Vec::new()
            }
            Fault::Replace => first.to_vec(),
            Fault::Reflect => [&self.last.lock().unwrap()[usize::from(!to_root)][..], frame].concat(),
            Fault::Inject => {
                let header = [b"MSCB", &frame[4..6], &[0, 0], &[1, 0, 0, 0]].concat();
                [&header, &[14][..], frame].concat()
            }
            Fault::Cut => {
                let middle = frame.len() / 2;
                [&frame[..middle], &frame[(middle + 5).min(frame.len())..]].concat()
            }
        }
    }
}

/// Random numbers of a seed (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn options() -> Options {
    // Heartbeats follow a frame soon.
    Options::default().timeout(Duration::from_secs(60)).heartbeat_timeout(Some(Duration::from_secs(2)))
}

/// Runs a job of 3 ranks, of which rank 1 reaches rank 0 through a relay, and returns the results by rank.
fn run<T: Send>(
    place: Place,
    fault: Option<Fault>,
    options: Options,
    body: impl Fn(Result<Bootstrap, Error>, &Relay) -> T + Sync,
) -> Vec<T> {
    let host = RootListener::bind(Ipv4Addr::LOCALHOST.into()).unwrap();
    let id = host.unique_id().to_string();
    let address: SocketAddr = id.split('/').nth(1).unwrap().parse().unwrap();
    let (relay, at) = Relay::start(address, place, fault);
    let ids = [id.replace(&address.to_string(), &at.to_string()), id].map(|id| id.parse::<UniqueId>().unwrap());
    thread::scope(|scope| {
        let (body, relay) = (&body, &relay);
        let join = |rank: u32, id: &UniqueId| body(id.join(rank, 3, options), relay);
        let others: Vec<_> = (1..).zip(&ids).map(|(rank, id)| scope.spawn(move || join(rank, id))).collect();
        let first = scope.spawn(move || body(host.connect(3, options), relay));
        [first].into_iter().chain(others).map(|thread| thread.join().expect("no thread panics")).collect()
    })
}

/// Makes calls until one fails.
fn call_until_error(group: Result<Bootstrap, Error>) -> Error {
    let group = match group {
        Ok(group) => group,
        Err(error) => return error,
    };
    for round in 0u32.. {
        let call = match round % 3 {
            0 => group.barrier(),
            1 => group.all_gather(&vec![round as u8; 300]).map(drop),
            _ => group.send((group.rank() + 1) % 3, 0, &[1; 100]).and_then(|()| {
                let from = (group.rank() + 2) % 3;
                group.recv(from, 0).map(drop)
            }),
        };
        if let Err(error) = call {
            return error;
        }
    }
    unreachable!("2^32 rounds")
}

#[test]
fn faults_after_the_handshake_are_reported_as_one_error_on_all_ranks() {
    let seed = std::env::var("MSCCLPP_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed_u64);
    println!("MSCCLPP_SEED={seed}");
    let mut random = Random(seed | 1);
    let flips = PARTS.map(|(from, to)| Fault::Flip { from, to, bit: 0 });
    let others = [Fault::Repeat, Fault::Drop, Fault::Swap, Fault::Replace, Fault::Reflect, Fault::Inject, Fault::Cut];
    for fault in flips.into_iter().chain(others) {
        for to_root in [true, false] {
            let fault = match fault {
                Fault::Flip { from, to, .. } => Fault::Flip { from, to, bit: random.next() },
                other => other,
            };
            // The first frames after the handshake are those of the rendezvous.
            let first = if to_root { 2 } else { 1 };
            let at_first = !matches!(fault, Fault::Replace | Fault::Swap | Fault::Drop | Fault::Cut);
            for frame in [first, first + 3 + (random.next() % 20) as usize] {
                if frame == first && !at_first {
                    continue;
                }
                let place = Place { connection: 0, to_root, frame };
                let start = Instant::now();
                let errors = run(place, Some(fault), options(), |group, _| call_until_error(group));
                let (from, to) = if to_root { (1, 0) } else { (0, 1) };
                for error in &errors {
                    assert!(
                        matches!(error, Error::FrameAuthenticationFailed { from: f, to: t, .. } if (*f, *t) == (from, to)),
                        "{place:?} {fault:?}: {errors:?}"
                    );
                }
                assert!(errors.iter().all(|error| *error == errors[0]), "{place:?} {fault:?}: {errors:?}");
                assert!(start.elapsed() < Duration::from_secs(20), "{place:?} {fault:?}");
            }
        }
    }
}

#[test]
fn faults_in_the_handshake_end_only_its_connection() {
    let seed = std::env::var("MSCCLPP_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed_u64);
    println!("MSCCLPP_SEED={seed}");
    let mut random = Random(seed | 1);
    let mut cases = Vec::new();
    for (to_root, frame) in [(true, 0), (false, 0), (true, 1)] {
        for (from, to) in [(0, 4), (4, 6), (6, 8), (8, 12), (12, usize::MAX), (12, usize::MAX)] {
            let fault = Fault::Flip { from, to, bit: random.next() };
            cases.push((Place { connection: 0, to_root, frame }, fault));
        }
    }
    // Most of them wait for rank 0's timeout.
    thread::scope(|scope| {
        for (place, fault) in cases {
            scope.spawn(move || check_handshake(place, fault));
        }
    });
}

fn check_handshake(place: Place, fault: Fault) {
    let short = options().timeout(Duration::from_secs(2));
    let results = run(place, Some(fault), short, |group, _| group.and_then(|group| group.barrier()));
    let text = format!("{place:?} {fault:?}: {results:?}");
    let Err(error) = &results[1] else {
        // After a length that is not reached, it connects again.
        return assert!(results.iter().all(Result::is_ok), "{text}");
    };
    let named = matches!(
        error,
        Error::AuthenticationFailed { .. }
            | Error::FrameAuthenticationFailed { .. }
            | Error::Protocol { .. }
            | Error::Version { .. }
            | Error::Unreachable { .. }
            | Error::JoinTimeout { .. }
    );
    assert!(named, "{text}");
    for other in [&results[0], &results[2]] {
        assert!(matches!(other, Err(Error::JoinTimeout { missing, .. }) if missing[..] == [1]), "{text}");
    }
}

#[test]
fn fault_in_the_reply_to_a_stream_is_reported_on_all_ranks() {
    for fault in [Fault::Flip { from: 12, to: 60, bit: 99 }, Fault::Flip { from: 60, to: 61, bit: 0 }, Fault::Inject] {
        // The first connection is that of the rendezvous.
        let place = Place { connection: 1, to_root: false, frame: 1 };
        let errors = run(place, Some(fault), options(), |group, _| {
            let group = group.unwrap();
            match group.rank() {
                1 => group.stream(0, 7).unwrap_err(),
                _ => group.recv(1, 0).unwrap_err(),
            }
        });
        let expected =
            Error::FrameAuthenticationFailed { from: 0, to: 1, frame: 1, connection: String::from("control") };
        assert!(errors.iter().all(|error| *error == expected), "{fault:?}: {errors:?}");
    }
}

#[test]
fn stream_that_a_relay_leads_to_another_rank_is_rejected() {
    let place = Place { connection: 0, to_root: true, frame: usize::MAX };
    let errors = run(place, None, options(), |group, relay| {
        let group = group.unwrap();
        match group.rank() {
            1 => {
                *relay.target.lock().unwrap() = group.rank_info(2).unwrap().address.unwrap();
                group.stream(0, 7).unwrap_err()
            }
            rank => group.stream(1 - rank.min(1), 7).err().unwrap_or_else(|| group.recv(1, 0).unwrap_err()),
        }
    });
    assert!(matches!(errors[1], Error::AuthenticationFailed { .. }), "{errors:?}");
    assert!(errors.iter().all(|error| *error == errors[1]), "{errors:?}");
}

#[test]
fn relay_that_changes_nothing_is_not_noticed() {
    let place = Place { connection: 0, to_root: true, frame: usize::MAX };
    run(place, None, options(), |group, _| {
        let group = group.unwrap();
        for round in 0..50u8 {
            assert_eq!(group.all_gather(&[round]).unwrap().concat(), [round; 3]);
        }
        match group.rank() {
            0 => drop(group.stream(1, 7).unwrap()),
            1 => drop(group.stream(0, 7).unwrap()),
            _ => {}
        }
        group.barrier().unwrap();
    });
}
