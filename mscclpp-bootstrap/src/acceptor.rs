//! Where a rank lets others in: whoever connects has to prove that it knows the secret, in bounded time and memory.
//!
//! Nobody at the door can do harm but to himself: bytes are read as they come, a connection that says nothing is closed,
//! and each holds a few kilobytes at most. Who is turned away is remembered, to be named if somebody is missed.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::conn::Conn;
use super::error::Error;
use super::frame::{Frame, Purpose};
use super::poll::Interest;
use super::secret::{self, Nonce, Role, Secret};

/// How long somebody may stand at the door.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a door is held open for who was refused to read why.
const LINGER: Duration = Duration::from_secs(1);
/// How many may stand there at once, beside one for each rank; the longest-standing has to go.
const MAX_PENDING_CONNECTIONS: usize = 256;
/// How many of those turned away are remembered.
const MAX_REJECTIONS: usize = 8;
/// How long to wait after the system had no file descriptor for a visitor.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A listening socket and who stands before it.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// `None` once nobody is let in any more.
    listener: Option<TcpListener>,
    at: SocketAddr,
    secret: Secret,
    crowd: usize,
    pending: Vec<Pending>,
    rejections: Vec<String>,
    /// Not before then is the listener asked again.
    paused: Option<Instant>,
}

#[derive(Debug)]
struct Pending {
    conn: Conn,
    stage: Stage,
    until: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Has said nothing yet.
    Hello,
    /// Has been asked.
    Answer { purpose: Purpose, caller: Nonce, listener: Nonce },
    /// Was refused; may read why.
    Refused,
}

/// Somebody who has proved to belong to the job.
#[derive(Debug)]
pub(crate) struct AuthenticatedPeer {
    /// What it wants.
    pub(crate) purpose: Purpose,
    /// Its connection.
    pub(crate) conn: Conn,
}

impl Acceptor {
    /// A acceptor for a job of `ranks` ranks.
    ///
    /// # Errors
    /// What the system says about the socket.
    pub(crate) fn new(listener: TcpListener, secret: Secret, ranks: u32) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (at, listener) = (listener.local_addr()?, Some(listener));
        let crowd = MAX_PENDING_CONNECTIONS + ranks as usize;
        Ok(Self { listener, at, secret, crowd, pending: Vec::new(), rejections: Vec::new(), paused: None })
    }

    /// The sockets to wait for: the listener first.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Interest)> {
        let listener = self.listener.as_ref().filter(|_| self.paused.is_none());
        let listener = listener.map(|listener| (listener.as_fd(), Interest::Read));
        listener.into_iter().chain(self.pending.iter().map(|pending| (pending.conn.as_fd(), pending.conn.interest())))
    }

    /// When somebody has stood there for too long at the earliest.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.pending.iter().map(|pending| pending.until).chain(self.paused).min()
    }

    /// Lets nobody in any more, and gives the port back.
    pub(crate) fn close(&mut self) {
        self.listener = None;
        self.pending.clear();
    }

    /// Who was turned away, and why; the first few.
    pub(crate) fn rejections(&self) -> &[String] {
        &self.rejections
    }

    /// Goes on with everybody who stands there, as far as that goes without waiting. Hands out who has proved itself.
    pub(crate) fn poll(&mut self, now: Instant) -> Vec<AuthenticatedPeer> {
        self.accept(now);
        let mut visitors = Vec::new();
        for mut pending in std::mem::take(&mut self.pending) {
            match self.advance_handshake(&mut pending, now) {
                HandshakeProgress::Waits => self.pending.push(pending),
                HandshakeProgress::Proved(purpose) => {
                    visitors.push(AuthenticatedPeer { purpose, conn: pending.conn });
                }
                HandshakeProgress::Gone => {}
            }
        }
        visitors
    }

    fn accept(&mut self, now: Instant) {
        if self.paused.is_some_and(|until| now < until) {
            return;
        }
        self.paused = None;
        loop {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, from)) => self.admit(stream, from, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Somebody who left before he was let in.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(_) => {
                    self.paused = Some(now + ACCEPT_RETRY_DELAY);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, from: SocketAddr, now: Instant) {
        if self.pending.len() >= self.crowd {
            let oldest = self.pending.remove(0);
            self.reject(oldest.conn.peer, "too many pending connections");
        }
        match Conn::new(stream) {
            Ok(conn) => self.pending.push(Pending { conn, stage: Stage::Hello, until: now + HANDSHAKE_TIMEOUT }),
            Err(error) => self.reject(from, &error.to_string()),
        }
    }

    /// Listens to one who stands there.
    fn advance_handshake(&mut self, pending: &mut Pending, now: Instant) -> HandshakeProgress {
        let open = pending.conn.read().unwrap_or(false);
        pending.conn.flush();
        if let Stage::Refused = pending.stage {
            // What it still says is thrown away, so that it can read to the end.
            pending.conn.discard();
            return if open && now < pending.until { HandshakeProgress::Waits } else { HandshakeProgress::Gone };
        }
        loop {
            let said = match pending.conn.next() {
                Ok(Some(frame)) => frame,
                Ok(None) if open && now < pending.until => return HandshakeProgress::Waits,
                Ok(None) if open => return self.gone(pending, "handshake timed out"),
                Ok(None) => return self.gone(pending, "closed the connection"),
                Err(malformed) => {
                    let error = malformed.of("the connecting process");
                    self.reject(pending.conn.peer, &error.to_string());
                    return self.refuse(pending, error, now);
                }
            };
            match (&pending.stage, said) {
                (Stage::Hello, Frame::Hello { purpose, nonce: caller }) => {
                    match self.challenge(pending, purpose, caller) {
                        Ok(()) => {}
                        Err(error) => return self.refuse(pending, error, now),
                    }
                }
                (Stage::Answer { purpose, caller, listener }, Frame::Response { proof }) => {
                    if self.secret.verify(Role::Initiator, purpose, caller, listener, &proof) {
                        return HandshakeProgress::Proved(*purpose);
                    }
                    let who = format!("claims to be {}, but failed authentication", claim(purpose));
                    self.reject(pending.conn.peer, &who);
                    return self.refuse(pending, Error::AuthenticationFailed { peer: self.at.to_string() }, now);
                }
                // The caller has looked at our proof and does not believe it.
                (Stage::Answer { purpose, .. }, Frame::Rejected(_)) => {
                    let who = format!("claims to be {}, but failed authentication", claim(purpose));
                    return self.gone(pending, &who);
                }
                _ => return self.gone(pending, "unexpected frame in the handshake"),
            }
        }
    }

    fn challenge(&self, pending: &mut Pending, purpose: Purpose, caller: Nonce) -> Result<(), Error> {
        let listener = secret::random()?;
        let proof = self.secret.response(Role::Responder, &purpose, &caller, &listener);
        pending.conn.push(&Frame::Challenge { nonce: listener, proof });
        pending.stage = Stage::Answer { purpose, caller, listener };
        Ok(())
    }

    fn refuse(&self, pending: &mut Pending, error: Error, now: Instant) -> HandshakeProgress {
        pending.conn.push(&Frame::Rejected(error));
        pending.stage = Stage::Refused;
        pending.until = now + LINGER;
        HandshakeProgress::Waits
    }

    fn gone(&mut self, pending: &Pending, why: &str) -> HandshakeProgress {
        self.reject(pending.conn.peer, why);
        HandshakeProgress::Gone
    }

    fn reject(&mut self, from: SocketAddr, why: &str) {
        if self.rejections.len() < MAX_REJECTIONS {
            self.rejections.push(format!("{from} ({why})"));
        }
    }
}

/// What came of listening to one.
enum HandshakeProgress {
    Waits,
    Proved(Purpose),
    Gone,
}

fn claim(purpose: &Purpose) -> String {
    match purpose {
        Purpose::Join { rank, ranks } => format!("rank {rank} of {ranks}"),
        Purpose::Stream { from, .. } => format!("rank {from}"),
    }
}
