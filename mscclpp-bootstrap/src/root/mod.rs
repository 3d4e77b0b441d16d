//! Connection thread of rank 0: completes the rendezvous, then forwards frames.

mod deliver;
mod join;
mod observers;
mod receive;
mod timers;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::observers::Observers;
use super::acceptor::Acceptor;
use super::conn::Conn;
use super::continuation::Continuation;
use super::error::Error;
use super::frame::Frame;
use super::heartbeat::Heartbeat;
use super::inbox::Inbox;
use super::options::{Options, SHUTDOWN_TIMEOUT};
use super::outbox::Outbox;
use super::poll::{self, Interest};
use super::protocol::Nonce;
use super::rank_info::RankInfo;
use super::router::Router;
use crate::timeout::ActiveTimeout;

/// Rank 0's side of all connections.
#[derive(Debug)]
pub(super) struct Root {
    me: RankInfo,
    ranks: u32,
    acceptor: Acceptor,
    /// Tells the other ranks where this job listens, if it continues another one.
    continuation: Option<Continuation>,
    /// Connection to the rendezvous by which the ranks have found this one, until all have joined.
    rendezvous: Option<Conn>,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    options: Options,
    heartbeat: Heartbeat,
    /// Authenticated connections that have not sent their identity yet.
    joining: Vec<Joining>,
    /// By rank; `None` for rank 0, and for ranks that have not joined or are lost.
    peers: Vec<Option<PeerState>>,
    /// Connections that carry no more frames from their ranks, and until when to wait for their ends.
    closing: Vec<(Conn, Instant)>,
    /// Failures that rank 0 itself has yet to notice, and until when to wait for the acknowledgements of the other ranks.
    withheld: VecDeque<(Frame, Instant)>,
    /// Processes that ask what the ranks are doing.
    observers: Observers,
    /// Identities of the ranks that have joined, by rank.
    members: Vec<Option<RankInfo>>,
    phase: Phase,
    /// Generation of the job that forms; `None` until a rank that joins has one.
    generation: Option<u32>,
    started: Instant,
    /// Time since `started`, as timeouts count it.
    active_clock: ActiveTimeout,
    /// When rank 0 sent its shutdown frame.
    leaving: Option<Instant>,
    /// Random number of the job.
    job: Nonce,
}

/// A rank that joins.
#[derive(Debug)]
struct Joining {
    rank: u32,
    ranks: u32,
    generation: Option<u32>,
    conn: Conn,
}

#[derive(Debug)]
enum Phase {
    /// Not all ranks have joined.
    Joining,
    /// All ranks have joined.
    Connected(Router),
    /// The rendezvous has failed, with the reason.
    Failed(Error),
}

#[derive(Debug)]
struct PeerState {
    conn: Conn,
    /// A message from this rank that waits for room at its receiver. Until it is forwarded, no other frame from this
    /// rank is read.
    held: Option<Frame>,
    /// Number of failures sent to it that it has not acknowledged.
    unacknowledged: u32,
    /// Whether it has sent its shutdown frame.
    left: bool,
    /// Whether it has acknowledged rank 0's shutdown frame.
    leave_acked: bool,
}

impl Root {
    pub(super) fn new(
        me: RankInfo,
        ranks: u32,
        mut acceptor: Acceptor,
        (inbox, outbox): (Arc<Inbox>, Arc<Outbox>),
        options: Options,
        job: Nonce,
        generation: Option<u32>,
    ) -> Self {
        acceptor.set_job(job);
        let empty = || (0..ranks).map(|_| None);
        let mut members: Vec<_> = (0..ranks).map(|_| None).collect();
        members[0] = Some(me.clone());
        Self {
            me,
            ranks,
            acceptor,
            continuation: None,
            rendezvous: None,
            inbox,
            outbox,
            options,
            heartbeat: Heartbeat::new(options.heartbeat_timeout),
            joining: Vec::new(),
            peers: empty().collect(),
            closing: Vec::new(),
            withheld: VecDeque::new(),
            observers: Observers::default(),
            members,
            phase: Phase::Joining,
            generation,
            started: Instant::now(),
            active_clock: ActiveTimeout::new(options.rendezvous_timeout),
            leaving: None,
            job,
        }
    }

    /// Also answers at the address at which this rank listens in the job that this one continues, until all ranks have joined.
    pub(super) fn set_continuation(&mut self, continuation: Continuation) {
        self.continuation = Some(continuation);
    }

    /// Also learns, until all ranks have joined, if the rendezvous rejects one.
    pub(super) fn set_rendezvous(&mut self, conn: Conn) {
        self.rendezvous = Some(conn);
    }

    /// Serves until rank 0 has shut down and no other rank needs it.
    pub(super) fn run(mut self) {
        // Rank 0 may be the only rank.
        self.complete_join();
        loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.fail(error);
                    break;
                }
            }
        }
        self.deliver_withheld(|_| true);
        self.outbox.mark_drained();
    }

    fn step(&mut self) -> Result<bool, Error> {
        let ready = self.wait()?;
        let now = Instant::now();
        self.heartbeat.record_wakeup(now);
        self.active_clock.update();
        self.serve_own_frames(now);
        for peer in self.acceptor.poll(now) {
            self.accept_peer(peer);
        }
        if let Some(continuation) = &mut self.continuation {
            continuation.poll(now);
        }
        self.serve_rendezvous();
        self.join(now);
        for rank in 1..self.ranks {
            let held = self.peers[rank as usize].as_ref().is_some_and(|peer| peer.held.is_some());
            if held || ready[rank as usize] {
                self.serve_peer(rank, now);
            }
        }
        self.serve_closing(now);
        self.serve_observers(now);
        self.check_timers(now);
        self.deliver_withheld(|until| now >= until);
        if self.outbox.stops_accepting() {
            self.acceptor.close();
        }
        Ok(self.must_keep_serving(now))
    }

    /// Waits, and returns which ranks' connections are ready, by rank.
    fn wait(&self) -> Result<Vec<bool>, Error> {
        let mut sockets = vec![(self.outbox.waker().as_fd(), Interest::Read)];
        let mut ranks = vec![0];
        for (rank, peer) in self.peers.iter().enumerate() {
            let Some(peer) = peer else { continue };
            let interest = match peer.conn.interest() {
                interest if peer.held.is_none() => interest,
                Interest::Read => continue,
                _ => Interest::Write,
            };
            sockets.push((peer.conn.as_fd(), interest));
            ranks.push(rank);
        }
        sockets.extend(self.closing.iter().map(|(conn, _)| (conn.as_fd(), conn.interest())));
        sockets.extend(self.joining.iter().map(|one| (one.conn.as_fd(), one.conn.interest())));
        sockets.extend(self.rendezvous.iter().map(|conn| (conn.as_fd(), conn.interest())));
        sockets.extend(self.observers.sockets());
        sockets.extend(self.acceptor.sockets());
        sockets.extend(self.continuation.iter().flat_map(|continuation| continuation.acceptor().sockets()));
        let peers = self.peers.iter().flatten();
        let heartbeats = peers.filter_map(|peer| {
            self.heartbeat.next(peer.conn.last_queued, Some(peer.conn.last_received).filter(|_| !peer.left))
        });
        // When the timeouts are checked next.
        let deadline = match &self.phase {
            Phase::Joining => Some(self.active_clock.remaining()),
            Phase::Connected(router) => router.next_expiry().map(|at| at.saturating_duration_since(self.active_now())),
            Phase::Failed(_) => None,
        };
        let deadline = deadline.map(|left| Instant::now() + left.min(self.active_clock.max_sleep()));
        let shutdown = self.leaving.map(|since| since + SHUTDOWN_TIMEOUT).filter(|until| *until > Instant::now());
        let closing = self.closing.iter().map(|(_, until)| *until);
        let next = heartbeats
            .chain(deadline)
            .chain(closing)
            .chain(self.withheld.front().map(|(_, until)| *until))
            .chain(self.observers.next_expiry())
            .chain(self.acceptor.next_expiry())
            .chain(self.continuation.as_ref().and_then(|continuation| continuation.acceptor().next_expiry()))
            .chain(shutdown)
            .min();
        let timeout = next.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        // `poll` does not report room that a connection has gained meanwhile.
        let timeout = if self.can_send_held() { Some(Duration::ZERO) } else { timeout };
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
