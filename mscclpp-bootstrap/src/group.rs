//! A rank's handle to the control plane.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::error::Error;
use super::failure_times::ANSWER_TIME;
use super::frame::{Frame, MAX_RANKS};
use super::inbox::{ReportSource, Scope, State};
use super::link::Link;
use super::local;
use super::options::{MAX_TIMEOUT, Options};
use super::rank_info::{self, RankInfo};
use super::status::Topic;

/// A rank's handle to the control plane of a communicator, whose ranks are processes of one job or threads of one
/// process.
///
/// It carries small data: addresses, handles, sizes, agreements. All ranks of the communicator make collective calls in
/// the same order, one at a time; if ranks make different calls, all ranks get an error. Every call is bounded by the
/// communicator's timeout, and every failure names the rank that caused it. After a failure the communicator stays
/// failed: all its calls return the same error, and its ranks can only form a new communicator, with
/// [`shrink`](Self::shrink) or [`grow`](Self::grow). A failure of one communicator is none of the others of the job,
/// unless they were split from it; a rank that died is lost to all communicators that contain it, and without rank 0 of
/// the job, which forwards messages, all its communicators have failed.
///
/// Dropping the last handle of a job sends a shutdown frame to the other ranks and takes at most one second. Rank 0
/// forwards all messages, so it should leave last: end with a [`barrier`](Self::barrier).
///
/// ```
/// use mscclpp_bootstrap::{Bootstrap, Error};
///
/// # fn main() -> Result<(), Error> {
/// // `Bootstrap::from_env` joins the job of a launcher; these ranks are threads.
/// std::thread::scope(|scope| {
///     for group in Bootstrap::local(3)? {
///         scope.spawn(move || {
///             let name = format!("rank {}", group.rank());
///             let all = group.all_gather(name.as_bytes()).expect("all ranks call it");
///             assert_eq!(all[2], b"rank 2");
///             group.barrier().expect("no rank is lost");
///         });
///     }
///     Ok(())
/// })
/// # }
/// ```
#[derive(Debug)]
pub struct Bootstrap {
    pub(super) link: Arc<dyn Link>,
    /// All ranks of the job.
    pub(super) world: Arc<[RankInfo]>,
    /// This communicator's ranks, as ranks of the job.
    pub(super) group: Arc<[u32]>,
    /// This communicator and those that it was split from, and its ranks.
    scope: Scope,
    /// Number of the job's failures so far, and of those that are known not to concern this communicator.
    failures: Arc<AtomicU64>,
    irrelevant_failures: AtomicU64,
    /// Timeout of this rank's calls, in nanoseconds.
    timeout: AtomicU64,
    /// This rank in this communicator.
    pub(super) rank: u32,
    nodes: Vec<u32>,
    /// Each call states it.
    ranks_per_node: u32,
    /// Distinguishes the communicator's calls and messages from those of other communicators.
    pub(super) context: u64,
    /// Number of the next collective call. The lock serializes the calls of several threads.
    pub(super) sequence: Mutex<u64>,
}

impl Bootstrap {
    /// Returns one handle per rank for `num_ranks` ranks in this process, each for its own thread.
    ///
    /// A rank whose thread panics counts as dead.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] for zero ranks, [`Error::TooManyRanks`] for more than 16384.
    pub fn local(num_ranks: u32) -> Result<Vec<Self>, Error> {
        Self::local_with_options(num_ranks, Options::default())
    }

    /// Does what [`local`](Self::local) does, with other timeouts.
    ///
    /// # Errors
    /// As [`local`](Self::local).
    pub fn local_with_options(num_ranks: u32, options: Options) -> Result<Vec<Self>, Error> {
        check_num_ranks(num_ranks)?;
        let options = options.bounded();
        let (members, links) = local::links(num_ranks, options)?;
        let group = |(rank, link)| Self::all_ranks(rank as u32, Arc::new(link), members.clone());
        Ok(links.into_iter().enumerate().map(group).collect())
    }

    /// Returns the communicator of all ranks of a job.
    pub(super) fn all_ranks(rank: u32, link: Arc<dyn Link>, world: Arc<[RankInfo]>) -> Self {
        let group = (0..world.len() as u32).collect();
        Self::subset(rank, link, world, group, &[0])
    }

    /// Returns a communicator of some of the job's ranks. `contexts`: its number, then those of the communicators that it
    /// was split from.
    pub(super) fn subset(
        rank: u32,
        link: Arc<dyn Link>,
        world: Arc<[RankInfo]>,
        group: Arc<[u32]>,
        contexts: &[u64],
    ) -> Self {
        let (scope, context) = (Scope { contexts: contexts.into(), group: group.clone() }, contexts[0]);
        let timeout = AtomicU64::new(nanoseconds(link.options().timeout));
        let (failures, irrelevant_failures) = (link.inbox().num_failures().clone(), AtomicU64::new(0));
        let members: Vec<_> = group.iter().map(|rank| world[*rank as usize].clone()).collect();
        let nodes = rank_info::nodes(&members);
        let ranks_per_node = rank_info::ranks_per_node(&nodes);
        let sequence = Mutex::new(0);
        Self {
            link,
            world,
            group,
            scope,
            failures,
            irrelevant_failures,
            timeout,
            rank,
            nodes,
            ranks_per_node,
            context,
            sequence,
        }
    }

    /// Returns this rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns the number of ranks of the communicator.
    pub fn num_ranks(&self) -> u32 {
        self.group.len() as u32
    }

    /// Returns the number that distinguishes this communicator from the others of its job. It is the same on all its
    /// ranks, and 0 for the communicator of the whole job.
    pub fn number(&self) -> u64 {
        self.context
    }

    /// Returns what distinguishes this communicator from all others, those of other jobs too: its number in its job, and a random
    /// number of the job. All its ranks have the same.
    #[doc(hidden)]
    pub fn identity(&self) -> (u64, u128) {
        (self.context, u128::from_ne_bytes(self.link.job()))
    }

    /// Returns this communicator's ranks, as ranks of the job.
    pub fn members(&self) -> &[u32] {
        &self.group
    }

    /// Returns this rank's number among the ranks of the job on its host, in the order of their ranks: the `LOCAL_RANK` of
    /// launchers. The same in all communicators of the job.
    pub fn local_rank(&self) -> u32 {
        let own = self.group[self.rank as usize] as usize;
        self.world[..own].iter().filter(|info| info.host == self.world[own].host).count() as u32
    }

    /// Returns the identity of a rank.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    pub fn rank_info(&self, rank: u32) -> Result<&RankInfo, Error> {
        self.group.get(rank as usize).map(|world| &self.world[*world as usize]).ok_or_else(|| self.no_such_rank(rank))
    }

    /// Returns the identity of a rank as errors name it: with its number in this communicator.
    #[doc(hidden)]
    pub fn member(&self, rank: u32) -> RankInfo {
        self.rank_info(rank).map_or_else(|_| RankInfo::unnamed(rank), |info| RankInfo { rank, ..info.clone() })
    }

    /// Returns the node of a rank. Ranks on one node can share memory. Nodes are numbered in the order of their first
    /// rank.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    pub fn node_of(&self, rank: u32) -> Result<u32, Error> {
        self.nodes.get(rank as usize).copied().ok_or_else(|| self.no_such_rank(rank))
    }

    /// Returns the number of nodes.
    pub fn num_nodes(&self) -> u32 {
        self.nodes.iter().max().map_or(1, |last| last + 1)
    }

    /// Returns the number of ranks per node, if all nodes have equally many ranks and the ranks of each node are
    /// consecutive. Otherwise returns 1, as if each rank were on a separate node: a plan for that runs on any
    /// placement.
    pub fn ranks_per_node(&self) -> u32 {
        self.ranks_per_node
    }

    /// Returns the timeouts of the communicator, which are those of rank 0.
    pub fn options(&self) -> Options {
        self.link.options()
    }

    /// Sets the timeout of this rank's later calls; that of the other ranks does not change.
    pub fn set_timeout(&self, timeout: Duration) {
        self.timeout.store(nanoseconds(timeout), Ordering::Relaxed);
    }

    /// Returns the timeout of this rank's calls.
    pub fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout.load(Ordering::Relaxed))
    }

    /// Checks that the communicator has not failed. Costs two loads if it has not.
    ///
    /// # Errors
    /// Why the communicator has failed: a rank died, aborted, or did not join or call in time.
    #[inline]
    pub fn check_alive(&self) -> Result<(), Error> {
        let failures = self.failures.load(Ordering::Acquire);
        if failures == self.irrelevant_failures.load(Ordering::Relaxed) {
            Ok(())
        } else {
            self.check_failures(failures)
        }
    }

    #[cold]
    fn check_failures(&self, failures: u64) -> Result<(), Error> {
        if let Some(error) = self.link.inbox().failure(&self.scope) {
            return Err(self.as_own(error));
        }
        self.irrelevant_failures.store(failures, Ordering::Relaxed);
        Ok(())
    }

    /// Checks that this is the process that created the communicator, and not a copy made by `fork`, which has no connection
    /// thread.
    #[doc(hidden)]
    pub fn check_process(&self) -> Result<(), Error> {
        let (own, pid) = (self.world[self.group[self.rank as usize] as usize].pid, std::process::id());
        if own == pid { Ok(()) } else { Err(Error::Forked { who: Box::new(self.member(self.rank)), pid }) }
    }

    /// Returns why the communicator has failed, if it has or does within `timeout`. For callers that observe a
    /// consequence of the failure and need its cause.
    pub fn failure_within(&self, timeout: Duration) -> Option<Error> {
        self.wait(timeout, |_| None::<()>).err()
    }

    /// Leaves the job, as dropping its last handle does, for processes that exit without running destructors. Takes at most a second.
    #[doc(hidden)]
    pub fn leave(&self) {
        self.link.leave();
    }

    /// Returns whether a rank has left the communicator in order, which is no failure until another rank waits for it.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    pub fn has_left(&self, rank: u32) -> Result<bool, Error> {
        let world = self.rank_info(rank)?.rank;
        Ok(self.wait(Duration::ZERO, |state| Some(state.has_left(world)))?.unwrap_or(false))
    }

    /// Ends the communicator for all its ranks, whose calls then return [`Error::Aborted`] with this rank's name and the
    /// first 1024 characters of `reason`. Communicators that were split from this one end too, the one that this one was
    /// split from does not.
    pub fn abort(&self, reason: &str) {
        let reason = reason.chars().take(1024).collect();
        self.fail_communicator(Error::Aborted { who: self.own_info(), reason });
    }

    /// Ends the communicator for all its ranks, whose pending and later calls then return [`Error::Revoked`] with this
    /// rank's name. No rank is lost: all of them can continue with [`shrink`](Self::shrink).
    ///
    /// A rank that notices a failure which others may not notice revokes the communicator, so that no rank waits for it.
    pub fn revoke(&self) {
        self.fail_communicator(Error::Revoked { who: self.own_info() });
    }

    /// Fails the communicator on all ranks because of `error`, and returns why it has failed: `error`, or the failure that
    /// another rank reported first. It is the same on all ranks. Waits up to two seconds for rank 0, which decides.
    pub fn fail(&self, error: Error) -> Error {
        if let Err(forked) = self.check_process() {
            return forked;
        }
        self.fail_communicator(self.as_of_job(error))
    }

    /// Does what [`fail`](Self::fail) does, with an error that contains ranks of the job.
    pub(super) fn fail_communicator(&self, error: Error) -> Error {
        let frame = self.failure_frame(error.clone());
        // If the frame cannot be sent, the other ranks notice that this rank is lost.
        if self.link.post(frame.clone()).is_ok()
            && let Some(first) = self.failure_within(ANSWER_TIME)
        {
            return first;
        }
        self.link.inbox().deliver(frame);
        self.as_own(self.link.inbox().failure(&self.scope).unwrap_or(error))
    }

    /// Announces that a call of this rank has failed, but not the communicator: if this rank ends, ranks that wait for it name this
    /// failure.
    #[doc(hidden)]
    pub fn announce_failure(&self, error: Error) {
        if self.check_process().is_ok() {
            // If the frame cannot be sent, the communicator has failed.
            let _ = self.link.post(Frame::CallFailed(self.as_of_job(error)));
        }
    }

    /// Sets what this rank reports about a topic when it is asked, also while its threads are busy. `None`: nothing. For the
    /// executors of this communicator.
    #[doc(hidden)]
    pub fn set_report(&self, topic: Topic, report: Option<Arc<dyn Fn() -> Vec<u8> + Send + Sync>>) {
        self.link.inbox().set_report_source(self.context, topic, report.map(ReportSource));
    }

    /// Returns the reports of all ranks that answer within `time`, by rank. Ranks answer while their threads are busy, but not
    /// while their processes are suspended. Waits until all have answered; not a call of all ranks.
    ///
    /// # Errors
    /// Why the communicator has failed.
    #[doc(hidden)]
    pub fn reports(&self, time: Duration) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let (inbox, context) = (self.link.inbox(), self.context);
        let own = self.group[self.rank as usize];
        let id = inbox.begin_query(context);
        let asked = self.link.post(Frame::Query { from: own, context, id, group: self.group.to_vec() });
        let others = self.group.len() - 1;
        let waited =
            asked.and_then(|()| self.wait(time, |state| (state.num_reports(context, id) >= others).then_some(())));
        let mut reports = inbox.end_query(context, id);
        waited?;
        if let Some(Frame::Report { bytes, .. }) =
            inbox.deliver(Frame::Query { from: own, context, id, group: Vec::new() })
        {
            reports.insert(own, bytes.into_vec());
        }
        Ok(self.group.iter().map(|rank| reports.remove(rank)).collect())
    }

    /// Records on this rank alone why the communicator has failed, as if this rank had noticed it first.
    #[doc(hidden)]
    pub fn notice(&self, error: Error) {
        self.link.inbox().deliver(self.failure_frame(self.as_of_job(error)));
    }

    fn failure_frame(&self, error: Error) -> Frame {
        match &error {
            Error::Died { who, .. } | Error::Unresponsive { who, .. } | Error::Ended { who, .. } => {
                Frame::Lost { rank: who.rank, error }
            }
            _ => Frame::CommunicatorFailed { context: self.context, group: self.listed_group(), error },
        }
    }

    /// Returns this communicator's ranks as frames list them: none if it has all ranks of the job.
    pub(super) fn listed_group(&self) -> Vec<u32> {
        let is_whole = self.group.len() == self.world.len() && self.context == 0;
        if is_whole { Vec::new() } else { self.group.to_vec() }
    }

    pub(super) fn own_info(&self) -> Box<RankInfo> {
        Box::new(self.world[self.group[self.rank as usize] as usize].clone())
    }

    /// Returns an error with this communicator's ranks in place of those of the job.
    pub(super) fn as_own(&self, error: Error) -> Error {
        let own = |rank| self.group.iter().position(|member| *member == rank).map(|position| position as u32);
        if self.context == 0 { error } else { error.map_ranks(&own) }
    }

    /// Returns an error with the job's ranks in place of those of this communicator.
    fn as_of_job(&self, error: Error) -> Error {
        error.map_ranks(&|rank| self.group.get(rank as usize).copied())
    }

    /// Waits until `take` returns a value, the communicator fails, or `time` is over (`None`).
    pub(super) fn wait<T>(
        &self,
        time: Duration,
        take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let found = self.link.inbox().wait(time, |state| state.failure(&self.scope), take);
        found.map_err(|error| self.as_own(error))
    }

    /// Returns why no more frames arrive, if none do, with ranks of the job.
    pub(super) fn end(&self) -> Option<Error> {
        self.link.inbox().end(&self.scope)
    }

    /// Returns this communicator's number, then those of the communicators that it was split from.
    pub(super) fn contexts(&self) -> &[u64] {
        &self.scope.contexts
    }

    fn no_such_rank(&self, rank: u32) -> Error {
        Error::NoSuchRank { rank, num_ranks: self.num_ranks() }
    }
}

/// Returns a duration as an integer, at most [`MAX_TIMEOUT`].
fn nanoseconds(time: Duration) -> u64 {
    // A year has fewer than 2^55 nanoseconds.
    time.min(MAX_TIMEOUT).as_nanos() as u64
}

/// Checks that a communicator may have this number of ranks.
pub(super) fn check_num_ranks(num_ranks: u32) -> Result<(), Error> {
    match num_ranks {
        0 => Err(Error::NoSuchRank { rank: 0, num_ranks: 0 }),
        _ if num_ranks > MAX_RANKS => Err(Error::TooManyRanks { num_ranks, limit: MAX_RANKS }),
        _ => Ok(()),
    }
}
