//! Times, in microseconds.

use std::time::Duration;

/// Result of a measurement, or why there is none.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

pub(crate) fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Returns the geometric mean; 1 for no values.
pub(crate) fn mean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len().max(1) as f64;
    (ratios.map(f64::ln).sum::<f64>() / count).exp()
}
