//! Checks memory, and memory that processes share.

use rustix::fs::{MemfdFlags, memfd_create};

use super::finding::{Finding, State};
use crate::memory::available;
use crate::size::human;

/// Minimum memory to be sufficient. Memory that processes share is part of it, and does not count as `/dev/shm`.
const ENOUGH: u64 = 256 << 20;

pub(super) fn findings() -> Vec<Finding> {
    vec![memory(available()), descriptors()]
}

fn memory(bytes: u64) -> Finding {
    if bytes < ENOUGH {
        let help = "stop other programs, or raise the memory limit of the container";
        return Finding::bad("memory", State::Small, format!("{} available", human(bytes)), help);
    }
    Finding::good("memory", format!("{} available", human(bytes)))
}

/// Checks whether memory can be shared by descriptor, without a file system.
fn descriptors() -> Finding {
    const NAME: &str = "shared descriptors";
    match memfd_create("mscclpp doctor", MemfdFlags::CLOEXEC) {
        Ok(_) => Finding::good(NAME, "memfd_create works"),
        Err(error) => {
            let help = "allow the system call `memfd_create`, which containers may block";
            Finding::bad(NAME, State::Missing, format!("memfd_create: {error}"), help)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_memory_is_insufficient() {
        assert_eq!(memory(0).state, State::Small);
        assert_eq!(memory(8 << 30).state, State::Good);
    }
}
