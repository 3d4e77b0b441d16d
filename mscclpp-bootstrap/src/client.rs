//! Connection thread of every rank other than 0.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::acceptor::{Acceptor, AuthenticatedPeer};
use super::conn::Conn;
use super::error::Error;
use super::frame::{Frame, Malformed};
use super::heartbeat::Heartbeat;
use super::inbox::Inbox;
use super::learned::Learned;
use super::options::{Options, SHUTDOWN_TIMEOUT};
use super::outbox::Outbox;
use super::poll::{self, Interest};
use super::rank_info::RankInfo;

/// Maximum number of bytes queued on the connection; later frames stay in the outbox.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// Connection to rank 0, and an acceptor for streams.
#[derive(Debug)]
pub(super) struct Client {
    rank: u32,
    conn: Conn,
    acceptor: Acceptor,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    heartbeat: Heartbeat,
    /// When this rank sent its shutdown frame.
    leaving: Option<Instant>,
    /// Whether rank 0 has sent its shutdown frame.
    root_left: bool,
    root: RankInfo,
    /// Failures because of which rank 0 may end.
    learned: Learned,
}

impl Client {
    pub(super) fn new(
        rank: u32,
        conn: Conn,
        acceptor: Acceptor,
        inbox: Arc<Inbox>,
        outbox: Arc<Outbox>,
        options: Options,
    ) -> Self {
        let root = RankInfo::unnamed(0);
        let heartbeat = Heartbeat::new(options.heartbeat_timeout);
        Self {
            rank,
            conn,
            acceptor,
            inbox,
            outbox,
            heartbeat,
            leaving: None,
            root_left: false,
            root,
            learned: Learned::default(),
        }
    }

    /// Serves until this rank has shut down or rank 0 is lost.
    pub(super) fn run(mut self) {
        let end = loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(error),
            }
        };
        match end {
            Some(error) => {
                let error = self.learned.with_cause(error, Instant::now());
                // If rank 0 is only suspended, it reads why the others have ended when it continues.
                self.conn.push(&Frame::Lost { rank: 0, error: error.clone() });
                self.conn.flush();
                self.inbox.deliver(Frame::Failed(error));
            }
            None => {
                let (who, call) = (Box::new(self.root.clone()), "a call that goes through it".into());
                let left = Error::RankLeft { who, waiting: None, call };
                self.inbox.close(self.learned.with_cause(left, Instant::now()));
            }
        }
        self.outbox.mark_drained();
    }

    /// Serves everything that is ready and then waits. Serving comes first because frames that arrived with the
    /// admission are already buffered. Returns `false` after the shutdown.
    fn step(&mut self) -> Result<bool, Error> {
        let now = Instant::now();
        self.heartbeat.record_wakeup(now);
        self.send(now);
        if self.outbox.stops_accepting() {
            self.acceptor.close();
        }
        for AuthenticatedPeer { purpose, conn } in self.acceptor.poll(now) {
            self.inbox.accept_stream(self.rank, purpose, conn);
        }
        let open = self.conn.read();
        while let Some(frame) = self.next()? {
            match frame {
                Frame::LeaveAck if self.leaving.is_some() => return Ok(false),
                Frame::Leave { rank: 0 } => {
                    self.root_left = true;
                    self.inbox.deliver(Frame::Leave { rank: 0 });
                    self.conn.push(&Frame::LeaveAck);
                }
                Frame::Roster(members, generation) => {
                    let (own_rank, at_root) = (self.rank, self.conn.peer);
                    let resolved = |info: RankInfo| match info.rank == own_rank {
                        true => info,
                        false => info.with_root_ip(at_root.ip()).in_zone_of(at_root),
                    };
                    let mut members: Vec<_> = members.into_iter().map(resolved).collect();
                    if let Some(root) = members.first_mut() {
                        // The address at which this rank reached rank 0, which may differ from the one that rank 0
                        // reports.
                        root.address = Some(self.conn.peer);
                        self.root = root.clone();
                    }
                    self.inbox.deliver(Frame::Roster(members, generation));
                }
                // This rank did not answer for so long that the others continue without it.
                Frame::Lost { rank, error } if rank == self.rank => {
                    self.inbox.deliver(Frame::Failed(error.excluded(vec![0])));
                    self.conn.push(&Frame::FailureAck);
                }
                Frame::Message { .. }
                | Frame::Gathered { .. }
                | Frame::Query { .. }
                | Frame::Inspect { .. }
                | Frame::Report { .. }
                | Frame::Shrunk { .. }
                | Frame::Failed(_)
                | Frame::CommunicatorFailed { .. }
                | Frame::Lost { .. }
                | Frame::Leave { .. } => {
                    let is_failure = frame.is_failure();
                    self.record_learned(&frame, now);
                    if let Some(answer) = self.inbox.deliver(frame) {
                        self.conn.push(&answer);
                    }
                    if is_failure {
                        self.conn.push(&Frame::FailureAck);
                    }
                }
                Frame::CallFailed(_) => self.record_learned(&frame, now),
                Frame::Heartbeat | Frame::LeaveAck => {}
                _ => return Err(Malformed::Unexpected("a message").of(&self.root)),
            }
        }
        let how = match open {
            Ok(true) => None,
            Ok(false) => Some("its connection closed without a shutdown frame".to_owned()),
            Err(error) => Some(format!("its connection failed: {error}")),
        };
        match how {
            Some(_) if self.root_left || self.leaving.is_some() => return Ok(false),
            Some(how) => return Err(Error::Died { who: Box::new(self.root.clone()), how }),
            None => {}
        }
        if self.leaving.is_some_and(|since| now >= since + SHUTDOWN_TIMEOUT) {
            return Ok(false);
        }
        if self.heartbeat.is_send_due(self.conn.last_queued, now) {
            self.conn.push(&Frame::Heartbeat);
        }
        match self.heartbeat.silent_for(self.conn.last_received, now) {
            Some(silent) if !self.root_left => Err(Error::Unresponsive { who: Box::new(self.root.clone()), silent }),
            _ => self.wait().map(|()| true),
        }
    }

    /// Records a failure because of which rank 0 may end.
    fn record_learned(&mut self, frame: &Frame, now: Instant) {
        match frame {
            Frame::CommunicatorFailed { group, error, .. } if group.is_empty() || group.contains(&0) => {
                self.learned.record([0].into_iter(), error, now);
            }
            Frame::Lost { error, .. } | Frame::CallFailed(error) => self.learned.record([0].into_iter(), error, now),
            _ => {}
        }
    }

    /// Returns the next frame of rank 0. If it is invalid, rank 0 is informed, and informs the other ranks.
    fn next(&mut self) -> Result<Option<Frame>, Error> {
        let next = self.conn.next().map_err(|malformed| malformed.of(&self.root));
        next.inspect_err(|error| {
            let failed = Frame::Failed(error.clone());
            self.conn.push(&failed);
            // This rank's calls return, after which its process may end, without waiting for rank 0.
            self.inbox.deliver(failed);
            self.conn.wait_closed();
        })
    }

    fn wait(&self) -> Result<(), Error> {
        let own = [(self.conn.as_fd(), self.conn.interest()), (self.outbox.waker().as_fd(), Interest::Read)];
        let sockets: Vec<_> = own.into_iter().chain(self.acceptor.sockets()).collect();
        let next = self
            .heartbeat
            .next(self.conn.last_queued, Some(self.conn.last_received).filter(|_| !self.root_left))
            .into_iter()
            .chain(self.acceptor.next_expiry())
            .chain(self.leaving.map(|since| since + SHUTDOWN_TIMEOUT))
            .min();
        let timeout = next.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        // `poll` does not report room that the connection has gained meanwhile.
        let could_send = self.conn.queued() < MAX_QUEUED_BYTES && self.outbox.is_next(|_| true);
        let timeout = if could_send { Some(Duration::ZERO) } else { timeout };
        poll::wait(&sockets, timeout).map(drop)
    }

    /// Sends this rank's frames, as far as the connection has room.
    fn send(&mut self, now: Instant) {
        self.outbox.waker().clear();
        self.conn.flush();
        while self.conn.queued() < MAX_QUEUED_BYTES {
            let Some(frame) = self.outbox.take_if(|_| true) else { return };
            if let Frame::Leave { .. } = frame {
                self.leaving = Some(now);
            }
            self.conn.push(&frame);
        }
    }
}
