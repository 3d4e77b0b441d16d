//! The connection thread of rank 0: brings the ranks together, then passes their frames on.

mod deliver;
mod join;
mod listen;
mod timers;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::acceptor::Acceptor;
use super::conn::Conn;
use super::error::Error;
use super::frame::Frame;
use super::heartbeat::Heartbeat;
use super::inbox::Inbox;
use super::options::Options;
use super::outbox::Outbox;
use super::poll::{self, Interest};
use super::rank_info::RankInfo;
use super::router::Router;
use super::tcp::SHUTDOWN_TIMEOUT;
use crate::timeout::ActiveTimeout;

/// Rank 0's side of all connections.
#[derive(Debug)]
pub(super) struct Root {
    me: RankInfo,
    ranks: u32,
    acceptor: Acceptor,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    options: Options,
    heartbeat: Heartbeat,
    /// Who has proved itself, but has not said who it is.
    joining: Vec<(u32, u32, Conn)>,
    /// By rank; empty for rank 0, for who has not come and who is gone.
    peers: Vec<Option<PeerState>>,
    /// Who came, by rank.
    members: Vec<Option<RankInfo>>,
    phase: Phase,
    started: Instant,
    /// How long ago that was, as deadlines count.
    clock: ActiveTimeout,
    /// When rank 0 said goodbye.
    leaving: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    /// Not all have come.
    Gathering,
    /// All have come.
    Together(Router),
    /// They will not come together, and why.
    Failed(Error),
}

#[derive(Debug)]
struct PeerState {
    conn: Conn,
    /// A message of this rank's that waits for room at its receiver. Until it goes, nothing else of this rank is read.
    held: Option<Frame>,
    /// Has said goodbye.
    left: bool,
    /// Has seen rank 0's goodbye.
    seen: bool,
}

impl Root {
    pub(super) fn new(
        me: RankInfo,
        ranks: u32,
        acceptor: Acceptor,
        inbox: Arc<Inbox>,
        outbox: Arc<Outbox>,
        options: Options,
    ) -> Self {
        let empty = || (0..ranks).map(|_| None);
        let mut members: Vec<_> = (0..ranks).map(|_| None).collect();
        members[0] = Some(me.clone());
        Self {
            me,
            ranks,
            acceptor,
            inbox,
            outbox,
            options,
            heartbeat: Heartbeat::new(options.heartbeat_timeout),
            joining: Vec::new(),
            peers: empty().collect(),
            members,
            phase: Phase::Gathering,
            started: Instant::now(),
            clock: ActiveTimeout::new(options.timeout),
            leaving: None,
        }
    }

    /// Serves until rank 0 has said goodbye and nobody needs it any more.
    pub(super) fn run(mut self) {
        // Rank 0 may be all there is.
        self.complete_join();
        loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.fail(error);
                    break;
                }
            }
        }
        self.outbox.settle();
    }

    fn turn(&mut self) -> Result<bool, Error> {
        let ready = self.wait()?;
        let now = Instant::now();
        self.heartbeat.woke(now);
        self.clock.update();
        self.own(now);
        for visitor in self.acceptor.poll(now) {
            self.visit(visitor);
        }
        self.join();
        for rank in 1..self.ranks {
            let held = self.peers[rank as usize].as_ref().is_some_and(|seat| seat.held.is_some());
            if held || ready[rank as usize] {
                self.hear(rank, now);
            }
        }
        self.check_timers(now);
        // The survivors may want the port.
        if let Phase::Together(router) = &self.phase
            && router.has_failed()
        {
            self.acceptor.close();
        }
        Ok(self.must_keep_serving(now))
    }

    /// Waits, and says whose seats have something, by rank.
    fn wait(&self) -> Result<Vec<bool>, Error> {
        let mut sockets = vec![(self.outbox.waker().as_fd(), Interest::Read)];
        let mut ranks = vec![0];
        for (rank, seat) in self.peers.iter().enumerate() {
            let Some(seat) = seat else { continue };
            let interest = match seat.conn.interest() {
                interest if seat.held.is_none() => interest,
                Interest::Read => continue,
                _ => Interest::Write,
            };
            sockets.push((seat.conn.as_fd(), interest));
            ranks.push(rank);
        }
        sockets.extend(self.joining.iter().map(|(_, _, conn)| (conn.as_fd(), conn.interest())));
        sockets.extend(self.acceptor.sockets());
        let seats = self.peers.iter().flatten();
        let pulses =
            seats.filter_map(|seat| self.heartbeat.next(seat.conn.spoke, Some(seat.conn.heard).filter(|_| !seat.left)));
        // The next look at the clock that counts deadlines.
        let deadline = match &self.phase {
            Phase::Gathering => Some(self.clock.remaining()),
            Phase::Together(router) => router.next_expiry().map(|at| at.saturating_duration_since(self.counted())),
            Phase::Failed(_) => None,
        };
        let deadline = deadline.map(|left| Instant::now() + left.min(self.clock.max_sleep()));
        let goodbye = self.leaving.map(|since| since + SHUTDOWN_TIMEOUT).filter(|until| *until > Instant::now());
        let next = pulses.chain(deadline).chain(self.acceptor.next_expiry()).chain(goodbye).min();
        let timeout = next.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        // Room that was made meanwhile does not show at any socket.
        let timeout = if self.could_go_on() { Some(Duration::ZERO) } else { timeout };
        let found = poll::wait(&sockets, timeout)?;
        let mut ready = vec![false; self.ranks as usize];
        for (rank, found) in ranks.into_iter().zip(found) {
            ready[rank] = found;
        }
        Ok(ready)
    }

    fn name(&self, rank: u32) -> RankInfo {
        let known = self.members.get(rank as usize).cloned().flatten();
        known.unwrap_or_else(|| RankInfo { rank, ..self.me.clone() })
    }
}
