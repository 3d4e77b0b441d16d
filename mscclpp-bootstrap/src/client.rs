//! The connection thread of every rank but 0.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::conn::Conn;
use super::error::Error;
use super::frame::{Frame, Malformed};
use super::gate::{Gate, Visitor};
use super::inbox::Inbox;
use super::member::Member;
use super::options::Options;
use super::outbox::Outbox;
use super::poll::{self, Interest};
use super::pulse::Pulse;
use super::tcp::GOODBYE;

/// Most bytes that may wait for the connection; what comes after them stays in the outbox.
const QUEUED_BYTES: usize = 4 << 20;

/// A connection to rank 0, and a gate for streams.
#[derive(Debug)]
pub(super) struct Client {
    rank: u32,
    conn: Conn,
    gate: Gate,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    pulse: Pulse,
    /// When this rank said goodbye.
    leaving: Option<Instant>,
    /// Rank 0 has said goodbye.
    root_left: bool,
    root: Member,
}

impl Client {
    pub(super) fn new(
        rank: u32,
        conn: Conn,
        gate: Gate,
        inbox: Arc<Inbox>,
        outbox: Arc<Outbox>,
        options: Options,
    ) -> Self {
        let root = Member { rank: 0, ..Member::unknown() };
        let pulse = Pulse::new(options.liveness);
        Self { rank, conn, gate, inbox, outbox, pulse, leaving: None, root_left: false, root }
    }

    /// Serves until this rank has said goodbye or rank 0 is gone.
    pub(super) fn run(mut self) {
        let end = loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => break Some(error),
            }
        };
        match end {
            Some(error) => _ = self.inbox.deliver(Frame::Failed(error)),
            None => {
                let (who, call) = (Box::new(self.root.clone()), "a call that goes through it".into());
                self.inbox.close(Error::Left { who, waiting: self.rank, call });
            }
        }
        self.outbox.settle();
    }

    /// One turn: serves whoever has something, then waits; not the other way round, because what came together with the
    /// admission is here already. `false` when all is said.
    fn turn(&mut self) -> Result<bool, Error> {
        let now = Instant::now();
        self.pulse.woke(now);
        self.send(now);
        if self.inbox.failure().is_some() {
            self.gate.close();
        }
        for Visitor { purpose, conn } in self.gate.attend(now) {
            self.inbox.welcome(purpose, conn);
        }
        let open = self.conn.read();
        while let Some(frame) = self.conn.next().map_err(|malformed| malformed.of(&self.root))? {
            match frame {
                Frame::Seen if self.leaving.is_some() => return Ok(false),
                Frame::Left { rank: 0 } => {
                    self.root_left = true;
                    self.inbox.deliver(Frame::Left { rank: 0 });
                    self.conn.push(&Frame::Seen);
                }
                Frame::Roster(members) => {
                    let (me, way) = (self.rank, self.conn.peer.ip());
                    let seen = |one: Member| if one.rank == me { one } else { one.seen_by_way_of(way) };
                    let mut members: Vec<_> = members.into_iter().map(seen).collect();
                    if let Some(root) = members.first_mut() {
                        // Where it was found, which may be another address than it knows of.
                        root.listens = Some(self.conn.peer);
                        self.root = root.clone();
                    }
                    self.inbox.deliver(Frame::Roster(members));
                }
                Frame::Message { .. } | Frame::Gathered { .. } | Frame::Failed(_) | Frame::Left { .. } => {
                    if let Some(error) = self.inbox.deliver(frame) {
                        self.conn.push(&Frame::Failed(error));
                    }
                }
                Frame::Beat | Frame::Seen => {}
                _ => return Err(Malformed::Unexpected("a message").of(&self.root)),
            }
        }
        let how = match open {
            Ok(true) => None,
            Ok(false) => Some("its connection closed without a goodbye".to_owned()),
            Err(error) => Some(format!("its connection broke: {error}")),
        };
        match how {
            Some(_) if self.root_left || self.leaving.is_some() => return Ok(false),
            Some(how) => return Err(Error::Died { who: Box::new(self.root.clone()), how }),
            None => {}
        }
        if self.leaving.is_some_and(|since| now >= since + GOODBYE) {
            return Ok(false);
        }
        if self.pulse.is_due(self.conn.spoke, now) {
            self.conn.push(&Frame::Beat);
        }
        match self.pulse.silence(self.conn.heard, now) {
            Some(silent) if !self.root_left => Err(Error::Silent { who: Box::new(self.root.clone()), silent }),
            _ => self.wait().map(|()| true),
        }
    }

    fn wait(&self) -> Result<(), Error> {
        let own = [(self.conn.as_fd(), self.conn.interest()), (self.outbox.waker().as_fd(), Interest::Read)];
        let sockets: Vec<_> = own.into_iter().chain(self.gate.sockets()).collect();
        let next = self
            .pulse
            .next(self.conn.spoke, Some(self.conn.heard).filter(|_| !self.root_left))
            .into_iter()
            .chain(self.gate.next_expiry())
            .chain(self.leaving.map(|since| since + GOODBYE))
            .min();
        let timeout = next.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        // Room that was made meanwhile does not show at the connection.
        let could_send = self.conn.queued() < QUEUED_BYTES && self.outbox.is_next(|_| true);
        let timeout = if could_send { Some(Duration::ZERO) } else { timeout };
        poll::wait(&sockets, timeout).map(drop)
    }

    /// Passes on what this rank has to say, as far as the connection takes it.
    fn send(&mut self, now: Instant) {
        self.outbox.waker().clear();
        self.conn.flush();
        while self.conn.queued() < QUEUED_BYTES {
            let Some(frame) = self.outbox.take_if(|_| true) else { return };
            if let Frame::Left { .. } = frame {
                self.leaving = Some(now);
            }
            self.conn.push(&frame);
        }
    }
}
