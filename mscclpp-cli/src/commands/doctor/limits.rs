//! Checks the system's limits for a process.

use rustix::process::{Resource, Rlimit, getrlimit};

use super::finding::{Finding, State};
use crate::size::human;

/// Rank 0 has a connection to every other rank, and additional streams.
const FILES: u64 = 1024;
/// Registering memory with a device or a network card locks it.
const LOCKED: u64 = 64 << 20;

pub(super) fn findings() -> Vec<Finding> {
    vec![files(getrlimit(Resource::Nofile)), locked(getrlimit(Resource::Memlock))]
}

fn files(limit: Rlimit) -> Finding {
    let number = |limit: Option<u64>| limit.map_or_else(|| "unlimited".into(), |limit| limit.to_string());
    let found = format!("{}, at most {}", number(limit.current), number(limit.maximum));
    if limit.current.is_some_and(|limit| limit < FILES) {
        let help = format!("raise it to at least {FILES} with `ulimit -n`: rank 0 needs one descriptor per other rank");
        return Finding::bad("open files", State::Small, found, help);
    }
    Finding::good("open files", found)
}

fn locked(limit: Rlimit) -> Finding {
    let size = |limit: Option<u64>| limit.map_or_else(|| "unlimited".into(), human);
    let found = format!("{}, at most {}", size(limit.current), size(limit.maximum));
    if limit.current.is_some_and(|limit| limit < LOCKED) {
        let help =
            "raise it with `ulimit -l unlimited`; required only for direct memory access of devices and network cards";
        return Finding::bad("locked memory", State::Small, found, help);
    }
    Finding::good("locked memory", found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_limits_are_insufficient() {
        let limit = |current| Rlimit { current, maximum: None };
        assert_eq!(files(limit(Some(256))).state, State::Small);
        assert_eq!(files(limit(None)).state, State::Good);
        assert_eq!(locked(limit(Some(8 << 20))).state, State::Small);
        assert_eq!(locked(limit(None)).found, "unlimited, at most unlimited");
    }
}
