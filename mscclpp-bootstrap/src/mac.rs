//! Authentication of the frames on a connection.
//!
//! Each direction of a connection has a key of its own and numbers its frames. The seal of a frame is the SHA-256 of its
//! body, and the first half of the HMAC-SHA256 of the frame's number, its header and that digest. The seal is sent between
//! header and body, so the receiver never acts on a header, not even on its length, that it has not verified, and it
//! compares the body with a digest that it has verified. A frame that was changed, repeated, dropped, reordered or
//! injected, or that belongs to another connection or to the other direction, thus fails authentication: it, or the frame
//! after it, does not have the number that the receiver expects.
//!
//! The digest of a body is the same for all receivers, so that a frame for many ranks is read once.

use std::fmt::{self, Debug, Formatter};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256};

/// Length of a digest, in bytes.
const DIGEST_BYTES: usize = 32;
/// Length of a seal, in bytes: a digest, and a code of 16 bytes.
pub const SEAL_BYTES: usize = DIGEST_BYTES + 16;

/// Digest of a frame's body.
pub type Digest = [u8; DIGEST_BYTES];
/// Authenticates the header and the body of one frame.
pub type Seal = [u8; SEAL_BYTES];

/// Key of one direction of a connection, and the number of the next frame.
#[derive(Clone)]
pub struct FrameKey {
    mac: Hmac<Sha256>,
    /// The first frame has number 1.
    next: u64,
}

/// Keys of both directions of a connection, as one end uses them.
#[derive(Clone, Debug)]
pub struct StreamKeys {
    /// Key of the frames that this end sends.
    pub send: FrameKey,
    /// Key of the frames that this end receives.
    pub receive: FrameKey,
}

/// Computes the digest of a body that is available in parts.
#[derive(Clone, Debug, Default)]
pub struct BodyHasher(Sha256);

impl FrameKey {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self { mac: hmac(key), next: 1 }
    }

    /// Returns the number of the next frame; the first one has number 1.
    pub fn number(&self) -> u64 {
        self.next
    }

    /// Returns the seal of the next frame to send.
    pub fn seal(&mut self, header: &[u8], body: &Digest) -> Seal {
        let code = self.mac_of(header, body).finalize().into_bytes();
        self.next += 1;
        let mut seal = [0; SEAL_BYTES];
        let (first, second) = seal.split_at_mut(DIGEST_BYTES);
        first.copy_from_slice(body);
        second.copy_from_slice(&code[..SEAL_BYTES - DIGEST_BYTES]);
        seal
    }

    /// Forgets the last `frames` frames, which were not sent.
    pub fn forget(&mut self, frames: u64) {
        self.next -= frames.min(self.next - 1);
    }

    /// Returns the digest of the next frame's body if the seal is valid for its header; `None` if the frame fails
    /// authentication. The time does not depend on where the codes differ.
    pub fn open(&mut self, header: &[u8], seal: &Seal) -> Option<Digest> {
        let (body, code) = seal.split_first_chunk::<DIGEST_BYTES>()?;
        self.mac_of(header, body).verify_truncated_left(code).ok()?;
        self.next += 1;
        Some(*body)
    }

    /// All headers of a connection have one length, so no two frames have the same encoding.
    fn mac_of(&self, header: &[u8], body: &Digest) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(&self.next.to_le_bytes());
        mac.update(header);
        mac.update(body);
        mac
    }
}

impl StreamKeys {
    /// Returns the keys of both ends of a connection, from the keys of the frames that the first and the second end send.
    pub(crate) fn of_ends([first, second]: [&[u8; 32]; 2]) -> [Self; 2] {
        let (first, second) = (FrameKey::new(first), FrameKey::new(second));
        [Self { send: first.clone(), receive: second.clone() }, Self { send: second, receive: first }]
    }
}

impl BodyHasher {
    /// Adds the next part of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of the parts, and starts again.
    pub fn finish(&mut self) -> Digest {
        self.0.finalize_reset().into()
    }
}

/// Returns the digest of a body.
pub fn digest(body: &[u8]) -> Digest {
    Sha256::digest(body).into()
}

/// Returns HMAC-SHA256 with a key of at most 64 bytes.
pub(crate) fn hmac(key: &[u8]) -> Hmac<Sha256> {
    let mut block = [0; 64];
    block[..key.len()].copy_from_slice(key);
    Hmac::<Sha256>::new(&block.into())
}

/// Omits the key.
impl Debug for FrameKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "FrameKey(.., frame {})", self.next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair() -> (FrameKey, FrameKey) {
        (FrameKey::new(&[7; 32]), FrameKey::new(&[7; 32]))
    }

    #[test]
    fn frames_in_order_are_opened_and_others_are_not() {
        let (mut send, mut receive) = pair();
        let body = digest(b"body");
        let [one, two, three] = [send.seal(b"h", &body), send.seal(b"h", &body), send.seal(b"h", &body)];
        assert_eq!(receive.open(b"h", &one), Some(body));
        // Repeated, and out of order.
        assert_eq!(receive.open(b"h", &one), None);
        assert_eq!(receive.open(b"h", &three), None);
        assert_eq!(receive.open(b"i", &two), None);
        assert_eq!(FrameKey::new(&[8; 32]).open(b"h", &one), None);
        assert_eq!((receive.open(b"h", &two), receive.open(b"h", &three)), (Some(body), Some(body)));
    }

    #[test]
    fn forgotten_frames_do_not_count() {
        let (mut send, mut receive) = pair();
        let body = digest(&[]);
        assert!(receive.open(b"h", &send.seal(b"h", &body)).is_some());
        _ = (send.seal(b"x", &body), send.seal(b"y", &body));
        send.forget(2);
        assert!(receive.open(b"z", &send.seal(b"z", &body)).is_some());
        send.forget(u64::MAX);
        assert_eq!(send.number(), 1);
    }

    #[test]
    fn debug_omits_keys() {
        assert_eq!(format!("{:?}", pair().0), "FrameKey(.., frame 1)");
    }

    proptest! {
        #[test]
        fn flipped_bit_is_rejected(
            header in proptest::collection::vec(any::<u8>(), 1..60),
            body in proptest::collection::vec(any::<u8>(), 0..200),
            bit in any::<proptest::sample::Index>(),
        ) {
            let (mut send, mut receive) = pair();
            let seal = send.seal(&header, &digest(&body));
            let mut bytes = [&header[..], &seal, &body].concat();
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (changed, rest) = bytes.split_at(header.len());
            let (seal, body) = rest.split_first_chunk().unwrap();
            prop_assert!(receive.open(changed, seal) != Some(digest(body)));
        }

        #[test]
        fn digest_does_not_depend_on_parts(body in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let (first, second) = body.split_at(cut.min(body.len()));
            let mut hasher = BodyHasher::default();
            for _ in 0..2 {
                hasher.update(first);
                hasher.update(second);
                prop_assert_eq!(hasher.finish(), digest(&body));
            }
        }
    }
}
