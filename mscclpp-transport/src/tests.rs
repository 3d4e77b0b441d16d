//! What the contract promises, on every engine.

mod ucx;

use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::hostile::{Delay, Flaw, Hostile};
use super::*;
use mscclpp_base::memory::{Loan, Table};
use mscclpp_base::shm::{SecondMapping, Segment};

type Pair = [Box<dyn Transport<Vec<u8>>>; 2];

/// Returns both ends of a TCP connection.
pub(super) fn streams() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let one = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    [one, listener.accept().expect("a connection").0]
}

/// Returns the engines of ranks 0 and 1, connected.
fn open(mut pair: Pair, keys: [Option<StreamKeys>; 2]) -> Pair {
    for (((engine, peer), stream), keys) in pair.iter_mut().zip([1, 0]).zip(streams()).zip(keys) {
        assert!(!engine.is_open(peer) && !engine.has_room(peer) && engine.is_flushed(peer));
        engine.open(peer, stream, keys).expect("a socket");
        assert!(engine.is_open(peer) && engine.has_room(peer));
    }
    pair
}

fn tcp() -> Pair {
    open([Box::new(Tcp::new()), Box::new(Tcp::new())], [None, None])
}

fn authenticated_tcp() -> Pair {
    open([Box::new(Tcp::new()), Box::new(Tcp::new())], StreamKeys::pair().expect("random numbers").map(Some))
}

fn hostile(seed: u64, flaw: Option<Flaw>) -> Pair {
    let delay = Delay { max_polls: 4, time: Duration::ZERO };
    let engine = |rank| -> Box<dyn Transport<Vec<u8>>> {
        Box::new(Hostile::new(Box::new(Tcp::new()), rank, seed, delay).with_flaw(flaw))
    };
    open([engine(0), engine(1)], [None, None])
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

/// Shared memory, as that of registered buffers.
struct Area {
    segment: Arc<Segment>,
    second: SecondMapping,
}

impl Area {
    fn new(len: u64) -> Self {
        let (segment, _) = Segment::new(len, "a test").expect("memory");
        Self { segment: Arc::new(segment), second: SecondMapping::default() }
    }

    fn region(&self, addresses: &Range<usize>) -> Option<Region> {
        self.second.region(&self.segment, &(0..self.segment.len() as u64), addresses)
    }
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

/// Memory for the puts of a connection, by key, of which a call gets a piece.
struct Pieces<'m> {
    memory: Vec<Span<'m>>,
    most: u64,
}

impl Destination<Vec<u8>> for Pieces<'_> {
    fn buffer(&mut self, len: u64) -> Option<Vec<u8>> {
        Some(vec![0; len as usize])
    }

    fn memory(&mut self, put: &Frame, at: u64) -> Option<Span<'_>> {
        let FrameKind::Put { to, .. } = put.kind else { return None };
        // Every fifth put needs a buffer.
        (to.key % 5 != 4).then(|| self.memory[to.key as usize].range(at, self.most))
    }
}

/// Puts of memory are received into memory, in their order, whatever the sizes of the pieces, while the socket is full or not.
#[test]
fn tcp_moves_memory_to_memory() {
    let lens = [1 << 16, 5, (1 << 18) + 1, 1 << 18, 40_000, 1 << 16, 3, (1 << 19) + 7, 70_001, 1 << 17];
    let sources: Vec<Vec<u8>> = (0..).zip(lens).map(|(key, len)| content(key, len)).collect();
    for most in [1000, 1 << 16, 1 << 20] {
        let mut results: Vec<Vec<u8>> = lens.iter().map(|&len| vec![0; len as usize]).collect();
        let [mut from, mut to_rank] = tcp();
        let table = Table::default();
        let run = || {
            let held = table.hold();
            let slices = held.memory();
            let mut pieces = Pieces { memory: (lens.len()..2 * lens.len()).map(|at| slices.slice(at)).collect(), most };
            let (mut key, mut done, mut arrived, mut rounds) = (0, 0, 0, 0_u32);
            while arrived < 2 * lens.len() {
                rounds += 1;
                if key < lens.len() {
                    let source = slices.slice(key).range(done, u64::MAX);
                    let sent = from.put_from(1, id(1), to(key as u64), source, &|| None);
                    if sent.is_none() {
                        let source = Some(sources[key].clone());
                        from.put(1, id(1), to(key as u64), lens[key], source);
                    }
                    done += sent.unwrap_or(lens[key]);
                    if done == lens[key] {
                        from.signal(1, id(1), channel(key as u64));
                        (key, done) = (key + 1, 0);
                    }
                }
                from.progress();
                // The reader is late, so that the socket becomes full.
                if rounds % 7 != 0 && key < lens.len() {
                    continue;
                }
                if let Received::Message(frame, buffer) = to_rank.receive(0, 1, &mut pieces).expect("valid") {
                    let number = (arrived / 2) as u64;
                    match frame.kind {
                        FrameKind::Put { to: at, len } => {
                            assert_eq!((at, len), (to(number), lens[number as usize]));
                            assert_eq!(buffer.is_some(), number % 5 == 4);
                            if let Some(buffer) = buffer {
                                pieces.memory[number as usize].write(&buffer);
                            }
                        }
                        kind => assert_eq!(kind, FrameKind::Signal(channel(number))),
                    }
                    arrived += 1;
                }
            }
            assert!(from.is_flushed(1));
        };
        table.lend(
            |lender| {
                sources.iter().for_each(|source| lender.push(Loan::Read(source)));
                results.iter_mut().for_each(|result| lender.push(Loan::Write(result)));
            },
            run,
        );
        assert!(results == sources, "pieces of {most} bytes");
    }
}

/// Bytes of authenticated connections become visible only once they are verified.
#[test]
fn authenticated_tcp_uses_buffers() {
    let source = content(0, 1 << 16);
    let mut result = vec![0; 1 << 16];
    let [mut from, mut to_rank] = authenticated_tcp();
    let table = Table::default();
    let run = || {
        let held = table.hold();
        let slices = held.memory();
        assert_eq!(from.put_from(1, id(1), to(0), slices.slice(0), &|| None), None);
        from.put(1, id(1), to(0), 1 << 16, Some(source.clone()));
        let mut pieces = Pieces { memory: vec![slices.slice(1)], most: u64::MAX };
        loop {
            from.progress();
            if let Received::Message(_, buffer) = to_rank.receive(0, 1, &mut pieces).expect("valid") {
                assert_eq!(buffer.as_ref(), Some(&source));
                return;
            }
        }
    };
    table.lend(
        |lender| {
            lender.push(Loan::Read(&source));
            lender.push(Loan::Write(&mut result));
        },
        run,
    );
    assert!(result.iter().all(|&byte| byte == 0));
}

#[test]
fn tcp_keeps_the_order() {
    check_order(tcp(), "TCP").unwrap();
    check_order(authenticated_tcp(), "authenticated TCP").unwrap();
}

#[test]
fn hostile_engine_keeps_the_order() {
    for seed in 0..std::env::var("MSCCLPP_SOAK").ok().and_then(|text| text.parse().ok()).unwrap_or(40) {
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
    for pair in [tcp(), authenticated_tcp(), hostile(1, None)] {
        check_stay(pair);
    }
}

fn check_stay([mut from, mut to_rank]: Pair) {
    {
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
    for pair in [tcp(), authenticated_tcp(), hostile(1, None)] {
        check_last(pair);
    }
}

fn check_last([mut zero, mut one]: Pair) {
    one.signal(0, id(1), channel(1));
    one.close(0, id(1), Signal::Leave);
    assert_eq!(receive_all(&mut *zero), [channel(1), Signal::Leave]);
}

#[test]
fn no_message_follows_part_of_another_one() {
    for pair in [tcp(), authenticated_tcp()] {
        check_close(pair);
    }
}

fn check_close([mut zero, mut one]: Pair) {
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
    check_lost(tcp());
}

fn check_lost([mut zero, one]: Pair) {
    drop(one);
    while !matches!(zero.lost(1), Some(Lost::Failed(_))) {
        zero.put(1, id(1), to(1), 5, Some(vec![0; 5]));
        zero.progress();
    }
    zero.put(1, id(1), to(1), 5, Some(vec![0; 5]));
    assert!(zero.is_flushed(1) && !zero.progress());
}

/// Number of bytes before those of a put, with a seal.
const PREFIX: usize = 7 * 8 + mscclpp_bootstrap::SEAL_BYTES;

/// Returns the bytes of an authenticated connection that carries the messages of `check_changed`, one by one, and the
/// keys of its receiver.
fn record() -> (Vec<Vec<u8>>, StreamKeys) {
    let [send, receive] = StreamKeys::pair().expect("random numbers");
    let [one, mut other] = streams();
    let mut engine = Tcp::<Vec<u8>>::new();
    engine.open(1, one, Some(send)).expect("a socket");
    let mut messages = Vec::new();
    for key in 0..6 {
        let len = [40, 1, 700][key as usize % 3];
        match key % 2 {
            0 => engine.put(1, id(1), to(key), len, Some(content(key, len))),
            _ => engine.signal(1, id(1), channel(key)),
        }
        while !engine.is_flushed(1) {
            engine.progress();
        }
        let mut bytes = vec![0; PREFIX + if key % 2 == 0 { len as usize } else { 0 }];
        std::io::Read::read_exact(&mut other, &mut bytes).expect("a message");
        messages.push(bytes);
    }
    (messages, receive)
}

/// Receives the bytes of a connection, and returns the keys of its messages and how it ended.
fn replay(bytes: &[u8], keys: StreamKeys) -> (Vec<u64>, Option<Malformed>) {
    let [one, mut other] = streams();
    let mut engine = Tcp::<Vec<u8>>::new();
    engine.open(0, one, Some(keys)).expect("a socket");
    std::io::Write::write_all(&mut other, bytes).expect("a connection");
    drop(other);
    let mut received = Vec::new();
    loop {
        match engine.receive(0, 1, &mut |len| Some(vec![0; len as usize])) {
            Ok(Received::Message(Frame { kind, .. }, buffer)) => match kind {
                FrameKind::Put { to, len } => {
                    assert_eq!(buffer.expect("its bytes"), content(to.key, len));
                    received.push(to.key);
                }
                FrameKind::Signal(Signal::Channel(to)) => received.push(to.key),
                other => panic!("{other:?}"),
            },
            Ok(Received::Part) => {}
            Ok(Received::Nothing) if engine.lost(0).is_some() => return (received, None),
            Ok(Received::Nothing) => {}
            Err(malformed) => {
                let again = engine.receive(0, 1, &mut |_| panic!("no message follows"));
                assert_eq!(again.expect_err("no message follows"), malformed);
                return (received, Some(malformed));
            }
        }
    }
}

#[test]
fn changed_messages_fail_authentication_and_are_not_delivered() {
    let seed = std::env::var("MSCCLPP_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5eed_u64);
    println!("MSCCLPP_SEED={seed}");
    let mut random = seed | 1;
    let mut below = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % n
    };
    let (messages, keys) = record();
    assert_eq!(replay(&messages.concat(), keys.clone()), ((0..6).collect(), None));
    let mut cases = Vec::new();
    for at in 0..messages.len() {
        // Every word of the frame, the digest, the code, and the bytes of a put.
        for part in (0..7).map(|word| word * 8..word * 8 + 8).chain([56..88, 88..PREFIX, PREFIX..usize::MAX]) {
            let part = part.start..part.end.min(messages[at].len());
            if !part.is_empty() {
                let mut changed = messages.clone();
                changed[at][part.start + below(part.len())] ^= 1 << below(8);
                cases.push((at, format!("bit in bytes {part:?} of message {at}"), changed));
            }
        }
        let mut changed = messages.clone();
        changed.insert(at + 1, messages[at].clone());
        cases.push((at + 1, format!("message {at} repeated"), changed));
        if at + 1 < messages.len() {
            let mut changed = messages.clone();
            changed.remove(at);
            cases.push((at, format!("message {at} dropped"), changed));
            let mut changed = messages.clone();
            changed.swap(at, at + 1);
            cases.push((at, format!("message {at} after the next one"), changed));
            let mut changed = messages.clone();
            changed[at].truncate(messages[at].len() - 5);
            cases.push((at, format!("end of message {at} dropped"), changed));
        }
    }
    for (at, what, changed) in cases {
        let expected = Malformed::Unauthenticated { number: at as u64 + 1 };
        assert_eq!(replay(&changed.concat(), keys.clone()), ((0..at as u64).collect(), Some(expected)), "{what}");
    }
    let [other, _] = StreamKeys::pair().expect("random numbers");
    let found = replay(&messages.concat(), other);
    assert_eq!(found, (Vec::new(), Some(Malformed::Unauthenticated { number: 1 })), "keys of another connection");
}

/// Sends `count` puts of `len` bytes, and waits for a signal of the receiver after each `window` of them. Returns the time.
fn time_puts([mut from, mut to_rank]: Pair, len: u64, count: u64, window: u64) -> Duration {
    let mut buffers = vec![vec![0; len as usize]; 4];
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut spare = Vec::new();
            for number in 1..=count {
                loop {
                    match to_rank.receive(0, 1, &mut |_| buffers.pop().or_else(|| spare.pop())).expect("valid") {
                        Received::Message(_, buffer) => break spare.extend(buffer),
                        Received::Part | Received::Nothing => {}
                    }
                }
                if number % window == 0 {
                    to_rank.signal(0, id(1), Signal::Call);
                    to_rank.progress();
                }
            }
        });
        let source: Arc<[u8]> = content(1, len).into();
        let start = Instant::now();
        for number in 1..=count {
            while !from.has_room(1) {
                from.progress();
            }
            from.put(1, id(1), to(number), len, Some(source.to_vec()));
            from.progress();
            let is_answered = |from: &mut Box<dyn Transport<Vec<u8>>>| {
                from.progress();
                matches!(from.receive(1, 1, &mut |_| None), Ok(Received::Message(..)))
            };
            if number % window == 0 {
                while !is_answered(&mut from) {}
            }
        }
        start.elapsed()
    })
}

#[test]
#[ignore = "a measurement"]
fn measure_the_cost_of_authentication() {
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    for (len, count, window) in [(8, 20_000, 1), (4096, 20_000, 1), (65_536, 4000, 1), (1 << 20, 1000, 100)] {
        let (mut plain, mut authenticated) = (Vec::new(), Vec::new());
        for _ in 0..11 {
            for (pair, times) in [(tcp(), &mut plain), (authenticated_tcp(), &mut authenticated)] {
                times.push(time_puts(pair, len, count, window).as_secs_f64() / count as f64);
            }
        }
        for (name, times) in [("plain", plain), ("authenticated", authenticated)] {
            let time = median(times);
            println!("{name}: {len} bytes, {:.2} us, {:.3} GB/s", time * 1e6, len as f64 / time / 1e9);
        }
    }
}
