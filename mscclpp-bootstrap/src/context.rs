//! Numbers of communicators.

use sha2::{Digest, Sha256};

/// Returns a number for a new communicator that is equal on all its ranks and that no other communicator has.
pub(crate) fn number(parent: u64, call: u64, kind: u64) -> u64 {
    let mut hash = Sha256::new();
    for field in [parent, call, kind] {
        hash.update(field.to_le_bytes());
    }
    // The communicator of the whole job has number 0.
    let digest: [u8; 32] = hash.finalize().into();
    digest.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes)).max(1)
}
