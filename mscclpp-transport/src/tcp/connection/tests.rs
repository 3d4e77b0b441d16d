use std::io::Write;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::tests::streams;
use crate::{FrameKind, LaunchId, RemoteAddress, Signal};

const MOST: u64 = 200;

fn frames() -> impl Strategy<Value = Frame> {
    let to = any::<[u64; 2]>().prop_map(|[key, offset]| RemoteAddress { key, offset });
    let kind = prop_oneof![
        (to.clone(), 0..=MOST).prop_map(|(to, len)| FrameKind::Put { to, len }),
        (to.clone(), any::<u64>()).prop_map(|(to, len)| FrameKind::Zeros { to, len }),
        to.prop_map(|to| FrameKind::Signal(Signal::Channel(to))),
        prop::sample::select(vec![Signal::Call, Signal::End, Signal::Leave, Signal::Abort]).prop_map(FrameKind::Signal),
    ];
    (any::<[u64; 2]>(), 0..3_u64, kind)
        .prop_map(|([plan, call], launch, kind)| Frame { launch: LaunchId { plan, launch, call }, kind })
}

/// Encoded messages, with random bytes in puts.
fn stream_of(frames: &[Frame]) -> Vec<u8> {
    frames.iter().flat_map(|frame| [frame.encode().to_vec(), vec![0x5a; frame.len() as usize]].concat()).collect()
}

/// Receives what a peer sent as these bytes before it closed the connection, all launches in their order. Returns the
/// messages, and whether they ended with an error.
fn received(bytes: &[u8], cut: usize) -> (Vec<Frame>, bool) {
    let [mut peer, stream] = streams();
    let mut connection = Connection::<Vec<u8>>::new(stream, None).expect("a socket");
    let (first, rest) = bytes.split_at(cut);
    peer.write_all(first).expect("a few bytes");
    let (mut found, mut rest) = (Vec::new(), Some(rest));
    loop {
        let mut buffer = |len| {
            assert!(len <= MOST, "{len} bytes");
            Some(vec![0; len as usize])
        };
        match connection.receive(u64::MAX, MOST, &mut buffer) {
            Ok(Received::Message(frame, buffer)) => {
                assert_eq!(buffer.map_or(0, |buffer| buffer.len() as u64), frame.len());
                found.push(frame);
            }
            Ok(Received::Part) => {}
            Ok(Received::Nothing) if connection.lost() == Some(Lost::Closed) => return (found, false),
            Ok(Received::Nothing) => {
                if let Some(rest) = rest.take() {
                    peer.write_all(rest).expect("a few bytes");
                    peer.shutdown(Shutdown::Write).expect("a socket");
                }
            }
            Err(error) => {
                let again = connection.receive(u64::MAX, MOST, &mut buffer);
                assert_eq!(again.err(), Some(error), "nothing follows");
                return (found, true);
            }
        }
    }
}

proptest! {
    #[test]
    fn frames_survive_encoding(frame in frames()) {
        prop_assert_eq!(Frame::decode(&frame.encode(), MOST), Ok(frame));
    }

    #[test]
    fn arbitrary_frame_is_rejected_or_the_encoding_of_what_it_decodes_to(words in any::<[u64; 7]>(), kind in 0..9_u64) {
        let mut bytes = [0; FRAME_BYTES];
        let words = [&[kind], &words[1..]].concat();
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        if let Ok(frame) = Frame::decode(&bytes, MOST) {
            prop_assert_eq!(frame.encode(), bytes);
            prop_assert!(frame.len() <= MOST);
        }
    }

    #[test]
    fn messages_arrive_in_any_pieces(frames in prop::collection::vec(frames(), 0..12), cut in any::<Index>()) {
        let bytes = stream_of(&frames);
        prop_assert_eq!(received(&bytes, cut.index(bytes.len() + 1)), (frames, false));
    }

    /// A changed, cut or arbitrary stream ends with an error or as a closed connection, after the messages before the change.
    #[test]
    fn hostile_bytes_end_the_connection(
        frames in prop::collection::vec(frames(), 1..8), at in any::<Index>(), cut in any::<Index>(),
        noise in prop::collection::vec(any::<u8>(), 0..80), keep in any::<bool>(),
    ) {
        let mut bytes = stream_of(&frames);
        let at = at.index(bytes.len());
        let end = if keep { (at + noise.len()).min(bytes.len()) } else { bytes.len() };
        bytes.splice(at..end, noise);
        let (found, _) = received(&bytes, cut.index(bytes.len() + 1));
        let mut whole = 0;
        let before = frames.iter().take_while(|frame| {
            whole += FRAME_BYTES + frame.len() as usize;
            whole <= at
        });
        let before: Vec<_> = before.copied().collect();
        prop_assert!(found.starts_with(&before), "{found:?}, expected {before:?} first");
    }
}

#[test]
fn long_messages_are_rejected() {
    let to = RemoteAddress { key: 1, offset: 0 };
    let frame = |len| Frame { launch: LaunchId::default(), kind: FrameKind::Put { to, len } };
    assert_eq!(Frame::decode(&frame(MOST).encode(), MOST), Ok(frame(MOST)));
    for len in [MOST + 1, u64::MAX] {
        let error = Frame::decode(&frame(len).encode(), MOST).expect_err("too long");
        assert_eq!(error.to_string(), format!("it sent a message of {len} bytes, expected at most 200 bytes"));
    }
}
