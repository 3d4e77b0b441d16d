//! What the contract promises, on every engine.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use super::hostile::{Flaw, Hostile, Network};
use super::*;

type Pair = [Box<dyn Transport<Vec<u8>>>; 2];

/// Returns both ends of a TCP connection.
pub(super) fn streams() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    [one, listener.accept().expect("a connection").0]
}

/// Returns the engines of ranks 0 and 1, connected.
fn open(mut pair: Pair) -> Pair {
    for ((engine, peer), stream) in pair.iter_mut().zip([1, 0]).zip(streams()) {
        assert!(!engine.is_open(peer) && !engine.has_room(peer) && engine.is_flushed(peer));
        engine.open(peer, stream).expect("a socket");
        assert!(engine.is_open(peer) && engine.has_room(peer));
    }
    pair
}

fn tcp() -> Pair {
    open([Box::new(Tcp::new()), Box::new(Tcp::new())])
}

fn hostile(seed: u64, flaw: Option<Flaw>) -> Pair {
    let network = Arc::new(Network::default());
    open([0, 1].map(|rank| -> Box<dyn Transport<Vec<u8>>> { Box::new(Hostile::new(&network, rank, seed, flaw)) }))
}

fn id(launch: u64) -> LaunchId {
    LaunchId { plan: 7, launch, call: 9 }
}

fn to(key: u64) -> RemoteAddress {
    RemoteAddress { key, offset: 3 * key }
}

fn channel(key: u64) -> Signal {
    Signal::Channel(to(key))
}

fn content(key: u64, len: u64) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) + key) as u8).collect()
}

/// Sends rounds of puts, a signal each and ends, and checks the order and the content of what arrives. Key: number of
/// the message.
fn check_order([mut from, mut to_rank]: Pair, what: &str) -> Result<(), String> {
    const MESSAGES: u64 = 120;
    let most = from.capabilities().max_put_bytes;
    let lens = [1, most, 7, most / 2 + 1, 3, 16];
    let (mut sent, mut received, mut launch) = (0, vec![false; MESSAGES as usize], 1);
    let mut ends = 0;
    while received.contains(&false) || ends < 2 {
        while sent < MESSAGES && from.has_room(1) {
            let launch = id(1 + sent / (MESSAGES / 2));
            match sent % 10 {
                4 | 9 => from.signal(1, launch, channel(sent)),
                7 => from.put(1, launch, to(sent), 1 << 40, None),
                _ => {
                    let len = lens[sent as usize % lens.len()];
                    // A source may be longer.
                    let source = [content(sent, len), vec![0xee; sent as usize % 3]].concat();
                    from.put(1, launch, to(sent), len, Some(source));
                }
            }
            sent += 1;
            if sent % (MESSAGES / 2) == 0 {
                from.signal(1, launch, Signal::End);
            }
        }
        from.progress();
        let buffer = &mut |len| Some(vec![0; len as usize + 1]);
        let (frame, buffer) = match to_rank.receive(0, launch, buffer).map_err(|error| error.to_string())? {
            Received::Message(frame, buffer) => (frame, buffer),
            Received::Part | Received::Nothing => continue,
        };
        if frame.launch.launch > launch {
            return Err(format!("{what}: a message of a launch that has not begun: {frame:?}"));
        }
        match frame.kind {
            FrameKind::Signal(Signal::End) => {
                let before = (frame.launch.launch * MESSAGES / 2) as usize;
                if received[..before].contains(&false) {
                    return Err(format!("{what}: an end before a message of its launch"));
                }
                (ends, launch) = (ends + 1, launch + 1);
            }
            FrameKind::Put { to: at, .. }
            | FrameKind::Zeros { to: at, .. }
            | FrameKind::Signal(Signal::Channel(at)) => {
                assert_eq!((at, frame.launch.plan, frame.launch.call), (to(at.key), 7, 9));
                let number = at.key as usize;
                assert!(!std::mem::replace(&mut received[number], true), "{what}: message {number} twice");
                let is_put = |number: usize| !matches!(number % 10, 4 | 9);
                match frame.kind {
                    FrameKind::Put { len, .. } => {
                        let bytes = buffer.expect("its bytes");
                        assert!(bytes[..len as usize] == content(at.key, len), "{what}: message {number}");
                    }
                    FrameKind::Zeros { len, .. } => assert!(len == 1 << 40 && buffer.is_none()),
                    _ if (0..number).any(|before| is_put(before) && !received[before]) => {
                        return Err(format!("{what}: signal {number} before a put"));
                    }
                    FrameKind::Signal(_) => {}
                }
            }
            FrameKind::Signal(_) => return Err(format!("{what}: {frame:?}")),
        }
    }
    while !from.is_flushed(1) {
        from.progress();
    }
    Ok(())
}

#[test]
fn tcp_keeps_the_order() {
    check_order(tcp(), "TCP").unwrap();
}

#[test]
fn hostile_engine_keeps_the_order() {
    for seed in 0..200 {
        check_order(hostile(seed, None), &format!("seed {seed}")).unwrap();
    }
}

#[test]
fn injected_flaws_of_the_hostile_engine_are_detected() {
    for flaw in [Flaw::EarlySignals, Flaw::EarlyEnds] {
        let found = (0..200).find_map(|seed| check_order(hostile(seed, Some(flaw)), &format!("seed {seed}")).err());
        println!("{flaw:?}: {}", found.expect("a wrong order"));
    }
}

#[test]
fn messages_of_later_launches_and_without_buffer_stay() {
    for [mut from, mut to_rank] in [tcp(), hostile(1, None)] {
        from.put(1, id(2), to(5), 3, Some(b"abc".to_vec()));
        while !from.is_flushed(1) {
            from.progress();
        }
        for _ in 0..100 {
            let early = to_rank.receive(0, 1, &mut |_| panic!("not yet"));
            assert!(matches!(early, Ok(Received::Nothing)), "{early:?}");
            let unbuffered = to_rank.receive(0, 2, &mut |_| None);
            assert!(matches!(unbuffered, Ok(Received::Nothing)), "{unbuffered:?}");
        }
        let bytes = loop {
            match to_rank.receive(0, 2, &mut |len| Some(vec![0; len as usize])).expect("valid") {
                Received::Message(_, bytes) => break bytes,
                Received::Part | Received::Nothing => {}
            }
        };
        assert_eq!(bytes.as_deref(), Some(&b"abc"[..]));
    }
}

/// Receives until the peer is lost, and returns the keys of the signals.
fn receive_all(engine: &mut dyn Transport<Vec<u8>>) -> Vec<Signal> {
    let mut signals = Vec::new();
    loop {
        match engine.receive(1, 1, &mut |len| Some(vec![0; len as usize])).expect("valid") {
            Received::Message(Frame { kind: FrameKind::Signal(signal), .. }, _) => signals.push(signal),
            Received::Message(..) | Received::Part => {}
            Received::Nothing if engine.lost(1) == Some(Lost::Closed) => return signals,
            Received::Nothing => assert_eq!(engine.lost(1), None),
        }
    }
}

#[test]
fn closed_connection_is_reported_after_its_last_message() {
    let [mut zero, mut one] = tcp();
    one.signal(0, id(1), channel(1));
    one.close(0, id(1), Signal::Leave);
    assert_eq!(receive_all(&mut *zero), [channel(1), Signal::Leave]);
}

#[test]
fn no_message_follows_part_of_another_one() {
    let [mut zero, mut one] = tcp();
    let most = one.capabilities().max_put_bytes;
    // More than the system takes.
    for _ in 0..64 {
        one.put(0, id(1), to(1), most, Some(vec![7; most as usize]));
    }
    one.close(0, id(1), Signal::Abort);
    assert!(one.is_flushed(0), "sources are in use");
    let signals = receive_all(&mut *zero);
    assert!(signals.is_empty(), "{signals:?}");
}

#[test]
fn lost_peer_frees_sources() {
    let [mut zero, one] = tcp();
    drop(one);
    while !matches!(zero.lost(1), Some(Lost::Failed(_))) {
        zero.put(1, id(1), to(1), 5, Some(vec![0; 5]));
        zero.progress();
    }
    zero.put(1, id(1), to(1), 5, Some(vec![0; 5]));
    assert!(zero.is_flushed(1) && !zero.progress());
}
