//! Allocations within the memory of the machine.

use crate::error::Error;
use crate::system::limits::exceeded_by_mapping;
use crate::system::{AvailableMemory, available_memory};

/// Rejects allocations that exceed the available memory. Systems grant more memory than they have, and kill a process
/// that uses it.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn check_available(bytes: u64, purpose: &'static str) -> Result<(), Error> {
    // Small enough to skip reading the system's files.
    const MIN_CHECKED_BYTES: u64 = 1 << 28;
    match if bytes > MIN_CHECKED_BYTES { less_than(bytes) } else { None } {
        None => Ok(()),
        available => Err(Error::OutOfMemory { purpose, bytes, available }),
    }
}

/// Returns the error for memory that the system has refused: the limit that was reached, or the memory that is left.
/// `is_private`: no other process shares it.
#[cold]
pub fn no_memory(bytes: u64, purpose: &'static str, is_private: bool) -> Error {
    match exceeded_by_mapping(bytes, is_private) {
        Some(limit) => Error::LimitExceeded { what: format!("map {bytes} bytes of {purpose}"), limit },
        None => out_of_memory(bytes, purpose),
    }
}

/// Returns the error for memory that the system does not have.
#[cold]
pub fn out_of_memory(bytes: u64, purpose: &'static str) -> Error {
    Error::OutOfMemory { purpose, bytes, available: less_than(bytes) }
}

/// Returns the available memory if it is less than a number of bytes.
fn less_than(bytes: u64) -> Option<AvailableMemory> {
    available_memory().filter(|available| available.bytes < bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::ControlGroup;

    #[test]
    fn error_states_available_memory_only_if_it_is_known() {
        let error = |available| Error::OutOfMemory { purpose: "scratch", bytes: 9, available };
        let text = |available| error(available).diagnostic().to_string();
        let machine = text(Some(AvailableMemory { bytes: 5, group: None }));
        assert!(machine.contains("9 bytes of scratch are required, but only 5 bytes are available\n"), "{machine}");
        let group = Some(ControlGroup { folder: "/groups/job".into(), limit: 7 });
        let group = text(Some(AvailableMemory { bytes: 5, group }));
        assert!(group.contains("only 5 bytes are available in control group /groups/job, whose limit is 7 bytes"));
        assert!(group.contains("raise the limit of the control group"), "{group}");
        let unknown = text(None);
        assert!(unknown.contains("9 bytes of scratch are required, but the system has refused them\n"), "{unknown}");
    }
}
