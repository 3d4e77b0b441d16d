//! How long launches take, in microseconds.

use std::time::Duration;

use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, Stream, Times, time_launches};

use super::Outcome;

/// Medians of several rounds. The launches' runs and buffers outlive the call; `done` waits for a stream and says whether all went
/// well.
pub(crate) fn measure(
    device: &Device,
    launch: impl FnMut(&Stream) -> Result<(), Error>,
    done: impl Fn(&Stream) -> Result<(), Error>,
) -> Outcome<Times> {
    Ok(time_launches(&device.stream()?, None, launch, done)?)
}

pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

pub(crate) fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
