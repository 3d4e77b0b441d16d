//! The job's secret, and how two processes prove to each other that they know it without sending it.
//!
//! Proofs and keys are computed from the secret and the transcript of the handshake: the version of the protocol, the
//! purpose of the connection, and a random nonce of each end. The purpose has the ranks of both ends, the number of ranks
//! for a join; for a stream the communicator, the number of the stream, and the random number of the job, which rank 0
//! draws and sends to each rank when it admits it. So a relay can lead a connection only to the process for which it is
//! meant. The transcript does not contain IP addresses and ports, because the two ends of a connection through address
//! translation or a forwarded port see different ones.
//!
//! Every process that knows the secret can claim any rank: the secret separates the processes of a job from others, not
//! from each other.

use std::fmt::{self, Debug, Formatter};
use std::str::FromStr;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use super::error::Error;
use super::mac::{self, StreamKeys};
use super::protocol::{Nonce, Purpose, VERSION};

/// Length of a secret, in bytes.
const BYTES: usize = 16;

/// A response that only a process with the secret can compute.
pub(crate) type Proof = [u8; 32];

/// A secret of 128 bits that only the processes of one job know.
///
/// It keeps out processes that do not belong to the job, and is never sent. The frames between authenticated ranks are
/// authenticated too, but not encrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

/// The two ends of a handshake. Their proofs and keys differ, so that neither end can replay the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The end that connects.
    Initiator,
    /// The end that listens.
    Responder,
}

/// What both ends of a handshake have sent to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transcript {
    /// Why the initiator connects.
    pub(crate) purpose: Purpose,
    /// Nonces of the initiator and of the responder.
    pub(crate) nonces: [Nonce; 2],
}

/// Keys of an authenticated connection, as one end uses them.
#[derive(Debug)]
pub(crate) struct ConnectionKeys {
    /// Keys of the bootstrap's frames.
    pub(crate) frames: StreamKeys,
    /// Keys of what a stream carries afterwards.
    pub(crate) stream: StreamKeys,
}

impl Secret {
    /// Creates a secret from the system's random numbers.
    ///
    /// # Errors
    /// [`Error::System`] if the system provides none.
    pub fn random() -> Result<Self, Error> {
        random().map(Self)
    }

    /// Derives a secret from values that the processes of one job share, such as the launcher's name of the job.
    ///
    /// It separates jobs. It does not keep out a process that can guess the values.
    pub fn derived(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"mscclpp job secret 1");
        for part in parts {
            // With its length, so that ["ab", "c"] and ["a", "bc"] are different jobs.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut secret = [0; BYTES];
        secret.copy_from_slice(&digest[..BYTES]);
        Self(secret)
    }

    /// Returns the secret as 32 hexadecimal digits, for the environment of a job's processes. Every process that has
    /// them can join.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the proof of one end of a connection.
    pub(crate) fn proof(&self, role: Role, transcript: &Transcript) -> Proof {
        self.mac(role as u8, transcript).finalize().into_bytes().into()
    }

    /// Returns whether `proof` is the expected one, in a time that does not depend on where the two differ.
    pub(crate) fn verify(&self, role: Role, transcript: &Transcript, proof: &Proof) -> bool {
        self.mac(role as u8, transcript).verify_slice(proof).is_ok()
    }

    /// Returns the keys that one end uses after the handshake.
    pub(crate) fn keys(&self, role: Role, transcript: &Transcript) -> ConnectionKeys {
        const LABEL: u8 = 2;
        let base: [u8; 32] = self.mac(LABEL, transcript).finalize().into_bytes().into();
        let key = |label: &[u8]| -> [u8; 32] {
            let mut mac = mac::hmac(&base);
            mac.update(label);
            mac.finalize().into_bytes().into()
        };
        let keys = |initiator: &[u8], responder: &[u8]| {
            let [first, second] = StreamKeys::of_ends([&key(initiator), &key(responder)]);
            if role == Role::Initiator { first } else { second }
        };
        ConnectionKeys {
            frames: keys(b"frames of the initiator", b"frames of the responder"),
            stream: keys(b"stream of the initiator", b"stream of the responder"),
        }
    }

    fn mac(&self, label: u8, transcript: &Transcript) -> Hmac<Sha256> {
        // Every field has a fixed length, so no two transcripts have the same encoding.
        let (kind, from, to, a, b, job) = match transcript.purpose {
            Purpose::Join { rank, ranks, generation } => {
                (0u8, rank, 0, u64::from(ranks), generation.map_or(u64::MAX, u64::from), [0; 16])
            }
            Purpose::Stream { from, to, context, id, job } => (1, from, to, context, id, job),
            Purpose::Observe => (2, 0, 0, 0, 0, [0; 16]),
            Purpose::Locate { rank, ranks } => (3, rank, 0, u64::from(ranks), 0, [0; 16]),
            Purpose::Continue { rank, context, generation } => (4, rank, 0, context, u64::from(generation), [0; 16]),
        };
        let mut mac = mac::hmac(&self.0);
        mac.update(b"mscclpp bootstrap");
        mac.update(&VERSION.to_le_bytes());
        mac.update(&[label, kind]);
        mac.update(&from.to_le_bytes());
        mac.update(&to.to_le_bytes());
        mac.update(&a.to_le_bytes());
        mac.update(&b.to_le_bytes());
        mac.update(&job);
        transcript.nonces.iter().for_each(|nonce| mac.update(nonce));
        mac
    }
}

impl StreamKeys {
    /// Creates the keys of the two ends of a connection within a process.
    ///
    /// # Errors
    /// [`Error::System`] if the system provides no random numbers.
    pub fn pair() -> Result<[Self; 2], Error> {
        Ok(Self::of_ends([&random()?, &random()?]))
    }
}

/// Returns fresh random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        match rustix::rand::getrandom(&mut bytes[at..], rustix::rand::GetRandomFlags::empty()) {
            Ok(got) => at += got,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(Error::System { what: "cannot get random numbers".into(), reason: error.to_string() });
            }
        }
    }
    Ok(bytes)
}

/// Omits the secret.
impl Debug for Secret {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl FromStr for Secret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unreadable = || Error::InvalidText {
            what: "a secret".into(),
            text: "…".into(),
            expected: format!("{} hexadecimal digits, as `openssl rand -hex {BYTES}` prints them", 2 * BYTES),
        };
        let digits = text.as_bytes();
        if digits.len() != 2 * BYTES {
            return Err(unreadable());
        }
        let mut secret = [0; BYTES];
        for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
            let nibble = |digit: u8| char::from(digit).to_digit(16).ok_or_else(unreadable);
            *byte = (nibble(pair[0])? << 4 | nibble(pair[1])?) as u8;
        }
        Ok(Self(secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOIN: Purpose = Purpose::Join { rank: 1, ranks: 4, generation: Some(0) };

    #[test]
    fn text_round_trips() {
        let secret = Secret::random().unwrap();
        assert_eq!(secret.to_hex().parse::<Secret>().unwrap(), secret);
        assert_ne!(Secret::random().unwrap(), secret);
    }

    #[test]
    fn what_is_not_32_digits_is_refused_and_not_repeated() {
        for junk in ["", "hunter2", "0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcdef0", "é"] {
            let error = junk.parse::<Secret>().unwrap_err().to_string();
            assert!(junk.is_empty() || !error.contains(junk), "{error}");
        }
        assert!(!format!("{:?}", Secret([7; 16])).contains('7'));
    }

    const CONTINUE: Purpose = Purpose::Continue { rank: 1, context: 3, generation: 1 };
    const STREAM: Purpose = Purpose::Stream { from: 1, to: 0, context: 3, id: 4, job: [5; 16] };

    /// Every transcript that differs from that of `purpose` with nonces `[1; 16]` and `[2; 16]` in one field.
    fn others(purpose: Purpose) -> Vec<Transcript> {
        let (a, b) = ([1; 16], [2; 16]);
        let purposes = match purpose {
            Purpose::Join { rank, ranks, generation } => vec![
                Purpose::Join { rank: rank + 1, ranks, generation },
                Purpose::Join { rank, ranks: ranks + 1, generation },
                Purpose::Join { rank, ranks, generation: None },
                Purpose::Join { rank, ranks, generation: Some(9) },
                Purpose::Stream { from: rank, to: 0, context: u64::from(ranks), id: 0, job: [0; 16] },
            ],
            Purpose::Stream { from, to, context, id, job } => vec![
                Purpose::Stream { from: from + 1, to, context, id, job },
                Purpose::Stream { from, to: to + 1, context, id, job },
                Purpose::Stream { from, to, context: context + 1, id, job },
                Purpose::Stream { from, to, context, id: id + 1, job },
                Purpose::Stream { from, to, context, id, job: [6; 16] },
                Purpose::Stream { from: to, to: from, context, id, job },
                Purpose::Observe,
            ],
            Purpose::Locate { rank, ranks } => vec![
                Purpose::Locate { rank: rank + 1, ranks },
                Purpose::Locate { rank, ranks: ranks + 1 },
                Purpose::Join { rank, ranks, generation: Some(0) },
            ],
            Purpose::Continue { rank, context, generation } => vec![
                Purpose::Continue { rank: rank + 1, context, generation },
                Purpose::Continue { rank, context: context + 1, generation },
                Purpose::Continue { rank, context, generation: generation + 1 },
            ],
            Purpose::Observe => {
                vec![
                    Purpose::Join { rank: 0, ranks: 0, generation: Some(0) },
                    Purpose::Stream { from: 0, to: 0, context: 0, id: 0, job: [0; 16] },
                ]
            }
        };
        let nonces = [[b, a], [a, a], [b, b]].map(|nonces| Transcript { purpose, nonces });
        purposes.into_iter().map(|purpose| Transcript { purpose, nonces: [a, b] }).chain(nonces).collect()
    }

    #[test]
    fn proof_is_valid_for_one_role_and_transcript() {
        let located = Purpose::Locate { rank: 1, ranks: 4 };
        for purpose in [JOIN, STREAM, located, CONTINUE, Purpose::Observe] {
            let (secret, transcript) = (Secret([7; 16]), Transcript { purpose, nonces: [[1; 16], [2; 16]] });
            let proof = secret.proof(Role::Initiator, &transcript);
            assert!(secret.verify(Role::Initiator, &transcript, &proof));
            assert!(!secret.verify(Role::Responder, &transcript, &proof));
            assert!(!Secret([8; 16]).verify(Role::Initiator, &transcript, &proof));
            for other in others(purpose) {
                assert!(!secret.verify(Role::Initiator, &other, &proof), "{other:?}");
            }
        }
    }

    #[test]
    fn keys_are_valid_for_one_direction_use_and_transcript() {
        let secret = Secret([7; 16]);
        for purpose in [JOIN, STREAM, Purpose::Observe] {
            let transcript = Transcript { purpose, nonces: [[1; 16], [2; 16]] };
            let [first, second] = [Role::Initiator, Role::Responder].map(|role| secret.keys(role, &transcript));
            let body = mac::digest(&[]);
            let seal = first.frames.send.clone().seal(&[0; 12], &body);
            let opens = |key: &mac::FrameKey| key.clone().open(&[0; 12], &seal).is_some();
            assert!(opens(&second.frames.receive));
            for key in [&second.frames.send, &first.frames.receive, &second.stream.receive, &first.stream.send] {
                assert!(!opens(key));
            }
            for other in others(purpose) {
                assert!(!opens(&secret.keys(Role::Responder, &other).frames.receive), "{other:?}");
            }
        }
    }

    #[test]
    fn derived_secret_depends_on_part_boundaries() {
        assert_eq!(Secret::derived(&["ab", "c"]), Secret::derived(&["ab", "c"]));
        assert_ne!(Secret::derived(&["ab", "c"]), Secret::derived(&["a", "bc"]));
    }
}
