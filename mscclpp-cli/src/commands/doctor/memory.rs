//! Memory, and the memory that processes share.

use rustix::fs::{MemfdFlags, memfd_create, statvfs};

use super::finding::{Finding, State};
use crate::memory::available;
use crate::size::human;

/// Less shared memory than this is small: containers come with 64 MiB.
const ENOUGH: u64 = 256 << 20;

pub(super) fn findings() -> Vec<Finding> {
    vec![memory(available()), shared(shared_sizes()), descriptors()]
}

fn memory(bytes: u64) -> Finding {
    if bytes < ENOUGH {
        let help = "end other programs, or raise the container's limit";
        return Finding::bad("memory", State::Small, format!("{} available", human(bytes)), help);
    }
    Finding::good("memory", format!("{} available", human(bytes)))
}

/// Size and free part of `/dev/shm`, in bytes.
fn shared_sizes() -> Result<(u64, u64), String> {
    let found = statvfs("/dev/shm").map_err(|error| error.to_string())?;
    Ok((found.f_blocks.saturating_mul(found.f_frsize), found.f_bavail.saturating_mul(found.f_frsize)))
}

fn shared(sizes: Result<(u64, u64), String>) -> Finding {
    const NAME: &str = "/dev/shm";
    let help = "mount a larger one: `mount -o remount,size=2G /dev/shm`, or `docker run --shm-size 2g`";
    match sizes {
        Err(error) => Finding::bad(NAME, State::Absent, error, help),
        Ok((size, free)) => {
            let found = format!("{} free of {}", human(free), human(size));
            if free < ENOUGH { Finding::bad(NAME, State::Small, found, help) } else { Finding::good(NAME, found) }
        }
    }
}

/// Whether memory can be shared by descriptor, without a file system.
fn descriptors() -> Finding {
    const NAME: &str = "shared descriptors";
    match memfd_create("mscclpp doctor", MemfdFlags::CLOEXEC) {
        Ok(_) => Finding::good(NAME, "memfd_create works"),
        Err(error) => {
            let help = "allow the system call `memfd_create`; containers may forbid it";
            Finding::bad(NAME, State::Missing, format!("memfd_create: {error}"), help)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_shared_memory_is_small() {
        assert_eq!(shared(Ok((64 << 20, 64 << 20))).state, State::Small);
        assert_eq!(shared(Ok((8 << 30, 8 << 30))).state, State::Good);
        assert_eq!(shared(Err("no such file".into())).state, State::Absent);
        assert_eq!(memory(0).state, State::Small);
    }
}
