//! Available memory of the machine.

use std::fs;

/// Returns the bytes that can be allocated without swapping or exceeding the container's limit; `None` if the system
/// does not report them.
pub fn available_memory() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| meminfo(&text));
    let [limit, current, stat] = ["max", "current", "stat"].map(|name| read(&format!("/sys/fs/cgroup/memory.{name}")));
    let container = control_group(limit.as_deref(), current.as_deref(), stat.as_deref());
    machine.into_iter().chain(container).min()
}

/// Returns `MemAvailable` of `/proc/meminfo`, in bytes.
fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the remainder of a control group's limit; `None` without a limit. Cached files count as used there, and are
/// evicted when memory is needed.
fn control_group(limit: Option<&str>, current: Option<&str>, stat: Option<&str>) -> Option<u64> {
    let limit: u64 = limit?.trim().parse().ok()?;
    let current: u64 = current?.trim().parse().ok()?;
    let files = stat.and_then(|stat| stat.lines().find_map(|line| line.strip_prefix("inactive_file ")));
    let files: u64 = files.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0);
    Some(limit.saturating_sub(current.saturating_sub(files)))
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
    fn control_group_without_limit_reports_nothing() {
        assert_eq!(control_group(Some("max\n"), Some("5\n"), None), None);
        assert_eq!(control_group(Some("100\n"), Some("30\n"), None), Some(70));
        assert_eq!(control_group(Some("10\n"), Some("30\n"), Some("anon 7\n")), Some(0));
        assert_eq!(control_group(None, None, None), None);
    }

    #[test]
    fn cached_files_count_as_available() {
        let stat = "anon 20\nfile 70\nactive_file 20\ninactive_file 50\nslab 5\n";
        assert_eq!(control_group(Some("100\n"), Some("95\n"), Some(stat)), Some(55));
        assert_eq!(control_group(Some("100\n"), Some("40\n"), Some(stat)), Some(100));
    }
}
