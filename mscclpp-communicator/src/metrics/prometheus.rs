//! The text format of Prometheus, version 0.0.4.

use std::fmt;

use super::{CallMetrics, Histogram, JobMetrics, Metrics};

/// Writes the lines of one metric for all ranks.
struct Family<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    name: &'static str,
}

impl<'a, 'f> Family<'a, 'f> {
    fn begin(f: &'a mut fmt::Formatter<'f>, name: &'static str, kind: &str, help: &str) -> Result<Self, fmt::Error> {
        writeln!(f, "# HELP {name} {help}\n# TYPE {name} {kind}")?;
        Ok(Self { f, name })
    }

    /// Writes a sample. `suffix` follows the name; labels are names and values.
    fn sample(&mut self, suffix: &str, labels: &[(&str, &dyn fmt::Display)], value: impl fmt::Display) -> fmt::Result {
        write!(self.f, "{}{suffix}{{", self.name)?;
        for (at, (label, value)) in labels.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            let value = value.to_string().replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(self.f, "{comma}{label}=\"{value}\"")?;
        }
        writeln!(self.f, "}} {value}")
    }
}

impl JobMetrics {
    fn answered(&self) -> impl Iterator<Item = (usize, &Metrics)> {
        self.ranks.iter().enumerate().filter_map(|(rank, metrics)| Some((rank, metrics.as_ref()?)))
    }

    fn calls(&self) -> impl Iterator<Item = (usize, &CallMetrics)> {
        self.answered().flat_map(|(rank, metrics)| metrics.calls.iter().map(move |calls| (rank, calls)))
    }

    fn counter(
        &self,
        f: &mut fmt::Formatter<'_>,
        (name, help): (&'static str, &str),
        value: impl Fn(&CallMetrics) -> u64,
    ) -> fmt::Result {
        let mut family = Family::begin(f, name, "counter", help)?;
        self.calls().try_for_each(|(rank, calls)| {
            let labels: [(_, &dyn fmt::Display); 3] =
                [("rank", &rank), ("collective", &calls.collective), ("algorithm", &calls.algorithm)];
            family.sample("", &labels, value(calls))
        })
    }

    fn of_ranks(
        &self,
        f: &mut fmt::Formatter<'_>,
        (name, kind, help): (&'static str, &str, &str),
        value: impl Fn(&Metrics) -> f64,
    ) -> fmt::Result {
        let mut family = Family::begin(f, name, kind, help)?;
        self.answered().try_for_each(|(rank, metrics)| family.sample("", &[("rank", &rank)], value(metrics)))
    }
}

impl fmt::Display for JobMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut up = Family::begin(f, "mscclpp_up", "gauge", "Whether the rank answers.")?;
        for (rank, metrics) in self.ranks.iter().enumerate() {
            up.sample("", &[("rank", &rank)], u8::from(metrics.is_some()))?;
        }
        self.counter(f, ("mscclpp_calls_total", "Calls that returned without an error."), |calls| calls.calls)?;
        let help = "Bytes of these calls, the larger of input and output.";
        self.counter(f, ("mscclpp_bytes_total", help), |calls| calls.bytes)?;
        let help = "Time in calls; every 16th call is timed and counts for 16.";
        let mut seconds = Family::begin(f, "mscclpp_call_seconds", "histogram", help)?;
        for (rank, calls) in self.calls() {
            let labels: [(_, &dyn fmt::Display); 3] =
                [("rank", &rank), ("collective", &calls.collective), ("algorithm", &calls.algorithm)];
            let mut sum = 0;
            for (at, count) in calls.seconds.counts.iter().enumerate() {
                sum += count;
                let bound = Histogram::BOUNDS.get(at).map_or_else(|| "+Inf".into(), f64::to_string);
                let bucket: [(_, &dyn fmt::Display); 4] = [labels[0], labels[1], labels[2], ("le", &bound)];
                seconds.sample("_bucket", &bucket, sum)?;
            }
            seconds.sample("_sum", &labels, calls.seconds.sum)?;
            seconds.sample("_count", &labels, sum)?;
        }
        let help = "Time for which the rank has waited for other ranks in its calls.";
        self.of_ranks(f, ("mscclpp_wait_seconds_total", "counter", help), |metrics| metrics.wait_seconds)?;
        let mut failures = Family::begin(f, "mscclpp_failures_total", "counter", "Calls that failed.")?;
        for (rank, metrics) in self.answered() {
            for (kind, count) in &metrics.failures {
                failures.sample("", &[("rank", &rank), ("kind", kind)], count)?;
            }
        }
        let help = "Kinds and sizes of calls that are prepared.";
        self.of_ranks(f, ("mscclpp_prepared_plans", "gauge", help), |metrics| metrics.prepared_plans as f64)?;
        let help = "Memory that the rank shares with the other ranks of its node.";
        self.of_ranks(f, ("mscclpp_shared_memory_bytes", "gauge", help), |metrics| metrics.memory_bytes as f64)
    }
}
