//! Failures that ranks have learned of, because of which they may end.

use std::collections::BTreeMap;
use std::time::Instant;

use mscclpp_core::diag::ErrorKind;

use super::error::Error;
use super::failure_times::ENDING_TIME;

/// By rank: the first failure of a communicator that contains it, and when, if it has made no call since.
#[derive(Debug, Default)]
pub(crate) struct Learned(BTreeMap<u32, (Error, Instant)>);

impl Learned {
    /// Records that ranks learn of a failure.
    pub(crate) fn record(&mut self, ranks: impl Iterator<Item = u32>, error: &Error, now: Instant) {
        for rank in ranks {
            let learned = self.0.entry(rank).or_insert_with(|| (error.clone(), now));
            if now > learned.1 + ENDING_TIME {
                *learned = (error.clone(), now);
            }
        }
    }

    /// Records that a rank continues: it makes a call of a communicator that has not failed.
    pub(crate) fn forget(&mut self, rank: u32) {
        self.0.remove(&rank);
    }

    /// Returns the error with the failure that made the rank in it end, if the rank ended because of one.
    pub(crate) fn with_cause(&self, error: Error, now: Instant) -> Error {
        let who = match &error {
            Error::Died { who, .. }
            | Error::RankLeft { who, .. }
            | Error::CallFailed { who, kind: ErrorKind::RankLost, .. } => who,
            _ => return error,
        };
        match self.0.get(&who.rank) {
            Some((cause, at)) if now <= *at + ENDING_TIME => {
                let cause = match cause.clone() {
                    Error::Ended { cause, .. } => cause,
                    cause => Box::new(cause),
                };
                Error::Ended { who: who.clone(), cause }
            }
            _ => error,
        }
    }
}
