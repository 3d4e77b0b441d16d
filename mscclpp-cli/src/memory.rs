//! Memory that a run may use.

use mscclpp_exec::available_memory;

use crate::error::{Error, Result};

/// More than any address space of 47 bits can hold: the limit where the system reports none.
const ADDRESSABLE: u64 = 1 << 47;

/// Returns the bytes that can be allocated without swapping or exceeding the container's limit.
pub(crate) fn available() -> u64 {
    available_memory().map_or(ADDRESSABLE, |available| available.bytes)
}

/// Rejects a need that exceeds the available memory, before anything is allocated. Returns the bytes that remain.
///
/// # Errors
/// [`Error::Memory`] if `needed` bytes are more than [`available`].
pub(crate) fn require(what: impl FnOnce() -> String, needed: u64) -> Result<u64> {
    let available = available();
    available.checked_sub(needed).ok_or_else(|| Error::Memory { what: what(), needed, available })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_beyond_any_machine_is_rejected() {
        assert!(require(String::new, 0).is_ok_and(|left| left > 0));
        assert!(matches!(require(|| "it".into(), u64::MAX), Err(Error::Memory { needed: u64::MAX, .. })));
    }
}
