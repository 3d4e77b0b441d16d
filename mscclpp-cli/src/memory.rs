//! How much memory a run may take.

use std::fs;

use crate::error::{Error, Result};

/// What no address space of 47 bits can hold: the limit where the system does not say more.
const ADDRESSABLE: u64 = 1 << 47;

/// Bytes that can be allocated without pushing the machine into swap or over its container's limit.
pub(crate) fn available() -> u64 {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let container = control_group(
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().as_deref(),
        fs::read_to_string("/sys/fs/cgroup/memory.current").ok().as_deref(),
    );
    machine.into_iter().chain(container).min().unwrap_or(ADDRESSABLE)
}

/// Refuses what does not fit, before anything is allocated.
///
/// # Errors
/// [`Error::Memory`] if `needed` bytes are more than [`available`].
pub(crate) fn require(what: impl FnOnce() -> String, needed: u64) -> Result<()> {
    let available = available();
    if needed > available { Err(Error::Memory { what: what(), needed, available }) } else { Ok(()) }
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What is left of a control group's limit; `None` without a limit.
fn control_group(limit: Option<&str>, current: Option<&str>) -> Option<u64> {
    let limit: u64 = limit?.trim().parse().ok()?;
    let current: u64 = current?.trim().parse().ok()?;
    Some(limit.saturating_sub(current))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(meminfo(text), Some(23_000_000 * 1024));
        for junk in
            ["", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 1", "MemAvailable: 99999999999999999999 kB"]
        {
            assert_eq!(meminfo(junk), None, "{junk}");
        }
    }

    #[test]
    fn a_group_without_a_limit_says_nothing() {
        assert_eq!(control_group(Some("max\n"), Some("5\n")), None);
        assert_eq!(control_group(Some("100\n"), Some("30\n")), Some(70));
        assert_eq!(control_group(Some("10\n"), Some("30\n")), Some(0));
        assert_eq!(control_group(None, None), None);
    }

    #[test]
    fn what_no_machine_has_is_refused() {
        assert!(require(String::new, 0).is_ok());
        assert!(matches!(require(|| "it".into(), u64::MAX), Err(Error::Memory { needed: u64::MAX, .. })));
    }
}
