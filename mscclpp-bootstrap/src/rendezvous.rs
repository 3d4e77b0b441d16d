//! Ranks find each other through a process that need not be one of them.
//!
//! A thread of that process learns from rank 0 where it listens, and tells the other ranks, which then join rank 0. The secret of
//! the job is the same for both and is never sent.
//!
//! If a rank is rejected, all ranks learn why at once: those that wait here, those that arrive later, and, through rank 0, which
//! stays connected until all ranks have arrived, those that have already joined it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::{Duration, Instant};

use mscclpp_core::threads;

use super::acceptor::{Acceptor, AuthenticatedPeer};
use super::conn::Conn;
use super::connect;
use super::error::Error;
use super::frame::{Frame, Malformed};
use super::group::{Bootstrap, check_num_ranks};
use super::options::Options;
use super::poll;
use super::protocol::Purpose;
use super::rank_info::RankInfo;
use super::tcp::system;
use super::unique_id::{RootListener, UniqueId};
use crate::timeout::ActiveTimeout;

/// How long a rank may take to send its identity, and a connection to close after the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// How long ranks that arrive after a failure still learn its reason.
const FAILURE_TIME: Duration = Duration::from_secs(60);

/// A thread that lets the ranks of one job find each other, whatever processes they are. It ends when all ranks have found rank 0,
/// and not with this handle.
///
/// ```
/// use mscclpp_bootstrap::{Options, Rendezvous};
///
/// # fn main() -> Result<(), mscclpp_bootstrap::Error> {
/// let rendezvous = Rendezvous::new()?;
/// let id = rendezvous.unique_id(); // passed to all ranks as text
/// let sum: u32 = std::thread::scope(|scope| {
///     let connect = |rank| scope.spawn(move || id.connect(rank, 2, Options::default()).map(|group| group.rank()));
///     [0, 1].map(connect).map(|rank| rank.join().expect("no panic").expect("all ranks connect")).iter().sum()
/// });
/// assert_eq!(sum, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Rendezvous {
    id: UniqueId,
    is_over: Arc<AtomicBool>,
}

impl Rendezvous {
    /// Listens on a free port, as [`RootListener::new`] does, and starts the thread.
    ///
    /// # Errors
    /// As [`RootListener::new`].
    pub fn new() -> Result<Self, Error> {
        let listener = RootListener::new()?;
        let (id, is_over) = (listener.unique_id().clone(), Arc::new(AtomicBool::new(false)));
        let acceptor =
            Acceptor::new(listener.into_socket(), id.secret.clone(), 0, 0).map_err(system("cannot listen"))?;
        let mut server = Server::new(acceptor, Arc::clone(&is_over));
        let run = move || {
            // Ranks that wait notice that the connections close.
            let _ = server.run();
            server.is_over.store(true, Release);
            server.finish();
        };
        let spawned = threads::named("mscclpp-rendezvous").spawn(run);
        spawned.map_err(system("cannot start a thread"))?;
        Ok(Self { id, is_over })
    }

    /// Returns the data that all ranks need, for [`UniqueId::connect`].
    pub fn unique_id(&self) -> &UniqueId {
        &self.id
    }

    /// Returns whether no rank can connect any more: all ranks have found rank 0, or the rendezvous has failed. It is true as soon
    /// as [`UniqueId::connect`] has returned on all ranks.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Acquire)
    }
}

impl UniqueId {
    /// Joins the job of `num_ranks` ranks as `rank`, which may be 0, by the id of a [`Rendezvous`].
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::Timeout`] if rank 0 does not arrive; [`Error::WorldSize`] and [`Error::DuplicateRank`], the
    /// same on all ranks; otherwise as [`RootListener::connect`] and [`join`](Self::join).
    pub fn connect(&self, rank: u32, num_ranks: u32, options: Options) -> Result<Bootstrap, Error> {
        check_num_ranks(num_ranks)?;
        if rank >= num_ranks {
            return Err(Error::NoSuchRank { rank, num_ranks });
        }
        let start = Instant::now();
        let mut timeout = ActiveTimeout::new(options.bounded().rendezvous_timeout);
        let purpose = Purpose::Locate { rank, ranks: num_ranks };
        let mut conn = connect::connect(&[self.address], purpose, &self.secret, &mut timeout, &|| Ok(()))?;
        // The other ranks reach this host through the same network.
        let own = conn.local_addr().map_err(system("cannot get the address of a socket"))?.ip();
        let listener = (rank == 0).then(|| RootListener::with_secret(own, self.secret.clone())).transpose()?;
        let address = listener.as_ref().map(|listener| listener.unique_id().address);
        conn.push(&Frame::Join(RankInfo::this(rank, address)));
        let at = match connect::wait_frame(&mut conn, &mut timeout, &|| Ok(()))? {
            Some(Frame::Located(at)) => at,
            Some(Frame::Rejected(error)) => return Err(error),
            Some(_) => return Err(Malformed::Unexpected("the address of rank 0").of(self.address)),
            None if timeout.is_expired() => {
                let (from, call) = (Box::new(RankInfo::unnamed(0)), "address of rank 0".into());
                return Err(Error::Timeout { rank, from, call, waited: start.elapsed() });
            }
            None => {
                let (address, reason) = (self.address, "the process that made the unique id has ended".into());
                return Err(Error::Unreachable { rank, peer: 0, address, waited: start.elapsed(), reason });
            }
        };
        match listener {
            Some(listener) => listener.connect_found(num_ranks, options, conn),
            None => Self { address: at, secret: self.secret.clone() }.join(rank, num_ranks, options),
        }
    }
}

/// A connection of a rank.
struct Arrival {
    rank: u32,
    ranks: u32,
    conn: Conn,
    until: Instant,
}

/// The thread's state.
struct Server {
    acceptor: Acceptor,
    /// Authenticated connections that have not sent their identity yet.
    arriving: Vec<Arrival>,
    /// Number of ranks of the job, once one has arrived, and the rank that arrived first.
    num_ranks: Option<(u32, u32)>,
    /// Where rank 0 listens, once it has arrived.
    root: Option<SocketAddr>,
    /// The connection of rank 0 after the answer, by which it learns of a failure, until all ranks have arrived.
    root_conn: Option<Conn>,
    /// The ranks that have arrived.
    members: BTreeMap<u32, RankInfo>,
    /// Those that do not know the answer.
    waiting: Vec<(u32, Conn)>,
    /// Connections with an answer, until the other end closes them.
    closing: Vec<(Conn, Instant)>,
    /// Why the rendezvous has failed, and until when ranks learn it.
    failure: Option<(Error, Instant)>,
    /// Whether all ranks have arrived, or the thread ends without them.
    is_over: Arc<AtomicBool>,
}

impl Server {
    fn new(acceptor: Acceptor, is_over: Arc<AtomicBool>) -> Self {
        Self {
            acceptor,
            arriving: Vec::new(),
            num_ranks: None,
            root: None,
            root_conn: None,
            members: BTreeMap::new(),
            waiting: Vec::new(),
            closing: Vec::new(),
            failure: None,
            is_over,
        }
    }

    fn has_all_ranks(&self) -> bool {
        self.num_ranks.is_some_and(|(ranks, _)| self.members.len() == ranks as usize)
    }

    /// Serves ranks until all of them have the answer.
    fn run(&mut self) -> Result<(), Error> {
        loop {
            self.wait()?;
            let now = Instant::now();
            for AuthenticatedPeer { purpose, conn } in self.acceptor.poll(now) {
                // Other processes have another kind of id.
                if let Purpose::Locate { rank, ranks } = purpose {
                    self.arriving.push(Arrival { rank, ranks, conn, until: now + CONNECTION_TIMEOUT });
                }
            }
            self.serve_arriving(now);
            self.serve_waiting(now);
            self.serve_closing(now);
            let is_over = match &self.failure {
                Some((_, until)) => now >= *until,
                None => self.has_all_ranks() && self.waiting.is_empty(),
            };
            if is_over {
                self.closing.extend(self.root_conn.take().map(|conn| (conn, now + CONNECTION_TIMEOUT)));
                self.acceptor.close();
                return Ok(());
            }
        }
    }

    /// Waits until the ranks have read their answers.
    fn finish(&mut self) {
        while !self.closing.is_empty() && self.wait().is_ok() {
            self.serve_closing(Instant::now());
        }
    }

    fn serve_closing(&mut self, now: Instant) {
        self.closing.retain_mut(|(conn, until)| {
            conn.flush();
            conn.discard();
            conn.read().unwrap_or(false) && now < *until
        });
    }

    fn wait(&self) -> Result<(), Error> {
        let arriving = self.arriving.iter().map(|arrival| &arrival.conn);
        let conns = arriving.chain(self.waiting.iter().map(|(_, conn)| conn));
        let conns = conns.chain(&self.root_conn).chain(self.closing.iter().map(|(conn, _)| conn));
        let sockets = self.acceptor.sockets().chain(conns.map(|conn| (conn.as_fd(), conn.interest())));
        let expiries = self.arriving.iter().map(|arrival| arrival.until);
        let expiries = expiries.chain(self.closing.iter().map(|(_, until)| *until));
        let expiries = expiries.chain(self.failure.iter().map(|(_, until)| *until)).chain(self.acceptor.next_expiry());
        let timeout =
            expiries.min().map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        poll::wait(&sockets.collect::<Vec<_>>(), timeout).map(drop)
    }

    /// Reads the identities of ranks.
    fn serve_arriving(&mut self, now: Instant) {
        for mut arrival in std::mem::take(&mut self.arriving) {
            let is_open = arrival.conn.read().unwrap_or(false);
            match arrival.conn.next() {
                Ok(Some(Frame::Join(member))) if member.rank == arrival.rank && member.is_within_limits() => {
                    self.admit(member, arrival, now);
                }
                Ok(None) if is_open && now < arrival.until => self.arriving.push(arrival),
                _ => {}
            }
        }
    }

    fn admit(&mut self, member: RankInfo, Arrival { rank, ranks, conn, .. }: Arrival, now: Instant) {
        let (num_ranks, peer) = *self.num_ranks.get_or_insert((ranks, rank));
        let failure = match (&self.failure, self.members.get(&rank)) {
            (Some((error, _)), _) => Some(error.clone()),
            // Also if the numbers of ranks differ: one rank's two numbers would explain less.
            (None, Some(first)) => {
                Some(Error::DuplicateRank { first: Box::new(first.clone()), second: Box::new(member.clone()) })
            }
            _ if ranks != num_ranks => {
                Some(Error::WorldSize { who: Box::new(member.clone()), theirs: ranks, peer, ours: num_ranks })
            }
            _ if rank >= num_ranks => Some(Error::NoSuchRank { rank, num_ranks }),
            (None, None) => None,
        };
        self.waiting.push((rank, conn));
        match failure {
            Some(error) => {
                let (error, _) = self.failure.get_or_insert((error, now + FAILURE_TIME));
                let rejection = Frame::Rejected(error.clone());
                self.waiting.extend(self.root_conn.take().map(|conn| (0, conn)));
                self.answer(&rejection, now);
            }
            None => {
                if rank == 0 {
                    self.root = member.address;
                }
                self.members.insert(rank, member);
            }
        }
    }

    /// Tells the ranks where rank 0 listens, and forgets those that have ended.
    fn serve_waiting(&mut self, now: Instant) {
        let Self { waiting, members, root_conn, .. } = self;
        root_conn.take_if(|conn| {
            conn.flush();
            conn.discard();
            !conn.read().unwrap_or(false)
        });
        waiting.retain_mut(|(rank, conn)| {
            conn.flush();
            let is_open = conn.read().unwrap_or(false);
            if !is_open {
                members.remove(rank);
            }
            is_open
        });
        if let Some(root) = self.root {
            // Ranks that have the answer may ask at once.
            self.is_over.fetch_or(self.failure.is_none() && self.has_all_ranks(), Release);
            self.answer(&Frame::Located(root), now);
        }
    }

    fn answer(&mut self, frame: &Frame, now: Instant) {
        for (rank, mut conn) in self.waiting.drain(..) {
            conn.push(frame);
            conn.flush();
            match frame {
                Frame::Located(_) if rank == 0 => self.root_conn = Some(conn),
                _ => self.closing.push((conn, now + CONNECTION_TIMEOUT)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Connects ranks by an id, each in a thread, and returns their results in the order of the list.
    fn connect(id: &UniqueId, ranks: &[(u32, u32)], time: Duration) -> Vec<Result<Bootstrap, Error>> {
        connect_after_each_other(id, ranks, Duration::ZERO, time)
    }

    /// Does what [`connect`] does, with a delay between any two ranks.
    fn connect_after_each_other(
        id: &UniqueId,
        ranks: &[(u32, u32)],
        delay: Duration,
        time: Duration,
    ) -> Vec<Result<Bootstrap, Error>> {
        let options = Options { rendezvous_timeout: time, ..Options::default() };
        thread::scope(|scope| {
            let connect = |(index, &(rank, ranks))| {
                scope.spawn(move || {
                    thread::sleep(delay * index as u32);
                    id.connect(rank, ranks, options)
                })
            };
            let threads: Vec<_> = ranks.iter().enumerate().map(connect).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn ranks_that_arrive_in_any_order_find_rank_0() {
        let rendezvous = Rendezvous::new().expect("a port");
        let groups = connect(rendezvous.unique_id(), &[(3, 4), (1, 4), (0, 4), (2, 4)], Duration::from_secs(30));
        let ranks: Vec<u32> = groups.iter().map(|group| group.as_ref().expect("all ranks arrive").rank()).collect();
        assert_eq!(ranks, [3, 1, 0, 2]);
        assert!(rendezvous.is_over());
    }

    #[test]
    fn rendezvous_is_over_when_its_ranks_are_connected() {
        // Of more threads than there are processors, some are interrupted between their answer and what follows.
        let connect = || {
            for _ in 0..50 {
                let rendezvous = Rendezvous::new().expect("a port");
                let group = rendezvous.unique_id().connect(0, 1, Options::default()).expect("one rank");
                assert!(rendezvous.is_over(), "rank {} is connected", group.rank());
            }
        };
        thread::scope(|scope| (0..32).for_each(|_| drop(scope.spawn(connect))));
    }

    #[test]
    fn missing_rank_0_is_a_timeout_of_each_rank() {
        let rendezvous = Rendezvous::new().expect("a port");
        for group in connect(rendezvous.unique_id(), &[(1, 3), (2, 3)], Duration::from_millis(300)) {
            let error = group.expect_err("there is no rank 0");
            assert!(matches!(&error, Error::Timeout { from, .. } if from.rank == 0), "{error}");
        }
        assert!(!rendezvous.is_over());
    }

    #[test]
    fn different_numbers_of_ranks_and_repeated_ranks_are_errors_of_all() {
        for (ranks, repeated) in [([(1, 3), (2, 4)], false), ([(1, 3), (1, 3)], true)] {
            let rendezvous = Rendezvous::new().expect("a port");
            for group in connect(rendezvous.unique_id(), &ranks, Duration::from_secs(30)) {
                let error = group.expect_err("the ranks differ");
                match repeated {
                    true => assert!(matches!(error, Error::DuplicateRank { .. }), "{error}"),
                    false => {
                        let Error::WorldSize { who, peer, .. } = &error else { panic!("{error}") };
                        assert!([(1, 2), (2, 1)].contains(&(who.rank, *peer)), "{error}");
                    }
                }
            }
        }
    }

    /// Connects ranks after each other, and checks their error, which must be the same for all, long before the timeout. Tries
    /// again with a longer delay if it is not the expected one, because ranks may have arrived in another order.
    fn check_common_error(ranks: &[(u32, u32)], is_expected: impl Fn(&Error) -> bool) {
        let mut errors = [100, 1_000, 10_000].into_iter().map(|delay| {
            let rendezvous = Rendezvous::new().expect("a port");
            let (start, delay, timeout) = (Instant::now(), Duration::from_millis(delay), Duration::from_secs(180));
            let found = connect_after_each_other(rendezvous.unique_id(), ranks, delay, timeout);
            assert!(start.elapsed() < timeout / 2, "{ranks:?}: {:?}", start.elapsed());
            let errors: Vec<_> = found.into_iter().map(|group| group.expect_err("a rank is wrong")).collect();
            assert!(errors.iter().all(|error| *error == errors[0]), "{ranks:?}: {errors:?}");
            errors[0].clone()
        });
        assert!(errors.any(|error| is_expected(&error)), "{ranks:?}");
    }

    #[test]
    fn rank_with_another_number_of_ranks_is_the_same_error_of_all_in_any_order() {
        // The ranks in the order in which they arrive, and the first one that differs from the first of all.
        for (ranks, who, expected) in [
            (&[(0, 3), (1, 2)][..], 1, "expects 2 ranks, but rank 0 expects 3 ranks"),
            (&[(0, 3), (2, 3), (1, 2)], 1, "expects 2 ranks, but rank 0 expects 3 ranks"),
            (&[(2, 3), (0, 3), (1, 4)], 1, "expects 4 ranks, but rank 2 expects 3 ranks"),
            (&[(0, 3), (1, 2), (2, 3)], 1, "expects 2 ranks, but rank 0 expects 3 ranks"),
            (&[(1, 2), (0, 3), (2, 3)], 0, "expects 3 ranks, but rank 1 expects 2 ranks"),
            (&[(1, 3), (0, 2)], 0, "expects 2 ranks, but rank 1 expects 3 ranks"),
            (&[(1, 3), (2, 3), (0, 2)], 0, "expects 2 ranks, but rank 1 expects 3 ranks"),
        ] {
            check_common_error(ranks, |error| {
                let (text, cause) = (error.to_string(), error.root_cause().map(|cause| cause.rank));
                cause == Some(who) && text.starts_with(&format!("rank {who} (pid ")) && text.ends_with(expected)
            });
        }
    }

    #[test]
    fn duplicate_rank_is_the_same_error_of_all_in_any_order() {
        for (ranks, twice) in [
            (&[(0, 3), (0, 3)][..], 0),
            (&[(0, 3), (1, 3), (0, 3)], 0),
            (&[(0, 3), (1, 3), (1, 3)], 1),
            (&[(1, 3), (0, 3), (1, 3)], 1),
            (&[(0, 3), (0, 3), (1, 3)], 0),
            (&[(1, 3), (1, 3), (0, 3)], 1),
            // Its two numbers of ranks are a consequence.
            (&[(1, 3), (0, 3), (0, 2)], 0),
        ] {
            check_common_error(
                ranks,
                |error| matches!(error, Error::DuplicateRank { second, .. } if second.rank == twice),
            );
        }
    }

    #[test]
    fn late_process_does_not_disturb_a_complete_job() {
        let rendezvous = Rendezvous::new().expect("a port");
        let id = rendezvous.unique_id();
        let groups = connect(id, &[(0, 2), (1, 2)], Duration::from_secs(30));
        for late in [(0, 2), (1, 2), (1, 3), (2, 3)] {
            connect(id, &[late], Duration::from_millis(100))[0].as_ref().expect_err("the job is complete");
        }
        thread::scope(|scope| {
            let barrier = |group: Result<Bootstrap, Error>| scope.spawn(move || group.expect("both arrive").barrier());
            let threads: Vec<_> = groups.into_iter().map(barrier).collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic").expect("the job continues"));
        });
    }

    #[test]
    fn processes_without_the_secret_do_not_disturb_a_job_that_forms() {
        let rendezvous = Rendezvous::new().expect("a port");
        let id = rendezvous.unique_id();
        let stranger =
            UniqueId { address: id.address, secret: crate::secret::Secret::random().expect("random numbers") };
        thread::scope(|scope| {
            let first = scope.spawn(|| connect(id, &[(0, 2)], Duration::from_secs(60)));
            thread::sleep(Duration::from_millis(150));
            for wrong in [(0, 2), (1, 3)] {
                let error =
                    connect(&stranger, &[wrong], Duration::from_secs(30)).remove(0).expect_err("another secret");
                assert!(matches!(error, Error::AuthenticationFailed { .. }), "{error}");
            }
            let mut scanner = std::net::TcpStream::connect(id.address).expect("it listens");
            std::io::Write::write_all(&mut scanner, b"GET / HTTP/1.1\r\n\r\n").expect("it reads");
            let second = connect(id, &[(1, 2)], Duration::from_secs(60));
            assert!(second[0].is_ok(), "{second:?}");
            let first = first.join().expect("no panic");
            assert!(first[0].is_ok(), "{first:?}");
        });
    }

    #[test]
    fn rank_that_ended_may_arrive_again() {
        let rendezvous = Rendezvous::new().expect("a port");
        let id = rendezvous.unique_id();
        connect(id, &[(1, 2)], Duration::from_millis(100))[0].as_ref().expect_err("there is no rank 0");
        // The thread notices the end when it reads the connection.
        let groups = connect(id, &[(1, 2), (0, 2)], Duration::from_secs(30));
        assert!(groups.iter().all(Result::is_ok), "{groups:?}");
    }
}
