//! The job's secret, and how two processes prove to each other that they know it without sending it.

use std::fmt::{self, Debug, Formatter};
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::error::Error;
use super::protocol::{Purpose, VERSION};

/// Length of a secret, in bytes.
const BYTES: usize = 16;

/// A number that is used once.
pub(crate) type Nonce = [u8; 16];
/// A response that only a process with the secret can compute.
pub(crate) type Proof = [u8; 32];

/// A secret of 128 bits that only the processes of one job know.
///
/// It keeps out processes that do not belong to the job, and is never sent. The frames between authenticated ranks are
/// not encrypted.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; BYTES]);

/// The two ends of a handshake. Their responses differ, so that neither end can replay the other's.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    /// The end that connects.
    Initiator,
    /// The end that listens.
    Responder,
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

    /// Returns the response of one end of a connection.
    pub(crate) fn response(&self, role: Role, purpose: &Purpose, caller: &Nonce, listener: &Nonce) -> Proof {
        self.mac(role, purpose, caller, listener).finalize().into_bytes().into()
    }

    /// Returns whether `proof` is the expected response, in a time that does not depend on where the two differ.
    pub(crate) fn verify(
        &self,
        role: Role,
        purpose: &Purpose,
        caller: &Nonce,
        listener: &Nonce,
        proof: &Proof,
    ) -> bool {
        self.mac(role, purpose, caller, listener).verify_slice(proof).is_ok()
    }

    fn mac(&self, role: Role, purpose: &Purpose, caller: &Nonce, listener: &Nonce) -> Hmac<Sha256> {
        // Every field has a fixed length, so no two challenges have the same encoding.
        let (kind, a, b, c) = match *purpose {
            Purpose::Join { rank, ranks } => (0u8, u64::from(rank), u64::from(ranks), 0),
            Purpose::Stream { from, context, id } => (1, u64::from(from), context, id),
        };
        let mut key = [0; 64];
        key[..BYTES].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&key.into());
        mac.update(b"mscclpp bootstrap");
        mac.update(&VERSION.to_le_bytes());
        mac.update(&[role as u8, kind]);
        for field in [a, b, c] {
            mac.update(&field.to_le_bytes());
        }
        mac.update(caller);
        mac.update(listener);
        mac
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

    const JOIN: Purpose = Purpose::Join { rank: 1, ranks: 4 };

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

    #[test]
    fn proof_is_valid_for_one_role_purpose_and_nonce_pair() {
        let (secret, a, b) = (Secret([7; 16]), [1; 16], [2; 16]);
        let proof = secret.response(Role::Initiator, &JOIN, &a, &b);
        assert!(secret.verify(Role::Initiator, &JOIN, &a, &b, &proof));
        assert!(!secret.verify(Role::Responder, &JOIN, &a, &b, &proof));
        assert!(!secret.verify(Role::Initiator, &JOIN, &b, &a, &proof));
        assert!(!secret.verify(Role::Initiator, &Purpose::Join { rank: 2, ranks: 4 }, &a, &b, &proof));
        assert!(!secret.verify(Role::Initiator, &Purpose::Stream { from: 1, context: 4, id: 0 }, &a, &b, &proof));
        assert!(!Secret([8; 16]).verify(Role::Initiator, &JOIN, &a, &b, &proof));
    }

    #[test]
    fn derived_secret_depends_on_part_boundaries() {
        assert_eq!(Secret::derived(&["ab", "c"]), Secret::derived(&["ab", "c"]));
        assert_ne!(Secret::derived(&["ab", "c"]), Secret::derived(&["a", "bc"]));
    }
}
