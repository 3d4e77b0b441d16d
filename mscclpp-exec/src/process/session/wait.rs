//! Waits for peers, and detects failures that end a wait.

use std::time::{Duration, Instant};

use super::super::interrupt::is_interrupted;
use super::Session;
use mscclpp_base::error::Error;
use mscclpp_bootstrap::{self as bootstrap, ActiveTimeout, CAUSE_GRACE_PERIOD, ErrorKind};

/// Number of rounds in which a rank spins before it yields the processor, about a hundred microseconds.
const SPINS: u32 = 2000;

/// Number of rounds in which it then yields before it parks.
const YIELDS: u32 = 1000;

/// How long it yields at most. Where other processes need the processor, each round takes as long as they run, and only a rank
/// that parks checks whether its peers are alive.
const MAX_YIELD_TIME: Duration = Duration::from_millis(20);

/// What a rank does between two checks of what it waits for: it spins at first, then yields the processor, then parks.
#[derive(Default)]
pub(in super::super) struct Backoff {
    rounds: u32,
    /// When it first yielded.
    yielding: Option<Instant>,
}

impl Backoff {
    /// Spins or yields, or returns `false` if the rank is to park.
    #[inline]
    pub(in super::super) fn wait(&mut self, oversubscribed: bool) -> bool {
        self.rounds = self.rounds.saturating_add(1);
        let spins = if oversubscribed { 0 } else { SPINS };
        if self.rounds < spins {
            // Not at all in the first rounds, because a running peer often arrives within a few polls.
            if self.rounds > 64 {
                std::hint::spin_loop();
            }
            return true;
        }
        let yields = self.rounds < spins + YIELDS && self.may_yield(Instant::now());
        if yields {
            std::thread::yield_now();
        }
        yields
    }

    /// Returns whether the rank has yielded for less than the limit.
    fn may_yield(&mut self, now: Instant) -> bool {
        now.saturating_duration_since(*self.yielding.get_or_insert(now)) < MAX_YIELD_TIME
    }
}

/// Maximum duration of a park before a rank checks whether its peers are alive.
pub(in super::super) const PARK_INTERVAL: Duration = Duration::from_millis(2);

impl Session {
    /// Waits outside of a launch until a condition holds; fails when a peer is lost or the timeout expires.
    #[cold]
    pub(super) fn wait_for(
        &mut self,
        mut condition: impl FnMut(&mut Self) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut timeout: Option<ActiveTimeout> = None;
        let mut backoff = Backoff::default();
        let waited = loop {
            // Before the condition, so that a peer that has arrived in time is found.
            let is_late = timeout.as_mut().is_some_and(ActiveTimeout::is_expired);
            match condition(self) {
                Ok(false) => {}
                done => break done.map(drop),
            }
            if backoff.wait(self.oversubscribed) {
                continue;
            }
            self.history.wait_in(self.number);
            timeout.get_or_insert_with(|| ActiveTimeout::new(self.options.timeout));
            if let Err(error) = self.check_peers(is_late) {
                break Err(error);
            }
            let token = self.calls.prepare_park();
            match condition(self) {
                Ok(false) => self.calls.park(token, PARK_INTERVAL),
                done => {
                    self.calls.cancel_park();
                    break done.map(drop);
                }
            }
        };
        self.history.wait_in(0);
        waited
    }

    /// Fails if a wait cannot succeed any more, or has taken too long.
    fn check_peers(&mut self, is_late: bool) -> Result<(), Error> {
        let now = Instant::now();
        let compare = |session: &mut Self| session.peers().try_for_each(|local_rank| session.compare(local_rank));
        compare(self)?;
        self.abort_if_interrupted();
        let cause = self.find_cause();
        if cause.is_some() {
            // A peer that aborted because of this very call has recorded its call.
            compare(self)?;
        }
        let cause = match cause {
            Some(cause) => cause,
            None if !is_late => return Ok(()),
            None => {
                let waited = self.options.timeout;
                let none = || self.stalled(self.rank(), format!("it waited in vain for {waited:?}"));
                self.find_late_ranks(waited, now).unwrap_or_else(none)
            }
        };
        Err(self.fail(cause).into())
    }

    /// Aborts the communicator if the check of this thread's call demands it.
    pub(in super::super) fn abort_if_interrupted(&self) {
        if is_interrupted() {
            self.bootstrap.abort("its call was interrupted");
        }
    }

    /// Returns why no wait can succeed any more, if so.
    #[cold]
    pub(in super::super) fn find_cause(&self) -> Option<bootstrap::Error> {
        if let Some(cause) = self.find_first_cause() {
            return Some(cause);
        }
        let local_rank = self.calls.find_aborted()?;
        // The cause of the communicator's failure is the same on all ranks, whichever notices it first.
        if let Some(error) = self.calls.find_cause() {
            // A rank that was suspended reads that it is silent, which holds for its peers only.
            return Some(if error.lost() == [self.rank()] { error.excluded(Vec::new()) } else { error });
        }
        // A peer may abort because of an event that this rank is about to notice as well. The report should name the
        // rank that died or stopped responding, not the one that noticed it first.
        let mut timeout = ActiveTimeout::new(CAUSE_GRACE_PERIOD);
        while !timeout.is_expired() {
            std::thread::sleep(PARK_INTERVAL);
            if let Some(cause) = self.find_first_cause() {
                return Some(cause);
            }
        }
        Some(self.lost(local_rank, "it aborted"))
    }

    /// Returns the failure of a local rank that no longer takes part.
    fn lost(&self, local_rank: usize, reason: &str) -> bootstrap::Error {
        let (who, call) = (Box::new(self.bootstrap.member(self.locals[local_rank])), self.call_text(self.number));
        bootstrap::Error::CallFailed { who, call, kind: ErrorKind::RankLost, reason: reason.into() }
    }

    /// Returns a cause that is not a consequence of another one.
    #[cold]
    fn find_first_cause(&self) -> Option<bootstrap::Error> {
        // A rank that has finished this call may leave, and a rank that has failed has a cause.
        let needed =
            |local_rank| !self.calls.has_left_after(local_rank, self.number) && !self.calls.has_aborted(local_rank);
        if let Some(local_rank) = self.mesh.poll_disconnected(needed) {
            let who = Box::new(self.bootstrap.member(self.locals[local_rank]));
            if self.calls.left_after(local_rank).is_some() {
                return Some(self.left(self.locals[local_rank]));
            }
            // If it died, its connection to rank 0 shows that too, or rank 0 itself is lost.
            let how = format!("its connection to rank {} was closed", self.rank());
            let noticed = self.bootstrap.failure_within(CAUSE_GRACE_PERIOD);
            return Some(noticed.unwrap_or(bootstrap::Error::Died { who, how }));
        }
        self.bootstrap.check_alive().err()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, Mutex};
    use std::thread;

    use super::*;
    use crate::process::Executor;
    use mscclpp_bootstrap as bootstrap;
    use mscclpp_bootstrap::Bootstrap;

    fn aborted(one: &Bootstrap) -> bootstrap::Error {
        bootstrap::Error::Aborted { who: Box::new(one.member(1)), reason: "no data".into() }
    }

    fn silent(one: &Bootstrap) -> bootstrap::Error {
        bootstrap::Error::Unresponsive { who: Box::new(one.member(0)), silent: Duration::from_secs(5) }
    }

    /// Returns rank 0's error in a call if rank 1 alone knows why the communicator has failed, and then runs `then`.
    fn error_after(
        cause: fn(&Bootstrap) -> bootstrap::Error,
        then: impl Fn(Executor) + Sync,
    ) -> (bootstrap::Error, Error) {
        let group: [Bootstrap; 2] = Bootstrap::local(2).unwrap().try_into().unwrap();
        let [zero, one] = group.map(Arc::new);
        let cause = cause(&one);
        let (barrier, then) = (Barrier::new(2), &then);
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                let transport = Executor::new(Arc::clone(&one)).unwrap();
                one.notice(cause.clone());
                then(transport);
                barrier.wait();
            });
            let transport = Executor::new(Arc::clone(&zero)).unwrap();
            barrier.wait();
            // A call that rank 1 has started may still succeed.
            transport.barrier().and_then(|()| transport.barrier()).unwrap_err()
        });
        assert_eq!(zero.check_alive().map_err(Error::from), Err(error.clone()), "later calls say the same");
        (cause, error)
    }

    #[test]
    fn rank_whose_yields_take_long_parks_soon() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        assert!(backoff.may_yield(start) && backoff.may_yield(start + MAX_YIELD_TIME / 2));
        assert!(!backoff.may_yield(start + MAX_YIELD_TIME), "each yield may take as long as other processes run");
        let mut slow = Backoff { rounds: SPINS, yielding: Instant::now().checked_sub(MAX_YIELD_TIME) };
        assert!(!slow.wait(false) && !slow.wait(true), "{} rounds are left", YIELDS - 2);
    }

    #[test]
    fn rank_that_spins_and_yields_parks_after_all_rounds() {
        for oversubscribed in [false, true] {
            let mut backoff = Backoff::default();
            let rounds = (0..).take_while(|_| backoff.wait(oversubscribed)).count();
            assert!(rounds < (SPINS + YIELDS) as usize, "{rounds}");
            assert!(!backoff.wait(oversubscribed));
        }
    }

    #[test]
    fn rank_leaving_a_failed_communicator_reports_the_cause() {
        let (cause, error) = error_after(aborted, drop);
        assert!(matches!(&error, Error::Bootstrap(found) if **found == cause), "{error}");
    }

    #[test]
    fn rank_that_its_peers_consider_suspended_does_not_report_itself_as_silent() {
        let (_, error) = error_after(silent, drop);
        let text = error.to_string();
        assert!(
            text.starts_with("rank 0 (") && text.contains("by the other ranks: no answer from it for 5.0 s: "),
            "{text}"
        );
        assert_eq!((error.kind(), error.lost()), (ErrorKind::RankLost, vec![0]));
    }

    #[test]
    fn rank_with_a_failed_call_reports_the_cause() {
        let open = Mutex::new(Vec::new());
        let (cause, error) = error_after(aborted, |transport| {
            transport.barrier().unwrap_err();
            // Its connections stay open.
            open.lock().unwrap().push(transport);
        });
        assert!(matches!(&error, Error::Bootstrap(found) if **found == cause), "{error}");
    }
}
