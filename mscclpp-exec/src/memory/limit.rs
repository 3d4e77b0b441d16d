//! Allocations within the memory of the machine.

use crate::error::Error;
use crate::system::available_memory;

/// Rejects allocations that exceed the available memory. Systems grant more memory than they have, and kill a process
/// that uses it.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn check_available(bytes: u64, purpose: &'static str) -> Result<(), Error> {
    // Small enough to skip reading the system's files.
    const MIN_CHECKED_BYTES: u64 = 1 << 28;
    match if bytes > MIN_CHECKED_BYTES { available_memory() } else { None } {
        Some(available) if bytes > available => Err(Error::OutOfMemory { purpose, bytes, available }),
        _ => Ok(()),
    }
}
