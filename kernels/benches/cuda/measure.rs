//! How long launches take.

use std::time::Instant;

use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, Stream};

use super::Outcome;

/// Microseconds of a launch.
pub(crate) struct Times {
    /// Replayed in a graph.
    pub(crate) graph: f64,
    /// Eager, on the device.
    pub(crate) eager: f64,
    /// Eager, on the host.
    pub(crate) host: f64,
}

/// Medians of several rounds. The launches' runs and buffers outlive the call; `done` waits for a stream and says whether all went
/// well.
pub(crate) fn measure(
    device: &Device,
    mut launch: impl FnMut(&Stream) -> Result<(), Error>,
    done: impl Fn(&Stream) -> Result<(), Error>,
) -> Outcome<Times> {
    const ROUNDS: usize = 9;
    let stream = device.stream()?;
    let graph = stream.capture(|stream| (0..10).try_for_each(|_| launch(stream)))?;
    // SAFETY: what was recorded outlives the graph's last launch, which `done` waits for.
    let replay = || unsafe { graph.launch(&stream) };
    replay()?;
    done(&stream)?;
    let start = stream.event()?;
    replay()?;
    let end = stream.event()?;
    done(&stream)?;
    let once = end.microseconds_since(&start)?;
    let replays = (20_000.0 / once).clamp(1.0, 100.0) as usize;
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let start = stream.event()?;
        (0..replays).try_for_each(|_| replay())?;
        let end = stream.event()?;
        done(&stream)?;
        times[0].push(end.microseconds_since(&start)? / (10 * replays) as f64);
        let (start, clock) = (stream.event()?, Instant::now());
        for _ in 0..10 * replays.min(10) {
            launch(&stream)?;
        }
        let host = clock.elapsed();
        let end = stream.event()?;
        done(&stream)?;
        let count = (10 * replays.min(10)) as f64;
        times[1].push(end.microseconds_since(&start)? / count);
        times[2].push(host.as_secs_f64() * 1e6 / count);
    }
    let [graph, eager, host] = times.map(|mut times| median(&mut times));
    Ok(Times { graph, eager, host })
}

pub(crate) fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
