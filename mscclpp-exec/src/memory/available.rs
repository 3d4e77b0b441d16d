//! How much memory there is.

use crate::error::Error;

/// Refuses what the machine does not have. Systems promise more memory than that and kill a process that uses it.
///
/// # Errors
/// [`Error::NoMemory`].
pub(crate) fn check_available(bytes: u64, purpose: &'static str) -> Result<(), Error> {
    // Not worth a look into a file.
    const SMALL: u64 = 1 << 28;
    match if bytes > SMALL { available() } else { None } {
        Some(available) if bytes > available => Err(Error::NoMemory { purpose, bytes, available }),
        _ => Ok(()),
    }
}

/// Bytes that can be used without swapping, where the system tells.
pub(crate) fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}
