//! Waiting for peers, and what ends it.

use std::time::Duration;

use super::super::calls::RING;
use super::Session;
use crate::error::{AbortCause, Error};
use mscclpp_bootstrap::ActiveTimeout;

/// Rounds that a rank spins before it lets others have its processor, about a hundred microseconds.
pub(in super::super) const SPINS: u32 = 2000;

/// Rounds that it then spends so before it sleeps.
pub(in super::super) const YIELDS: u32 = 1000;

/// Passes a little time in a spin: at first none, as a peer on its way is here within a few looks.
#[inline]
pub(in super::super) fn spin(rounds: u32) {
    if rounds > 64 {
        std::hint::spin_loop();
    }
}

/// How long a rank sleeps at most before it looks whether its peers are alive.
pub(in super::super) const PARK_INTERVAL: Duration = Duration::from_millis(2);

/// How long after a peer gave up its reason may take to arrive here.
pub(super) const CAUSE_GRACE_PERIOD: Duration = Duration::from_millis(200);

impl Session {
    /// Waits outside of a launch until something is so; fails when a peer is gone or nothing is so until the deadline.
    #[cold]
    pub(super) fn wait_for(&mut self, mut is_so: impl FnMut(&mut Self) -> Result<bool, Error>) -> Result<(), Error> {
        let mut timeout: Option<ActiveTimeout> = None;
        let mut rounds = 0_u32;
        while !is_so(self)? {
            rounds += 1;
            if rounds < SPINS && !self.oversubscribed {
                spin(rounds);
                continue;
            }
            if rounds < SPINS + YIELDS {
                std::thread::yield_now();
                continue;
            }
            let deadline = self.options.timeout;
            self.check_peers(timeout.get_or_insert_with(|| ActiveTimeout::new(deadline)))?;
            let drowsy = self.calls.prepare_park();
            if is_so(self)? {
                self.calls.cancel_park();
                break;
            }
            self.calls.park(drowsy, PARK_INTERVAL);
        }
        Ok(())
    }

    /// Fails if a wait is of no use any longer.
    fn check_peers(&mut self, timeout: &mut ActiveTimeout) -> Result<(), Error> {
        let compare = |session: &mut Self| session.peers().try_for_each(|place| session.compare(place));
        compare(self)?;
        let cause = self.find_cause();
        if cause.is_some() {
            // A peer that gave up because of this very call has said what it calls.
            compare(self)?;
        }
        let why = |what| format!("{what}, while rank {} waited for it", self.rank());
        let error = match cause {
            Some(AbortCause::Group(error)) => Error::Group(error),
            Some(AbortCause::PeerLost { peer }) => Error::RankLost { peer, why: why("its connection was closed") },
            Some(AbortCause::PeerAborted { peer }) => Error::RankLost { peer, why: why("it aborted") },
            _ if !timeout.is_expired() => return Ok(()),
            _ => {
                let absent = self.peers().find(|&place| !self.is_compared(place));
                let peer = self.locals[absent.unwrap_or(self.me)];
                let call = self.text_of(self.history[(self.number % RING) as usize].1).unwrap_or_default();
                let why = format!("it did not make call {} ({call}) within {:?}", self.number, self.options.timeout);
                Error::RankLost { peer, why }
            }
        };
        self.give_up(&error);
        Err(error)
    }

    /// Why nobody needs to be waited for any longer, if so.
    #[cold]
    pub(in super::super) fn find_cause(&self) -> Option<AbortCause> {
        if let Some(cause) = self.find_first_cause() {
            return Some(cause);
        }
        let place = self.calls.find_given_up()?;
        // What the group ends for is the same on all ranks, whoever notices it first.
        if let Some(error) = self.calls.find_cause() {
            return Some(AbortCause::Group(Box::new(self.bootstrap.fail(error))));
        }
        // A peer may give up because of what is about to be seen here too: who died or stopped is to be named, not who
        // heard of it first.
        let mut timeout = ActiveTimeout::new(CAUSE_GRACE_PERIOD);
        while !timeout.is_expired() {
            std::thread::sleep(PARK_INTERVAL);
            if let Some(cause) = self.find_first_cause() {
                return Some(cause);
            }
        }
        Some(AbortCause::PeerAborted { peer: self.locals[place] })
    }

    /// A cause that is not a consequence of another one.
    #[cold]
    fn find_first_cause(&self) -> Option<AbortCause> {
        // Who has finished this call may leave, and who has given up has a reason.
        let needed = |place| !self.calls.has_left_after(place, self.number) && !self.calls.has_given_up(place);
        if let Some(place) = self.mesh.poll_disconnected(needed) {
            return Some(AbortCause::PeerLost { peer: self.locals[place] });
        }
        self.bootstrap.check_alive().err().map(|error| AbortCause::Group(Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::thread;

    use super::*;
    use crate::process::Executor;
    use mscclpp_bootstrap as bootstrap;
    use mscclpp_bootstrap::Bootstrap;

    /// What rank 0 is told in a call if rank 1 alone has noticed that the group is finished, and then does something.
    fn told(then: impl Fn(Executor) + Sync) -> (bootstrap::Error, Error) {
        let group: [Bootstrap; 2] = Bootstrap::local(2).unwrap().try_into().unwrap();
        let [zero, one] = group.map(Arc::new);
        let cause = bootstrap::Error::Unresponsive {
            who: Box::new(one.rank_info(0).unwrap().clone()),
            silent: Duration::from_secs(5),
        };
        let (met, then) = (Barrier::new(2), &then);
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                let transport = Executor::new(Arc::clone(&one)).unwrap();
                one.notice(cause.clone());
                then(transport);
                met.wait();
            });
            let transport = Executor::new(Arc::clone(&zero)).unwrap();
            met.wait();
            // A call that rank 1 has begun may still end well.
            transport.barrier().and_then(|()| transport.barrier()).unwrap_err()
        });
        assert_eq!(zero.check_alive(), Err(cause.clone()), "later calls say the same");
        (cause, error)
    }

    #[test]
    fn a_rank_that_leaves_a_finished_group_says_why() {
        let (cause, error) = told(drop);
        assert!(matches!(&error, Error::Group(found) if **found == cause), "{error}");
    }

    #[test]
    fn a_rank_whose_call_fails_because_the_group_is_finished_says_why() {
        let (cause, error) = told(|transport| {
            transport.barrier().unwrap_err();
            // Its connections stay open.
            std::mem::forget(transport);
        });
        assert!(matches!(&error, Error::Group(found) if **found == cause), "{error}");
    }
}
