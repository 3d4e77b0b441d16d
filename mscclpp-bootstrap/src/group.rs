//! A connected group of ranks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::error::Error;
use super::frame::{Frame, MAX_RANKS};
use super::link::Link;
use super::local;
use super::options::Options;
use super::rank_info::{self, RankInfo};

/// A connected group of ranks: processes of one job, or threads of one process.
///
/// Small things go through it: addresses, handles, sizes, agreements. Collective calls are made by all ranks of the group
/// in the same order, one at a time; what differs is an error on all of them. Every call is bounded by the group's
/// deadline, and every failure names who caused it. After a failure the group is finished: all its calls return the same
/// error, and its ranks can only come together anew.
///
/// Dropping the last handle of a job says goodbye to the others, which never takes longer than a second. Rank 0 passes
/// all messages on, so it should be the last to leave: end with a [`barrier`](Self::barrier).
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
///             group.barrier().expect("nobody is lost");
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
    /// This group's ranks, as ranks of the job.
    pub(super) group: Arc<[u32]>,
    /// This rank, in this group.
    pub(super) rank: u32,
    nodes: Vec<u32>,
    /// Tells the group's calls and messages from those of other groups.
    pub(super) context: u64,
    /// The number of the next collective call; the lock makes calls of several threads follow one another.
    pub(super) sequence: Mutex<u64>,
}

impl Bootstrap {
    /// `ranks` ranks in this process, for as many threads.
    ///
    /// A rank whose thread panics counts as dead.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] for no rank at all, [`Error::TooManyRanks`] for more than 16384.
    pub fn local(ranks: u32) -> Result<Vec<Self>, Error> {
        Self::local_with(ranks, Options::default())
    }

    /// [`local`](Self::local) with other deadlines.
    ///
    /// # Errors
    /// As [`local`](Self::local).
    pub fn local_with(ranks: u32, options: Options) -> Result<Vec<Self>, Error> {
        check_size(ranks)?;
        let options = options.bounded();
        let (members, links) = local::links(ranks, options);
        let group = |(rank, link)| Self::whole(rank as u32, Arc::new(link), members.clone());
        Ok(links.into_iter().enumerate().map(group).collect())
    }

    /// The group of all ranks of a job.
    pub(super) fn whole(rank: u32, link: Arc<dyn Link>, world: Arc<[RankInfo]>) -> Self {
        let group = (0..world.len() as u32).collect();
        Self::part(rank, link, world, group, 0)
    }

    /// A group of some of the job's ranks.
    pub(super) fn part(
        rank: u32,
        link: Arc<dyn Link>,
        world: Arc<[RankInfo]>,
        group: Arc<[u32]>,
        context: u64,
    ) -> Self {
        let members: Vec<_> = group.iter().map(|rank| world[*rank as usize].clone()).collect();
        let nodes = rank_info::nodes(&members);
        Self { link, world, group, rank, nodes, context, sequence: Mutex::new(0) }
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of ranks of the group.
    pub fn num_ranks(&self) -> u32 {
        self.group.len() as u32
    }

    /// What tells this group from the others of its job, the same on all of its ranks; 0 for the whole job.
    pub fn number(&self) -> u64 {
        self.context
    }

    /// This group's ranks, as ranks of the job.
    pub fn members(&self) -> &[u32] {
        &self.group
    }

    /// Who a rank is.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    pub fn rank_info(&self, rank: u32) -> Result<&RankInfo, Error> {
        self.group.get(rank as usize).map(|world| &self.world[*world as usize]).ok_or_else(|| self.no_such(rank))
    }

    /// The node that a rank is on: ranks on one node can share memory. Nodes are counted in the order of their first rank.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    pub fn node_of(&self, rank: u32) -> Result<u32, Error> {
        self.nodes.get(rank as usize).copied().ok_or_else(|| self.no_such(rank))
    }

    /// Number of nodes.
    pub fn num_nodes(&self) -> u32 {
        self.nodes.iter().max().map_or(1, |last| last + 1)
    }

    /// How many ranks each node has, if all have as many and the ranks of a node follow one another. Otherwise 1, as if
    /// each rank were a node of its own: what is planned for that runs on any placement.
    pub fn ranks_per_node(&self) -> u32 {
        rank_info::ranks_per_node(&self.nodes)
    }

    /// The deadlines that hold for the group: rank 0's.
    pub fn options(&self) -> Options {
        self.link.options()
    }

    /// Whether the group can go on. Costs one load if it can.
    ///
    /// # Errors
    /// Why the group is finished: a rank died, gave up, or did not come in time.
    pub fn check_alive(&self) -> Result<(), Error> {
        self.link.inbox().failure().map_or(Ok(()), Err)
    }

    /// Why the group is finished, if it is or will be within `timeout`: for who sees a consequence and wants the cause.
    pub fn failure_within(&self, timeout: Duration) -> Option<Error> {
        self.link.inbox().wait(timeout, |_| None::<()>).err()
    }

    /// Whether a rank has left the group in order, which is no failure until somebody waits for it.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`].
    pub fn has_left(&self, rank: u32) -> Result<bool, Error> {
        let world = self.rank_info(rank)?.rank;
        Ok(self.link.inbox().wait(Duration::ZERO, |state| Some(state.has_left(world)))?.unwrap_or(false))
    }

    /// Ends the job for all ranks, which from now on return [`Error::Aborted`] with this rank's name and `reason`
    /// (its first 1024 characters).
    pub fn abort(&self, reason: &str) {
        let reason = reason.chars().take(1024).collect();
        let who = Box::new(self.world[self.group[self.rank as usize] as usize].clone());
        self.fail(Error::Aborted { who, reason });
    }

    /// Ends the job for all ranks with `error`, and returns it.
    pub fn fail(&self, error: Error) -> Error {
        // Where it cannot be said to the others, they notice that this rank is gone.
        let _ = self.link.post(Frame::Failed(error.clone()));
        self.link.inbox().deliver(Frame::Failed(error.clone()));
        self.link.inbox().failure().unwrap_or(error)
    }

    /// Lets this rank alone learn why the group is finished, as if it had noticed that first.
    #[doc(hidden)]
    pub fn notice(&self, error: Error) {
        self.link.inbox().deliver(Frame::Failed(error));
    }

    fn no_such(&self, rank: u32) -> Error {
        Error::NoSuchRank { rank, ranks: self.num_ranks() }
    }
}

/// Whether a group may have so many ranks.
pub(super) fn check_size(ranks: u32) -> Result<(), Error> {
    match ranks {
        0 => Err(Error::NoSuchRank { rank: 0, ranks: 0 }),
        _ if ranks > MAX_RANKS => Err(Error::TooManyRanks { ranks, limit: MAX_RANKS }),
        _ => Ok(()),
    }
}
