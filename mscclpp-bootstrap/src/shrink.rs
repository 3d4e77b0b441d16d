//! Continues without lost ranks.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::PoisonError;
use std::time::Duration;

use super::collective::ROOT_GRACE_PERIOD;
use super::continuation::{self, Continuation};
use super::error::Error;
use super::frame::Frame;
use super::group::Bootstrap;
use super::inbox::State;
use super::protocol::Purpose;
use super::rank_info::RankInfo;
use super::tcp;

/// Maximum duration of a connection that tests whether a process listens.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

impl Bootstrap {
    /// Creates a communicator of the remaining ranks, in the same order and with the same timeouts. All of them call this,
    /// usually after a failure, with the ranks that [`Error::lost`] of the failure returns; without a failure, the new
    /// communicator has the ranks of the list excluded.
    ///
    /// A communicator that has not failed continues for all its ranks, also those that are excluded, which do not call this. The
    /// new communicator consists of the ranks that are not in the list then, all of which pass the same one, and the communicator
    /// may be shrunk again, by whatever ranks. If ranks wait for each other in vain, because each is to continue with the other but
    /// passes another list, it is as after a failure.
    ///
    /// After a failure the new communicator consists of the ranks that call this and that no caller has in its list. Ranks that died or
    /// left meanwhile need not be in any list. A rank that does not call this, although it lives and is in no list, is
    /// reported by [`Error::CollectiveTimeout`] after [`rendezvous_timeout`](super::Options::rendezvous_timeout).
    /// Communicators that were split from this one do not continue; pending calls and messages of a failed communicator
    /// are lost.
    ///
    /// If rank 0 of the job does not remain, which forwards messages, the remaining ranks form a new job, whose rank 0 is the
    /// first of them, so that an excluded rank 0 may leave at any time. If it is lost, all of them have to pass the same list.
    ///
    /// # Errors
    /// [`Error::Excluded`] if the other ranks continue without this one, with their names; [`Error::CollectiveTimeout`].
    /// In a new job, the errors of [`connect`](Self::connect), and [`Error::ConfigMismatch`] if ranks pass different lists.
    /// After an error other than `Excluded`, the remaining ranks call this again, without the ranks that the error reports
    /// as lost.
    pub fn shrink(&self, lost: &[u32]) -> Result<Self, Error> {
        let lost: Vec<u32> = lost.iter().map(|rank| Ok(self.rank_info(*rank)?.rank)).collect::<Result<_, Error>>()?;
        let own = self.group[self.rank as usize];
        if lost.contains(&own) {
            let reason = self.check_alive().err().map(|error| error.to_string());
            let reason = reason.unwrap_or_else(|| "its own list of lost ranks contains it".into());
            let by = self.group.iter().copied().filter(|rank| !lost.contains(rank)).collect();
            return Err(self.as_own(Error::Excluded { who: self.own_info(), by, reason }));
        }
        // One shrink of a rank at a time.
        let _sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        let agreed = self.shrink_in_job(&lost).map_err(|error| self.as_own(error))?;
        match agreed {
            Some((number, group)) if self.remains_in_job(&group) => {
                let own = self.group[self.rank as usize];
                let rank = group.iter().position(|rank| *rank == own).unwrap_or(0) as u32;
                Ok(Self::subset(rank, self.link.clone(), self.world.clone(), group.into(), &[number]))
            }
            Some((_, group)) => self.continue_in_new_job(&group),
            None => self.continue_in_new_job(&self.remaining(lost)?),
        }
    }

    /// Returns whether the ranks need no other rank to forward their messages than before; threads of one process need none.
    fn remains_in_job(&self, group: &[u32]) -> bool {
        !self.group.contains(&0) || group.contains(&0) || self.link.secret().is_none()
    }

    /// Agrees on the remaining ranks within the job, and on the number of their communicator; `None` if the job has failed.
    /// Errors contain ranks of the job.
    fn shrink_in_job(&self, lost: &[u32]) -> Result<Option<(u64, Vec<u32>)>, Error> {
        let (inbox, context, timeout) = (self.link.inbox(), self.context, self.options().rendezvous_timeout);
        let (group, lost) = (self.group.to_vec(), lost.to_vec());
        let has_failed = self.check_alive().is_err();
        let posted = self.link.post(Frame::EnterShrink { context, group, lost, has_failed, timeout });
        for time in [timeout, ROOT_GRACE_PERIOD] {
            let ended = posted.is_err() || inbox.job_end().is_some();
            let found = if ended { Err(()) } else { Ok(()) };
            let found = found
                .and_then(|()| inbox.wait(time, State::job_failure, |state| state.take_shrunk(context)).map_err(drop));
            match (found, inbox.job_end()) {
                (Ok(Some(result)), _) => return result.map(Some),
                (Err(()), Some(error @ Error::Excluded { .. })) => return Err(error),
                (Err(()), _) => return Ok(None),
                (Ok(None), _) => _ = self.link.expire(),
            }
        }
        let (rank, from) = (self.group[self.rank as usize], Box::new(self.world[0].clone()));
        Err(Error::Timeout { rank, from, call: "answer to shrink".into(), waited: timeout + ROOT_GRACE_PERIOD })
    }

    /// Returns the ranks that remain of a job that has failed.
    fn remaining(&self, mut lost: Vec<u32>) -> Result<Vec<u32>, Error> {
        lost.extend(self.link.inbox().job_end().iter().flat_map(Error::lost));
        let own = self.group[self.rank as usize];
        // Not its own list: that was checked before.
        if lost.contains(&own) {
            let reason = "the job has failed because of it".into();
            return Err(self.as_own(Error::Excluded { who: self.own_info(), by: Vec::new(), reason }));
        }
        let has_ended = |rank: u32| rank != own && has_ended(&self.world[rank as usize]);
        Ok(self.group.iter().copied().filter(|rank| !lost.contains(rank) && !has_ended(*rank)).collect())
    }

    /// Forms a new job of some ranks.
    fn continue_in_new_job(&self, group: &[u32]) -> Result<Self, Error> {
        let cannot =
            |reason: &str| Error::System { what: "cannot shrink the communicator".into(), reason: reason.into() };
        let threads = || cannot("the ranks are threads of one process");
        let secret = self.link.secret().ok_or_else(threads)?;
        let own = self.group[self.rank as usize];
        let rank = group.iter().position(|rank| *rank == own).unwrap_or(0) as u32;
        let (ranks, options, generation) = (group.len() as u32, self.options(), self.generation() + 1);
        let first = self.world[group[0] as usize].address.ok_or_else(threads)?;
        let shrunk = if rank == 0 {
            let listener = TcpListener::bind((first.ip(), 0)).map_err(tcp::system("cannot listen"))?;
            let at = listener.local_addr().map_err(tcp::system("cannot get the address of a socket"))?;
            let shared = self.link.share_listener()?;
            let shared = shared.ok_or_else(|| cannot("another job of this rank listens at its address"))?;
            let (of, world) = ((self.context, generation), self.world.len() as u32);
            let continuation = Continuation::new(shared, secret.clone(), (own, world), of, at)?;
            tcp::host_continuation(listener, ranks, secret, options, generation, continuation)
        } else {
            let purpose = Purpose::Continue { rank, context: self.context, generation };
            // The IP address at which the other ranks have reached this rank so far.
            let ip = self.world[own as usize].address.map(|own| own.ip());
            continuation::locate(first, purpose, &secret, options)
                .and_then(|at| tcp::join(&[at], rank, ranks, secret, options, ip, Some(generation)))
        };
        let shrunk = shrunk.map_err(|error| self.as_own(self.of_old_job(error, group)))?;
        let names: Vec<_> = group.iter().map(ToString::to_string).collect();
        shrunk.compare(&[("list of remaining ranks", &names.join(", "))])?;
        Ok(shrunk)
    }

    /// Returns an error of a job that did not form, with ranks of this job; `members` are its ranks.
    fn of_old_job(&self, error: Error, members: &[u32]) -> Error {
        match error {
            Error::Excluded { by, reason, .. } => {
                let by = by.iter().filter_map(|rank| members.get(*rank as usize).copied()).collect();
                Error::Excluded { who: self.own_info(), by, reason }
            }
            error => error.map_ranks(&|rank| members.get(rank as usize).copied()),
        }
    }

    /// Returns the socket at which this rank has listened, which then accepts no more connections of the old job; `None` if
    /// it listened at another port.
    pub(super) fn take_listener(&self, port: u16) -> Option<TcpListener> {
        self.link.take_listener().filter(|listener| listener.local_addr().is_ok_and(|found| found.port() == port))
    }

    /// Returns the generation of the job.
    pub(super) fn generation(&self) -> u32 {
        self.link.inbox().generation()
    }
}

/// Returns whether no process listens at a rank's address: it has ended, because a rank listens as long as it has a
/// handle.
fn has_ended(rank: &RankInfo) -> bool {
    let probe = |at: SocketAddr| TcpStream::connect_timeout(&at, PROBE_TIMEOUT);
    rank.address.is_some_and(|at| probe(at).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused))
}
