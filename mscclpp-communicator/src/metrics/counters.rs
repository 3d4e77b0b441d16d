//! The counters of a rank in a communicator. One thread at a time makes its calls, and any thread reads them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{CallMetrics, Histogram, Metrics};
use mscclpp_base::error::ErrorKind;

/// One of this many calls is timed.
const SAMPLE: u64 = 16;
/// Duration from which on all calls count in the histogram, in milliseconds: twice the longest tick of the coarse clock.
const LONG: u64 = 20;

/// Counters of a rank in a communicator.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    by_algorithm: Mutex<Vec<Arc<CallCounters>>>,
    failures: Mutex<BTreeMap<&'static str, u64>>,
    prepared: AtomicU64,
}

/// Counters of the calls of one collective with one algorithm.
#[derive(Debug)]
pub(crate) struct CallCounters {
    collective: &'static str,
    algorithm: String,
    calls: AtomicU64,
    bytes: AtomicU64,
    counts: [AtomicU64; Histogram::BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

/// Adds to a counter that no other thread changes at the same time.
#[inline]
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counters {
    /// Returns the counters of a collective with an algorithm.
    pub(crate) fn of_calls(&self, collective: &'static str, algorithm: &str) -> Arc<CallCounters> {
        let mut all = lock(&self.by_algorithm);
        if let Some(known) = all.iter().find(|one| one.collective == collective && one.algorithm == algorithm) {
            return Arc::clone(known);
        }
        let new = Arc::new(CallCounters {
            collective,
            algorithm: algorithm.to_owned(),
            calls: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            counts: Default::default(),
            nanoseconds: AtomicU64::new(0),
        });
        all.push(Arc::clone(&new));
        new
    }

    /// Records a failed call.
    #[cold]
    pub(crate) fn record_failure(&self, kind: ErrorKind) {
        *lock(&self.failures).entry(kind.name()).or_default() += 1;
    }

    /// Records how many kinds and sizes of calls are prepared.
    #[inline]
    pub(crate) fn set_prepared(&self, prepared: usize) {
        self.prepared.store(prepared as u64, Relaxed);
    }

    /// Returns the values. `waited`: milliseconds; `memory`: bytes.
    pub(crate) fn metrics(&self, waited: u64, memory: u64) -> Metrics {
        let failures = lock(&self.failures);
        Metrics {
            calls: lock(&self.by_algorithm).iter().map(|calls| calls.metrics()).collect(),
            wait_seconds: waited as f64 / 1e3,
            failures: failures.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect(),
            prepared_plans: self.prepared.load(Relaxed),
            memory_bytes: memory,
        }
    }
}

impl CallCounters {
    /// Returns the current time if the next call is timed.
    #[inline]
    pub(crate) fn start(&self) -> Option<Instant> {
        self.calls.load(Relaxed).is_multiple_of(SAMPLE).then(Instant::now)
    }

    /// Records a call. `started`: what [`start`](Self::start) returned before it; `milliseconds`: its duration by the coarse
    /// clock.
    #[inline]
    pub(crate) fn record(&self, bytes: u64, started: Option<Instant>, milliseconds: u64) {
        add(&self.calls, 1);
        add(&self.bytes, bytes);
        if milliseconds >= LONG {
            let duration = started.map_or(Duration::from_millis(milliseconds), |started| started.elapsed());
            self.record_duration(duration, 1);
        } else if let Some(started) = started {
            self.record_duration(started.elapsed(), SAMPLE);
        }
    }

    #[cold]
    fn record_duration(&self, duration: Duration, weight: u64) {
        let bucket = Histogram::BOUNDS.iter().position(|bound| duration.as_secs_f64() <= *bound);
        add(&self.counts[bucket.unwrap_or(Histogram::BOUNDS.len())], weight);
        add(&self.nanoseconds, (duration.as_nanos() as u64).saturating_mul(weight));
    }

    fn metrics(&self) -> CallMetrics {
        CallMetrics {
            collective: self.collective.to_owned(),
            algorithm: self.algorithm.clone(),
            calls: self.calls.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            seconds: Histogram {
                counts: self.counts.iter().map(|count| count.load(Relaxed)).collect(),
                sum: self.nanoseconds.load(Relaxed) as f64 / 1e9,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_calls_count_once_and_timed_short_ones_for_all_of_a_sample() {
        let counters = Counters::default();
        let calls = counters.of_calls("allreduce", "ring");
        for _ in 0..33 {
            let started = calls.start();
            calls.record(8, started, 0);
        }
        calls.record(8, None, 5000);
        counters.record_failure(ErrorKind::Timeout);
        counters.set_prepared(3);
        let metrics = counters.metrics(1500, 4096);
        let [calls] = &metrics.calls[..] else { panic!("{metrics:?}") };
        assert_eq!((calls.calls, calls.bytes), (34, 34 * 8));
        // The first, the 17th and the 33rd call were timed.
        assert_eq!(calls.seconds.counts.iter().sum::<u64>(), 3 * SAMPLE + 1);
        let bucket = Histogram::BOUNDS.iter().position(|bound| 5.0 <= *bound).unwrap();
        assert_eq!((calls.seconds.counts[bucket], Histogram::BOUNDS[bucket]), (1, 16.777216));
        assert!(calls.seconds.sum >= 5.0);
        assert_eq!((metrics.wait_seconds, metrics.failures["timeout"]), (1.5, 1));
        assert_eq!((metrics.prepared_plans, metrics.memory_bytes), (3, 4096));
        assert!(Arc::ptr_eq(&counters.of_calls("allreduce", "ring"), &counters.of_calls("allreduce", "ring")));
    }
}
