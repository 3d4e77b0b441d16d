//! Checks the number of processors that ranks can use.

use std::fs;
use std::thread;

use super::finding::{Finding, State};

pub(super) fn findings() -> Vec<Finding> {
    let usable = thread::available_parallelism().map_or(1, usize::from);
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| count(text.trim()));
    let quota = fs::read_to_string("/sys/fs/cgroup/cpu.max").ok().and_then(|text| quota(&text));
    vec![processors(usable, online.unwrap_or(usable), quota)]
}

fn processors(usable: usize, online: usize, quota: Option<f64>) -> Finding {
    let mut found = format!("{usable} usable of {online} online");
    if let Some(quota) = quota {
        found += &format!(", control group allows {quota:.2}");
    }
    // One rank per processor spins; more ranks than processors must sleep while they wait.
    if usable < 2 || quota.is_some_and(|quota| quota < 2.0) {
        let help = "ranks share one processor and sleep while they wait, which is slow";
        return Finding::bad("processors", State::Small, found, help);
    }
    Finding::good("processors", found)
}

/// Returns the processors that a control group allows, from `MICROSECONDS PERIOD`; `None` without a limit.
fn quota(text: &str) -> Option<f64> {
    let (allowed, period) = text.trim().split_once(' ')?;
    let (allowed, period): (f64, f64) = (allowed.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| allowed / period)
}

/// Returns the number of processors in a list such as `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').try_fold(0usize, |sum, part| sum.checked_add(range(part)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_and_lists_are_read() {
        assert_eq!(quota("150000 100000\n"), Some(1.5));
        assert_eq!((quota("max 100000"), quota("1 0"), quota("")), (None, None, None));
        assert_eq!((count("0-3,8"), count("0"), count("")), (Some(5), Some(1), None));
        assert_eq!(count("3-0"), None);
    }

    #[test]
    fn one_processor_is_insufficient() {
        assert_eq!(processors(1, 8, None).state, State::Small);
        assert_eq!(processors(8, 8, Some(1.5)).state, State::Small);
        assert_eq!(processors(2, 2, None).state, State::Good);
    }
}
