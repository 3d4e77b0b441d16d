//! Measures the duration of launches.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use super::buffers::Buffers;
use super::prepared_plan::PreparedPlan;
use mscclpp_base::error::Error;
use mscclpp_cuda::device::stream::Stream;

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
const MAX_ROUNDS: u32 = 9;

/// Number of launches in a graph.
const MAX_LAUNCHES_PER_GRAPH: u32 = 10;

/// Microseconds of launches in a round.
const ROUND_TIME: f64 = 20_000.0;

/// Microseconds that launches which take long may take together: an odd number of rounds with one launch each, at least one round.
const TOTAL_TIME: f64 = 4e6;

/// How often launches are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repetitions {
    rounds: u32,
    launches_per_graph: u32,
    /// Replays of the graph in a round.
    replays: u32,
}

impl Repetitions {
    /// Returns the repetitions for a given number of launches in a round, or else for the microseconds that one launch takes.
    fn new(launches: Option<u32>, once: f64) -> Self {
        if let Some(launches) = launches {
            let launches_per_graph = launches.clamp(1, MAX_LAUNCHES_PER_GRAPH);
            let rounds = if launches < MAX_LAUNCHES_PER_GRAPH { 1 } else { MAX_ROUNDS };
            return Self { rounds, launches_per_graph, replays: launches.div_ceil(launches_per_graph).max(1) };
        }
        let per_round = 2.0 * f64::from(MAX_LAUNCHES_PER_GRAPH);
        if once * per_round * f64::from(MAX_ROUNDS) <= TOTAL_TIME {
            let replays = (ROUND_TIME / once / f64::from(MAX_LAUNCHES_PER_GRAPH)).clamp(1.0, 100.0) as u32;
            return Self { rounds: MAX_ROUNDS, launches_per_graph: MAX_LAUNCHES_PER_GRAPH, replays };
        }
        // In a round the launch is replayed, and launched alone.
        let rounds = (TOTAL_TIME / once / 2.0).clamp(1.0, f64::from(MAX_ROUNDS)) as u32;
        Self { rounds: rounds - (rounds + 1) % 2, launches_per_graph: 1, replays: 1 }
    }

    /// Number of launches in a round that are made one by one.
    fn eager(self) -> u32 {
        self.replays.min(10) * self.launches_per_graph
    }
}

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
/// or of about 20 ms. Fewer than ten launches are one round; launches that take long, as on a simulated device, are repeated
/// for about 4 s. `launch` enqueues one on the stream, and its resources must outlive the call; `done` waits for
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

/// Measures launches in rounds, whose number of launches follows from what `agree` returns for the microseconds of a launch.
fn time_rounds(
    stream: &Stream,
    launches: Option<u32>,
    agree: impl FnOnce(f64) -> Result<f64, Error>,
    mut launch: impl FnMut(&Stream) -> Result<(), Error>,
    done: impl Fn(&Stream) -> Result<(), Error>,
) -> Result<LaunchTimes, Error> {
    // The first launch also does what is done once.
    launch(stream)?;
    done(stream)?;
    let once = if launches.is_some() {
        agree(1.0)?
    } else {
        let start = stream.event()?;
        launch(stream)?;
        let end = stream.event()?;
        done(stream)?;
        agree(end.microseconds_since(&start)?.max(1.0))?
    };
    let repetitions = Repetitions::new(launches, once);
    let Repetitions { rounds, launches_per_graph, replays } = repetitions;
    let graph = stream.capture(|stream| (0..launches_per_graph).try_for_each(|_| launch(stream)))?;
    // SAFETY: the resources of the captured launches outlive the graph, which is dropped after its last launch is
    // complete.
    let replay = || unsafe { graph.launch(stream) };
    replay()?;
    done(stream)?;
    let eager = repetitions.eager();
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        let start = stream.event()?;
        (0..replays).try_for_each(|_| replay())?;
        let end = stream.event()?;
        done(stream)?;
        times[0].push(end.microseconds_since(&start)? / f64::from(launches_per_graph * replays));
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
        Duration::from_secs_f64(times[times.len() / 2].max(0.0) / 1e6)
    });
    Ok(LaunchTimes { graph, eager, host })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_follow_the_request_or_the_time_of_a_launch() {
        let of = |launches, once| {
            let of = Repetitions::new(launches, once);
            (of.rounds, of.launches_per_graph, of.replays)
        };
        assert_eq!(of(Some(1), 1.0), (1, 1, 1));
        assert_eq!(of(Some(25), 1.0), (9, 10, 3));
        assert_eq!(of(None, 2.0), (9, 10, 100));
        assert_eq!(of(None, 1000.0), (9, 10, 2));
        // Launches of a simulated device.
        assert_eq!(of(None, 300_000.0), (5, 1, 1));
        assert_eq!(of(None, 1e9), (1, 1, 1));
    }
}
