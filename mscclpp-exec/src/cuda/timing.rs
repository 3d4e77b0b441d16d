//! Measures the duration of launches.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::buffers::Buffers;
use super::prepared_plan::PreparedPlan;
use super::stream::Stream;
use crate::error::Error;

/// Duration of a launch; medians of several rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchTimes {
    /// In a graph of several launches, one after the other.
    pub graph: Duration,
    /// Launched one by one, until the device has completed the last.
    pub eager: Duration,
    /// Launched one by one, until the call returns.
    pub host: Duration,
}

/// Number of rounds, of which the median is taken.
const ROUNDS: usize = 9;

/// Number of launches in a graph.
const LAUNCHES_PER_GRAPH: u32 = 10;

/// Measures launches of a prepared plan, as [`time_launches`] does. The contents of the buffers are unspecified
/// afterwards.
///
/// If ranks are in other processes, it is a call of all ranks with the same number of launches. They agree on the rounds, and the result is
/// that of the slowest rank, for each of the durations.
///
/// # Errors
/// Those of [`PreparedPlan::launch_buffers`] and [`PreparedPlan::synchronize`], and those of a call of all ranks.
pub fn time(
    run: &mut PreparedPlan,
    buffers: &mut Buffers,
    stream: &Stream,
    launches: Option<u32>,
) -> Result<LaunchTimes, Error> {
    let executor = run.executor();
    let slowest = |text: &str, own: [f64; 3]| -> Result<[f64; 3], Error> {
        if executor.is_local() {
            return Ok(own);
        }
        let of_all = executor.gather(text, &own)?;
        Ok(of_all.iter().fold(own, |slowest, times| std::array::from_fn(|at| slowest[at].max(times[at]))))
    };
    let run = RefCell::new(run);
    let launch = |stream: &Stream| run.borrow_mut().launch_buffers(buffers, stream);
    let agree = |once: f64| Ok(slowest("rounds of a measurement", [once; 3])?[0]);
    let times = time_rounds(stream, launches, agree, launch, |stream| run.borrow().synchronize(stream))?;
    let seconds = [times.graph, times.eager, times.host].map(|time| time.as_secs_f64());
    let [graph, eager, host] =
        slowest("times of launches", seconds)?.map(|time| Duration::from_secs_f64(time.max(0.0)));
    Ok(LaunchTimes { graph, eager, host })
}

/// Measures launches, with the device's clock where the device is measured: in rounds of the given number of launches,
/// or of about 20 ms. `launch` enqueues one on the stream, and its resources must outlive the call; `done` waits for
/// all of them and returns whether they succeeded.
///
/// # Errors
/// Those of `launch` and `done`, and those of the driver.
pub fn time_launches(
    stream: &Stream,
    launches: Option<u32>,
    launch: impl FnMut(&Stream) -> Result<(), Error>,
    done: impl Fn(&Stream) -> Result<(), Error>,
) -> Result<LaunchTimes, Error> {
    time_rounds(stream, launches, Ok, launch, done)
}

/// Measures launches in rounds, whose number of launches follows from what `agree` returns for the microseconds of a graph.
fn time_rounds(
    stream: &Stream,
    launches: Option<u32>,
    agree: impl FnOnce(f64) -> Result<f64, Error>,
    mut launch: impl FnMut(&Stream) -> Result<(), Error>,
    done: impl Fn(&Stream) -> Result<(), Error>,
) -> Result<LaunchTimes, Error> {
    let graph = stream.capture(|stream| (0..LAUNCHES_PER_GRAPH).try_for_each(|_| launch(stream)))?;
    // SAFETY: the resources of the captured launches outlive the graph, which is dropped after its last launch is
    // complete.
    let replay = || unsafe { graph.launch(stream) };
    replay()?;
    done(stream)?;
    let (start, (), end) = (stream.event()?, replay()?, stream.event()?);
    done(stream)?;
    let once: f64 = agree(end.microseconds_since(&start)?.max(1.0))?;
    let replays = match launches {
        Some(launches) => launches.div_ceil(LAUNCHES_PER_GRAPH),
        None => (20_000.0 / once).clamp(1.0, 100.0) as u32,
    };
    let eager = replays.min(10) * LAUNCHES_PER_GRAPH;
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let start = stream.event()?;
        (0..replays).try_for_each(|_| replay())?;
        let end = stream.event()?;
        done(stream)?;
        times[0].push(end.microseconds_since(&start)? / f64::from(LAUNCHES_PER_GRAPH * replays));
        let (start, clock) = (stream.event()?, Instant::now());
        (0..eager).try_for_each(|_| launch(stream))?;
        let host = clock.elapsed();
        let end = stream.event()?;
        done(stream)?;
        times[1].push(end.microseconds_since(&start)? / f64::from(eager));
        times[2].push(host.as_secs_f64() * 1e6 / f64::from(eager));
    }
    let [graph, eager, host] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        Duration::from_secs_f64(times[ROUNDS / 2].max(0.0) / 1e6)
    });
    Ok(LaunchTimes { graph, eager, host })
}
