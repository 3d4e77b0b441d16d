//! What cannot be seen from outside of the engine.

use std::time::{Duration, Instant};

use mscclpp_bootstrap::{StreamKeys, digest};

use super::inbox::{MAX_EAGER_BYTES, PREFIX_BYTES, WINDOW};
use super::transfer::Content;
use super::*;
use crate::RemoteAddress;
use crate::frame::FRAME_BYTES;
use crate::tests::streams;

/// Returns the engines of ranks 0 and 1, which have received a signal from each other.
fn pair(keys: [Option<StreamKeys>; 2]) -> [Ucx<Vec<u8>>; 2] {
    let mut pair = [(), ()].map(|()| Ucx::new(true).expect("a UCX, see scripts/ucx-env.sh"));
    for (((engine, peer), stream), keys) in pair.iter_mut().zip([1, 0]).zip(streams()).zip(keys) {
        engine.open(peer, stream, keys).expect("a socket");
        engine.signal(peer, id(), Signal::Call);
    }
    let mut received = [false; 2];
    while received.contains(&false) || (0..2).any(|rank| !pair[rank].is_flushed(1 - rank as u32)) {
        for rank in 0..2 {
            pair[rank].progress();
            received[rank] |= matches!(receive(&mut pair[rank], 1 - rank as u32), Ok(Received::Message(..)));
        }
    }
    pair
}

fn id() -> LaunchId {
    LaunchId { plan: 1, launch: 1, call: 1 }
}

fn receive(engine: &mut Ucx<Vec<u8>>, peer: u32) -> Result<Received<Vec<u8>>, Malformed> {
    engine.receive(peer, 1, &mut |len| Some(vec![0; len as usize]))
}

fn connection(engine: &mut Ucx<Vec<u8>>, peer: u32) -> (MutexGuard<'_, Worker>, &mut Connection<Vec<u8>>) {
    match (engine.links.get_mut(&peer), worker_of(&engine.progress)) {
        (Some(Link::Ucx(connection)), Some(worker)) => (worker, connection),
        _ => panic!("no connection over UCX"),
    }
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_receiver_keeps_a_bounded_number_of_messages() {
    let [mut zero, mut one] = pair([None, None]);
    const MESSAGES: u64 = 3 * WINDOW;
    for _ in 0..MESSAGES {
        // Each of them fills a batch.
        let source = Some(vec![0; MAX_EAGER_BYTES]);
        zero.put(1, id(), RemoteAddress { key: 1, offset: 0 }, MAX_EAGER_BYTES as u64, source);
    }
    // The receiver lets UCX work, and asks for no message.
    for _ in 0..10_000 {
        zero.progress();
        one.progress();
    }
    let sender = connection(&mut zero, 1).1;
    assert_eq!((sender.num_sent(), sender.is_flushed()), (WINDOW, false));
    let mut received = 0;
    while received < MESSAGES {
        zero.progress();
        received += u64::from(matches!(receive(&mut one, 0), Ok(Received::Message(..))));
    }
}

/// A launch does not wait for what follows its end, whatever the peer sends.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_receives_no_bytes_after_the_end_of_a_launch() {
    let [mut zero, mut one] = pair([None, None]);
    zero.signal(1, id(), Signal::End);
    zero.put(1, id(), RemoteAddress { key: 1, offset: 0 }, 100_000, Some(vec![0; 100_000]));
    for _ in 0..1000 {
        zero.progress();
        one.progress();
    }
    let received = one.receive(0, 1, &mut |_| panic!("memory for the put")).expect("valid");
    assert!(matches!(received, Received::Message(Frame { kind: FrameKind::Signal(Signal::End), .. }, None)));
    loop {
        zero.progress();
        if let Received::Message(frame, buffer) = receive(&mut one, 0).expect("valid") {
            assert_eq!((frame.len(), buffer.map(|buffer| buffer.len())), (100_000, Some(100_000)));
            break;
        }
    }
}

/// A destination may have fewer buffers than messages that arrive at once. They go to the first ones, whatever carries these.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_messages_get_buffers_in_their_order() {
    const LONG: u64 = 100_000;
    for lens in [[3, LONG, LONG, LONG], [LONG, 3, LONG, LONG], [LONG, LONG, 3, LONG]] {
        let [mut zero, mut one] = pair([None, None]);
        for (key, &len) in (0..).zip(&lens) {
            zero.put(1, id(), RemoteAddress { key, offset: 0 }, len, Some(vec![7; len as usize]));
        }
        // All of them arrive before the launch.
        for _ in 0..1000 {
            zero.progress();
            one.progress();
            assert!(matches!(one.receive(0, 0, &mut |_| panic!("a buffer before the launch")), Ok(Received::Nothing)));
        }
        let mut free = vec![vec![0; LONG as usize]; 2];
        let (mut received, start) = (Vec::new(), Instant::now());
        while received.len() < lens.len() {
            assert!(start.elapsed() < Duration::from_secs(20), "{lens:?}: only {received:?} arrive");
            zero.progress();
            if let Received::Message(frame, buffer) = one.receive(0, 1, &mut |_| free.pop()).expect("valid") {
                received.push(frame.len());
                free.push(buffer.expect("bytes"));
            }
        }
        assert_eq!(received, lens);
    }
}

/// The last message of a peer may be lost on its way and sent again long after the end of its stream.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_peer_that_has_ended_is_lost_only_after_its_last_message() {
    let [mut zero, mut one] = pair([None, None]);
    let (worker, sender) = connection(&mut zero, 1);
    let count = sender.num_sent() + 1;
    sender.end_stream(count);
    drop(worker);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(1) {
        assert!(matches!(receive(&mut one, 0), Ok(Received::Nothing)));
        assert_eq!(one.lost(0), None, "after {:?}", start.elapsed());
    }
    let (worker, sender) = connection(&mut zero, 1);
    let signal = Frame { launch: id(), kind: FrameKind::Signal(Signal::Call) }.encode();
    let batch = Content::<Vec<u8>>::Batch(signal.to_vec());
    let _transfer = worker.send(sender.endpoint(), &header(&sender.token(), count, &[]), batch);
    drop(worker);
    while !matches!(receive(&mut one, 0).expect("valid"), Received::Message(..)) {
        zero.progress();
    }
    // Nothing is on its way any more, so that no time has to pass.
    receive(&mut one, 0).expect("valid");
    assert_eq!(one.lost(0), Some(Lost::Closed));
}

/// A rank that has waited for long makes few calls, between which it sleeps.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_last_message_arrives_within_a_few_calls() {
    let [mut zero, mut one] = pair([None, None]);
    zero.close(1, id(), Signal::Leave);
    std::thread::sleep(Duration::from_millis(100));
    let has_arrived = (0..50).any(|_| matches!(receive(&mut one, 0), Ok(Received::Message(..))));
    assert!(has_arrived, "the stream was not read");
}

/// Returns the header of an active message.
fn header(token: &Token, number: u64, frames: &[u8]) -> Vec<u8> {
    [&token[..], &number.to_le_bytes(), frames].concat()
}

fn put(len: u64) -> [u8; FRAME_BYTES] {
    Frame { launch: id(), kind: FrameKind::Put { to: RemoteAddress { key: 1, offset: 0 }, len } }.encode()
}

/// Returns why rank 1 refuses what rank 0 has sent.
fn refused(zero: &mut Ucx<Vec<u8>>, one: &mut Ucx<Vec<u8>>) -> Malformed {
    loop {
        zero.progress();
        match receive(one, 0) {
            Ok(Received::Message(frame, _)) => panic!("{frame:?}"),
            Ok(_) => {}
            Err(malformed) => return malformed,
        }
    }
}

/// A batch that ends within a message, or has a long one.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_batch_with_part_of_a_message_ends_the_connection() {
    let signal = Frame { launch: id(), kind: FrameKind::Signal(Signal::Call) }.encode();
    for (rest, expected) in [
        (vec![0; 3], Malformed::TooLong { len: 112, most: 59 }),
        (put(5).to_vec(), Malformed::TooLong { len: 117, most: 112 }),
        (put(u64::MAX).to_vec(), Malformed::TooLong { len: u64::MAX, most: MAX_PUT_BYTES }),
    ] {
        let [mut zero, mut one] = pair([None, None]);
        let (worker, sender) = connection(&mut zero, 1);
        let batch = Content::<Vec<u8>>::Batch([&signal[..], &rest].concat());
        let _transfer = worker.send(sender.endpoint(), &header(&sender.token(), 2, &[]), batch);
        drop(worker);
        assert_eq!(refused(&mut zero, &mut one), expected);
    }
}

/// Signals go with the offer before them, and are received after its bytes.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_offer_has_the_signals_that_follow_it() {
    for keys in [[None, None], StreamKeys::pair().expect("random numbers").map(Some)] {
        let [mut zero, mut one] = pair(keys);
        let before = connection(&mut zero, 1).1.num_sent();
        zero.put(1, id(), RemoteAddress { key: 1, offset: 0 }, 100_000, Some(vec![7; 100_000]));
        // More than a header has room for.
        (0..9).for_each(|_| zero.signal(1, id(), Signal::Call));
        let mut received = Vec::new();
        while received.len() < 10 {
            zero.progress();
            if let Received::Message(frame, buffer) = receive(&mut one, 0).expect("valid") {
                received.push((frame.len(), buffer.is_some_and(|buffer| buffer == [7; 100_000])));
            }
        }
        assert_eq!(received[0], (100_000, true));
        assert_eq!(received[1..], [(0, false); 9]);
        assert_eq!(connection(&mut zero, 1).1.num_sent(), before + 2);
    }
}

/// What follows the frame of an offer is no part of a signal, nor a put.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_offer_with_other_bytes_than_signals_ends_the_connection() {
    for (rest, expected) in [
        (vec![0; 3], Malformed::TooLong { len: 56, most: 3 }),
        (put(5).to_vec(), Malformed::TooLong { len: 61, most: 56 }),
    ] {
        let [mut zero, mut one] = pair([None, None]);
        let (worker, sender) = connection(&mut zero, 1);
        let mut frames = [0; PREFIX_BYTES];
        frames[..FRAME_BYTES].copy_from_slice(&put(100_000));
        let header = header(&sender.token(), 2, &[&frames[..], &rest].concat());
        let offer = Content::Offer(Memory::Buffer(vec![0; 100_000]), 100_000);
        let _transfer = worker.send(sender.endpoint(), &header, offer);
        drop(worker);
        assert_eq!(refused(&mut zero, &mut one), expected);
    }
}

/// A message that was changed, dropped or sent with other keys.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_messages_that_fail_authentication_are_not_delivered() {
    for (seal_of, content, skipped) in [("abc", "abd", 0), ("abc", "abc", 1), ("abcd", "abc", 0)] {
        for len in [3, 100_000] {
            let [mut zero, mut one] = pair(StreamKeys::pair().expect("random numbers").map(Some));
            let pad = |text: &str| [text.as_bytes(), &vec![7; len]].concat();
            let (sealed, bytes) = (pad(seal_of), pad(content));
            let (worker, sender) = connection(&mut zero, 1);
            let frame = put(bytes.len() as u64);
            let keys = sender.keys_mut().expect("keys");
            for _ in 0..skipped {
                keys.send.seal(&frame, &digest(&sealed));
            }
            let seal = keys.send.seal(&frame, &digest(&sealed));
            // The second message.
            let prefix = [&frame[..], &seal].concat();
            let (frames, source) = match bytes.len() {
                len if len > MAX_EAGER_BYTES => (prefix, Content::Offer(Memory::Buffer(bytes), len)),
                _ => (Vec::new(), Content::Batch([prefix, bytes].concat())),
            };
            let _transfer = worker.send(sender.endpoint(), &header(&sender.token(), 2, &frames), source);
            drop(worker);
            let malformed = refused(&mut zero, &mut one);
            assert_eq!(malformed, Malformed::Unauthenticated { number: 2 });
            assert_eq!(receive(&mut one, 0).expect_err("no message follows"), malformed);
        }
    }
}

/// Without a connection's token, bytes reach nothing.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_messages_of_no_connection_are_dropped() {
    let [mut zero, mut one] = pair([None, None]);
    for (frames, content) in [
        (&[][..], Content::Batch(vec![])),
        (&[], Content::Batch(vec![0; 100])),
        (&[0; PREFIX_BYTES], Content::Offer(Memory::Buffer(vec![0; 100_000]), 100_000)),
    ] {
        let (worker, sender) = connection(&mut zero, 1);
        let mut transfer = worker.send(sender.endpoint(), &header(&[0; _], 1, frames), content);
        while worker.poll(&mut transfer).is_none() {
            worker.progress();
            assert!(matches!(receive(&mut one, 0), Ok(Received::Nothing)));
        }
    }
    zero.signal(1, id(), Signal::End);
    let frame = loop {
        zero.progress();
        if let Received::Message(frame, _) = receive(&mut one, 0).expect("valid") {
            break frame;
        }
    };
    assert_eq!(frame.kind, FrameKind::Signal(Signal::End));
}

/// The rank that UCX of its peer has lost knows why, though UCX of its own may still reach the peer.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_peer_is_told_why_it_is_lost() {
    let [mut zero, mut one] = pair([None, None]);
    let (worker, sender) = connection(&mut zero, 1);
    sender.break_off("a test".into());
    drop(worker);
    while one.lost(0).is_none() {
        zero.progress();
        one.progress();
        assert!(matches!(receive(&mut one, 0), Ok(Received::Nothing)));
    }
    assert_eq!(one.lost(0), Some(Lost::Failed("UCX on the other side: a test".into())));
}

/// Messages that no peer sends are not kept: repeated, far ahead, without a frame, or long without the receiver's request.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_messages_outside_of_the_window_end_the_connection() {
    for (number, len) in [(1, 100), (2 + WINDOW, 100), (0, 100), (2, 0), (2, 50_000)] {
        let [mut zero, mut one] = pair([None, None]);
        let (worker, sender) = connection(&mut zero, 1);
        let _transfer = worker.send(
            sender.endpoint(),
            &header(&sender.token(), number, &[]),
            Content::<Vec<u8>>::Batch(vec![0; len]),
        );
        drop(worker);
        loop {
            zero.progress();
            match receive(&mut one, 0) {
                Ok(Received::Message(frame, _)) => panic!("{number}: {frame:?}"),
                Ok(_) => {}
                Err(malformed) => break assert_eq!(malformed, Malformed::Frame([0; 7])),
            }
        }
    }
}
