//! What other threads and processes may ask of a rank's communicator while it makes calls.

use std::sync::{Arc, OnceLock};

use mscclpp_bootstrap::{Bootstrap, Topic};

use crate::flight_recorder::{Dump, RankRecord, Recorder, StateRecord};
use crate::metrics::{Counters, Metrics};
use crate::status::RankState;
use mscclpp_exec::process::CallHistory;

/// The parts of a communicator that any thread may read, also during a call.
pub(super) struct Observed {
    /// The rank that is observed.
    pub(super) rank: RankRecord,
    pub(super) counters: Counters,
    pub(super) recorder: Recorder,
    /// The last calls of the executor, once there is one.
    history: OnceLock<Arc<CallHistory>>,
}

impl Observed {
    /// Creates the observed part of a communicator, and lets its rank report dumps and metrics.
    pub(super) fn new(bootstrap: &Bootstrap) -> Arc<Self> {
        let observed = Arc::new(Self {
            rank: RankRecord::of(bootstrap),
            counters: Counters::default(),
            recorder: Recorder::default(),
            history: OnceLock::new(),
        });
        let (dumps, metrics) = (Arc::downgrade(&observed), Arc::downgrade(&observed));
        let dump = move || dumps.upgrade().map(|observed| observed.dump().text().into_bytes()).unwrap_or_default();
        bootstrap.set_report(Topic::Dump, Some(Arc::new(dump)));
        // Encoding fails only for types that cannot be serialized.
        let encode = |observed: Arc<Self>| postcard::to_allocvec(&observed.metrics()).unwrap_or_default();
        let metrics = move || metrics.upgrade().map(encode).unwrap_or_default();
        bootstrap.set_report(Topic::Metrics, Some(Arc::new(metrics)));
        observed
    }

    /// Sets the last calls of the executor.
    pub(super) fn set_history(&self, history: &Arc<CallHistory>) {
        // Set once, because a communicator has one executor.
        let _ = self.history.set(Arc::clone(history));
    }

    /// Returns a dump of the running rank.
    pub(super) fn dump(&self) -> Dump {
        let report = self.history.get().map(|history| history.report()).unwrap_or_default();
        let (state, duration) = match report.waiting {
            0 if report.is_in_call() => (RankState::InCall, report.since),
            0 => (RankState::BetweenCalls, report.since),
            _ => (RankState::Waiting, report.waited),
        };
        let state = StateRecord { state: state.name().to_owned(), seconds: duration.as_secs_f64() };
        self.recorder.running(&self.rank, state)
    }

    /// Returns the metrics.
    pub(super) fn metrics(&self) -> Metrics {
        let (waited, memory) =
            self.history.get().map(|history| (history.waited(), history.memory())).unwrap_or_default();
        self.counters.metrics(waited, memory)
    }
}
