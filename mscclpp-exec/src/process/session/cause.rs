//! Finds out with which rank a failure began, and makes all ranks return the same cause.
//!
//! The rank that notices a failure asks all ranks what they are doing. Their connection threads answer, also while the
//! ranks are busy; a rank that does not answer is suspended. From the answers follows the rank that the others wait for,
//! directly or through further ranks. Rank 0 makes the first cause that it receives the cause on all ranks.

use std::time::{Duration, Instant};

use mscclpp_bootstrap::{self as bootstrap, ANSWER_TIME, ActiveTimeout, ErrorKind, odd_one_out};

#[cfg(feature = "cuda")]
use super::super::CallRing;
use super::Session;
use super::wait::PARK_INTERVAL;
use mscclpp_base::error::{Error, LaunchAborted, WaitsFor};
use mscclpp_bootstrap::call_report::{
    CallReport, Culprits, ReportedCall, call_text, find_culprits, text_of_call_before,
};

/// How long a difference between calls waits for ranks that are about to start the call: they decide which call most ranks make.
const MISMATCH_GRACE_PERIOD: Duration = Duration::from_millis(200);

/// Returns how long before the end of a timeout a rank may come so that the others have no time left to notice it.
pub(in super::super) fn arrival_time(timeout: Duration) -> Duration {
    Duration::from_millis(200).min(timeout / 4)
}

impl Session {
    /// Fails the communicator because of a failure of this rank's call, and returns the error of the call: the failure itself,
    /// or the cause that another rank reported first.
    #[cold]
    pub(crate) fn abort(&mut self, error: Error) -> Error {
        let cause = error.bootstrap().cloned().unwrap_or_else(|| self.cause_of(&error));
        let first = self.fail(cause.clone());
        // Another rank may have reported this failure first, in other words.
        let reported = |first: &bootstrap::Error| first.root_cause().map(|cause| cause.rank);
        let is_same = first == cause || (first.kind() == cause.kind() && reported(&first) == reported(&cause));
        match error {
            Error::Interrupted(mut aborted) => {
                aborted.cause = Box::new(first);
                Error::Interrupted(aborted)
            }
            Error::Stalled(stall) if !is_same || first.root_cause().is_some_and(|cause| cause.rank != self.rank()) => {
                let cause = Box::new(first);
                Error::Interrupted(Box::new(LaunchAborted { rank: self.rank(), cause, stall: *stall }))
            }
            error if is_same && !matches!(error, Error::RankLost { .. }) => error,
            _ => first.into(),
        }
    }

    /// Fails the communicator because of a failure that its ranks have learned in a call, for ranks that wait for them in other communicators.
    /// Returns this rank's own failure as it is, otherwise as [`abort`](Self::abort).
    #[cfg(feature = "cuda")]
    #[cold]
    pub(crate) fn abort_known(&mut self, error: Error) -> Error {
        let first = self.abort(error.clone());
        match error {
            Error::RankLost { .. } | Error::Bootstrap(_) | Error::Interrupted(_) => first,
            own => own,
        }
    }

    /// Fails the communicator, and returns the cause that holds on all ranks.
    #[cold]
    pub(in super::super) fn fail(&mut self, cause: bootstrap::Error) -> bootstrap::Error {
        let first = self.bootstrap.fail(cause);
        self.cause.get_or_insert_with(|| first.clone());
        self.calls.abort(self.number, Some(&first));
        first
    }

    /// Returns a failure of this rank's call as the other ranks name it.
    pub(in super::super) fn cause_of(&self, error: &Error) -> bootstrap::Error {
        let mut call = self.call_text(self.number);
        if let Error::Stalled(stall) = error {
            call = format!("launch {} of plan `{}`", stall.launch, stall.plan);
            if let Some(WaitsFor::Peers { ranks }) = stall.blocked.first().map(|blocked| &blocked.waits_for)
                && !ranks.is_empty()
            {
                let missing = ranks.iter().map(|rank| self.bootstrap.member(*rank)).collect();
                let (waiting, waited) = (vec![self.rank()], self.options.timeout);
                return bootstrap::Error::CollectiveTimeout { call, missing, waiting, waited, last_call: None };
            }
        }
        let rank = error.root_cause().map_or(self.rank(), |cause| cause.rank);
        let reason = match error {
            Error::RankLost { reason, .. } => reason.clone(),
            Error::Selector { request, message, .. } => {
                // It was asked before the call began.
                call.clone_from(request);
                format!("the selector failed: {message}")
            }
            other => other.to_string(),
        };
        bootstrap::Error::CallFailed { who: Box::new(self.bootstrap.member(rank)), call, kind: error.kind(), reason }
    }

    /// Returns the text of one of this rank's last calls.
    pub(super) fn call_text(&self, number: u64) -> String {
        let report = self.history.report();
        report.call(number).map_or_else(|| format!("call {number}"), ReportedCall::to_string)
    }

    /// Returns the name of one of this rank's last calls.
    pub(super) fn call_name(&self, number: u64) -> String {
        let report = self.history.report();
        report.call(number).map_or_else(|| "a call".to_owned(), |call| call.name.clone())
    }

    /// Asks all ranks what they are doing. `None`: no answer.
    ///
    /// # Errors
    /// Why the communicator has failed.
    fn reports(&self) -> Result<Vec<Option<CallReport>>, bootstrap::Error> {
        let decode = |bytes: Vec<u8>| match bytes.is_empty() {
            // It has not connected its executor yet.
            true => CallReport::default(),
            false => postcard::from_bytes(&bytes).unwrap_or_default(),
        };
        let reports = self.bootstrap.reports(ANSWER_TIME)?;
        Ok(reports.into_iter().map(|report| report.map(decode)).collect())
    }

    /// Returns the cause of a call in which this rank had waited for `waited` in vain at `expired`; `None` if all ranks had started
    /// the call and wait in it, so that the plan is the cause.
    #[cold]
    pub(in super::super) fn find_late_ranks(&self, waited: Duration, expired: Instant) -> Option<bootstrap::Error> {
        let mut reports = match self.reports() {
            Ok(reports) => reports,
            Err(cause) => return Some(cause),
        };
        let since = expired.elapsed() + arrival_time(waited);
        reports.iter_mut().flatten().for_each(|report| report.remove_call_entered_within(since, self.number));
        let infos = |ranks: Vec<u32>| ranks.into_iter().map(|rank| self.bootstrap.member(rank)).collect();
        let text = |number| call_text(&reports, number);
        Some(match find_culprits(&reports, self.number)? {
            Culprits::Silent(rank) => self.silent(rank),
            Culprits::Differs { number, rank } => self.find_mismatch(number, rank),
            Culprits::Missing { number, ranks, waiting } => {
                let last_call = text_of_call_before(&reports, number);
                bootstrap::Error::CollectiveTimeout {
                    call: text(number),
                    missing: infos(ranks),
                    waiting,
                    waited,
                    last_call,
                }
            }
            Culprits::Busy { number, mut ranks, waiting } => {
                ranks.retain(|rank| *rank != self.rank());
                if ranks.is_empty() {
                    return None;
                }
                bootstrap::Error::NoProgress { call: text(number), ranks: infos(ranks), waiting, waited }
            }
        })
    }

    /// Returns the cause of a call on devices in which this rank has waited for `timeout` in vain; `None` if all ranks had made all of
    /// its calls by then.
    #[cfg(feature = "cuda")]
    #[cold]
    #[doc(hidden)]
    pub fn find_ranks_late_on_devices(&self, ring: &CallRing, timeout: Duration) -> Option<bootstrap::Error> {
        let reports = match self.reports() {
            Ok(reports) => reports,
            Err(cause) => return Some(cause),
        };
        match (0..).zip(&reports).find(|(_, report)| report.is_none()) {
            Some((rank, _)) => Some(self.silent(rank)),
            None => ring.find_late_ranks(&self.bootstrap, &reports, timeout),
        }
    }

    /// Returns the error of a rank that does not answer: it has left in order, or is suspended.
    fn silent(&self, rank: u32) -> bootstrap::Error {
        match self.bootstrap.has_left(rank) {
            Ok(true) => self.left(rank),
            _ => bootstrap::Error::Unresponsive { who: Box::new(self.bootstrap.member(rank)), silent: ANSWER_TIME },
        }
    }

    /// Returns the cause of a call that differs between ranks: the call of most ranks, and a rank that makes another one.
    /// `peer` is known to make another call than this rank.
    #[cold]
    pub(super) fn find_mismatch(&self, number: u64, peer: u32) -> bootstrap::Error {
        let mut grace = ActiveTimeout::new(MISMATCH_GRACE_PERIOD);
        loop {
            let reports = match self.reports() {
                Ok(reports) => reports,
                Err(cause) => return cause,
            };
            let call = |rank: u32| reports.get(rank as usize)?.as_ref()?.call(number);
            let calls: Vec<_> =
                (0..self.bootstrap.num_ranks()).filter_map(|rank| Some((rank, call(rank)?.id))).collect();
            if calls.len() == reports.len() || grace.is_expired() {
                let (first, second) = odd_one_out(&calls).unwrap_or((self.rank(), peer));
                let is_alike = call(first).map(|call| &call.name) == call(second).map(|call| &call.name);
                let text = |rank| match call(rank) {
                    // Calls with different plans have the same name.
                    Some(call) if is_alike => format!("{call}: {}", call.text),
                    Some(call) => call.to_string(),
                    None => "another call".to_owned(),
                };
                return bootstrap::Error::Mismatch {
                    first: Box::new(self.bootstrap.member(first)),
                    first_call: text(first),
                    second: Box::new(self.bootstrap.member(second)),
                    second_call: text(second),
                };
            }
            std::thread::sleep(PARK_INTERVAL);
        }
    }

    /// Returns the error of a rank that has left in order.
    pub(super) fn left(&self, rank: u32) -> bootstrap::Error {
        // Without rank 0 of the job no rank decides for all, so the error is the same for all that notice it.
        let decides = self.bootstrap.members().get(rank as usize) == Some(&0);
        let (who, waiting) = (Box::new(self.bootstrap.member(rank)), (!decides).then(|| self.rank()));
        // Some ranks may have finished the first call that it does not make.
        let last = self.locals.iter().position(|&local| local == rank).and_then(|at| self.calls.left_after(at));
        let number = last.map_or(self.number, |last| (last + 1).min(self.number));
        bootstrap::Error::RankLeft { who, waiting, call: self.call_text(number) }
    }

    /// Returns the error of a rank that could make progress in the current call, and does not.
    pub(in super::super) fn no_progress(&self, rank: u32, waited: Duration) -> bootstrap::Error {
        let (call, ranks) = (self.call_text(self.number), vec![self.bootstrap.member(rank)]);
        bootstrap::Error::NoProgress { call, ranks, waiting: vec![self.rank()], waited }
    }

    /// Returns the error of a rank that can make no progress, because of the plan.
    pub(in super::super) fn stalled(&self, rank: u32, reason: String) -> bootstrap::Error {
        let (who, call) = (Box::new(self.bootstrap.member(rank)), self.call_text(self.number));
        bootstrap::Error::CallFailed { who, call, kind: ErrorKind::Stalled, reason }
    }
}
