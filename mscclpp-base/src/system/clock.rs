//! A clock that is cheap enough for every call.

use rustix::time::{ClockId, clock_gettime};

/// Returns the time in milliseconds since some time in the past, without the time in which the machine was suspended. Its
/// resolution is a tick of the kernel, 1 to 10 ms.
///
/// # Cost
/// A few nanoseconds, because the processor's counter is not read.
#[inline]
pub fn coarse_time() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    // Neither is negative.
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}
