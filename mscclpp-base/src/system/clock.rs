//! Clocks: one that is cheap enough for every call, and a precise one.

#[cfg(target_os = "linux")]
use rustix::time::{ClockId, clock_gettime};

/// Returns the time in milliseconds since some time in the past, without the time in which the machine was suspended. Its
/// resolution is a tick of the kernel, 1 to 10 ms.
///
/// # Cost
/// A few nanoseconds, because the processor's counter is not read.
#[cfg(feature = "process")]
#[inline]
pub fn coarse_time() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    // Neither is negative.
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Returns the time in nanoseconds since some time in the past, which on Linux all processes of a host share
/// (`CLOCK_MONOTONIC`).
pub fn precise_time() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let time = clock_gettime(ClockId::Monotonic);
        // Neither is negative.
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
    #[cfg(not(target_os = "linux"))]
    {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
    }
}
