//! Accepts connections and authenticates each peer, in bounded time and memory.
//!
//! A misbehaving peer can affect only its own connection: bytes are read as they arrive, a silent connection is closed,
//! and each connection holds a few kilobytes at most. All of them together hold at most a quarter of the file descriptors
//! that the process does not use otherwise. Rejected connections are recorded, to be reported if a rank is missing.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::conn::Conn;
use super::descriptors;
use super::error::Error;
use super::frame::Frame;
use super::poll::Interest;
use super::protocol::{Nonce, Purpose};
use super::secret::{self, Role, Secret, Transcript};

/// Maximum duration of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection stays open after a rejection, so that the peer can read the reason.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of unauthenticated connections, in addition to one per rank, if there are enough file descriptors. The
/// oldest one is rejected to make room.
const MAX_PENDING_CONNECTIONS: usize = 256;
/// How often the number of free file descriptors is determined, at least, while there are unauthenticated connections.
const DESCRIPTORS_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of recorded rejections.
const MAX_REJECTIONS: usize = 8;
/// Delay before the next `accept` after the system ran out of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Number of connections that the system keeps until they are accepted, at most; it has a lower limit of its own. Those beyond
/// it are repeated by their senders after a second, which all ranks of a large job would wait for.
const BACKLOG: i32 = 4096;

/// Lets the system keep as many connections of a listening socket as it allows; the standard library asks for 128.
pub(crate) fn extend_backlog(listener: &TcpListener) -> std::io::Result<()> {
    Ok(rustix::net::listen(listener, BACKLOG)?)
}

/// A listening socket with its unauthenticated connections.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// `None` once no connection is accepted any more.
    listener: Option<TcpListener>,
    at: SocketAddr,
    secret: Secret,
    /// This rank, and the random number of its job; zero until rank 0 has admitted the rank.
    rank: u32,
    job: Nonce,
    /// Maximum number of unauthenticated connections with enough file descriptors, and with those that were free at the
    /// given time.
    most_pending: usize,
    max_pending: usize,
    max_pending_at: Instant,
    pending: Vec<Pending>,
    rejections: Vec<String>,
    /// When the listener is polled again after a failed `accept`.
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct Pending {
    conn: Conn,
    stage: Stage,
    until: Instant,
}

#[derive(Debug)]
enum Stage {
    /// No frame has arrived yet.
    Hello,
    /// The challenge has been sent.
    AwaitingResponse(Transcript),
    /// The connection was rejected; the peer may still read the reason.
    Rejected,
}

/// A peer that has proved that it belongs to the job.
#[derive(Debug)]
pub(crate) struct AuthenticatedPeer {
    /// Why it connects.
    pub(crate) purpose: Purpose,
    /// Its connection.
    pub(crate) conn: Conn,
}

impl Acceptor {
    /// Creates an acceptor of rank `rank` of a job of `ranks` ranks.
    ///
    /// # Errors
    /// The system's error about the socket.
    pub(crate) fn new(listener: TcpListener, secret: Secret, rank: u32, ranks: u32) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        extend_backlog(&listener)?;
        Ok(Self {
            at: listener.local_addr()?,
            listener: Some(listener),
            secret,
            rank,
            job: [0; 16],
            most_pending: MAX_PENDING_CONNECTIONS + ranks as usize,
            max_pending: 0,
            max_pending_at: Instant::now(),
            pending: Vec::new(),
            rejections: Vec::new(),
            retry_at: None,
        })
    }

    /// Accepts streams of this job only.
    pub(crate) fn set_job(&mut self, job: Nonce) {
        self.job = job;
    }

    /// Returns the sockets to wait for: the listener first.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Interest)> {
        let listener = self.listener.as_ref().filter(|_| self.retry_at.is_none());
        let listener = listener.map(|listener| (listener.as_fd(), Interest::Read));
        listener.into_iter().chain(self.pending.iter().map(|pending| (pending.conn.as_fd(), pending.conn.interest())))
    }

    /// Returns when the first handshake times out or `accept` is retried.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.pending.iter().map(|pending| pending.until).chain(self.retry_at).min()
    }

    /// Accepts no more connections, and frees the port.
    pub(crate) fn close(&mut self) {
        self.listener = None;
        self.pending.clear();
    }

    /// Returns the first few rejected connections, with reasons.
    pub(crate) fn rejections(&self) -> &[String] {
        &self.rejections
    }

    /// Advances all handshakes as far as possible without waiting, and returns the peers that have authenticated.
    pub(crate) fn poll(&mut self, now: Instant) -> Vec<AuthenticatedPeer> {
        if !self.pending.is_empty() && now >= self.max_pending_at + DESCRIPTORS_INTERVAL {
            self.update_max_pending(now);
            while self.pending.len() > self.max_pending {
                self.evict();
            }
        }
        self.accept(now);
        let mut authenticated = Vec::new();
        for mut pending in std::mem::take(&mut self.pending) {
            match self.advance_handshake(&mut pending, now) {
                HandshakeProgress::Pending => self.pending.push(pending),
                HandshakeProgress::Authenticated(purpose) => {
                    authenticated.push(AuthenticatedPeer { purpose, conn: pending.conn });
                }
                HandshakeProgress::Closed => {}
            }
        }
        authenticated
    }

    /// Accepts connections, at most half of those that are kept, so that those accepted in one call do not replace each
    /// other: the first frame of a rank has usually arrived by then, and is read before its connection can be evicted.
    fn accept(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|until| now < until) {
            return;
        }
        self.retry_at = None;
        let mut accepted = 0;
        loop {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, from)) => {
                    if accepted == 0 {
                        self.update_max_pending(now);
                    }
                    self.add_pending(stream, from, now);
                    accepted += 1;
                    if accepted >= self.max_pending.div_ceil(2) {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The peer closed before its connection was accepted.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) => {
                    let why = Error::of_system("cannot accept a connection", &error);
                    self.note_rejection(format!("all connections ({why})"));
                    self.evict();
                    self.retry_at = Some(now + ACCEPT_RETRY_DELAY);
                    return;
                }
            }
        }
    }

    /// Limits unauthenticated connections to a quarter of the descriptors that the process does not use otherwise.
    fn update_max_pending(&mut self, now: Instant) {
        let share = descriptors::free().saturating_add(self.pending.len()) / 4;
        (self.max_pending, self.max_pending_at) = (share.clamp(1, self.most_pending), now);
    }

    fn add_pending(&mut self, stream: TcpStream, from: SocketAddr, now: Instant) {
        while self.pending.len() >= self.max_pending {
            self.evict();
        }
        match Conn::new(stream) {
            Ok(conn) => self.pending.push(Pending { conn, stage: Stage::Hello, until: now + HANDSHAKE_TIMEOUT }),
            Err(error) => self.reject(from, &error.to_string()),
        }
    }

    /// Rejects the oldest connection of those that have made the least progress.
    fn evict(&mut self) {
        let progress = |pending: &Pending| match pending.stage {
            Stage::Rejected => 0,
            Stage::Hello => 1,
            Stage::AwaitingResponse(_) => 2,
        };
        let Some((oldest, _)) = self.pending.iter().enumerate().min_by_key(|(_, pending)| progress(pending)) else {
            return;
        };
        let Pending { conn, stage, .. } = self.pending.remove(oldest);
        if !matches!(stage, Stage::Rejected) {
            self.reject(conn.peer, "too many pending connections");
        }
    }

    /// Reads a connection and advances its handshake.
    fn advance_handshake(&mut self, pending: &mut Pending, now: Instant) -> HandshakeProgress {
        let open = pending.conn.read().unwrap_or(false);
        pending.conn.flush();
        if let Stage::Rejected = pending.stage {
            // Later bytes are discarded, so that the peer can read the rejection to its end.
            pending.conn.discard();
            return if open && now < pending.until { HandshakeProgress::Pending } else { HandshakeProgress::Closed };
        }
        loop {
            let frame = match pending.conn.next() {
                Ok(Some(frame)) => frame,
                Ok(None) if open && now < pending.until => return HandshakeProgress::Pending,
                Ok(None) if open => return self.reject_and_close(pending, "handshake timed out"),
                Ok(None) => return self.reject_and_close(pending, "closed the connection"),
                Err(malformed) => {
                    let error = malformed.of("the connecting process");
                    self.reject(pending.conn.peer, &error.to_string());
                    return self.send_rejection(pending, error, now);
                }
            };
            match (&pending.stage, frame) {
                (Stage::Hello, Frame::Hello { purpose: Purpose::Stream { from, to, job, .. }, .. })
                    if (to, job) != (self.rank, self.job) =>
                {
                    let this = self.rank;
                    let why =
                        format!("rank {from} wants a stream to rank {to}, but this is rank {this}, or another job");
                    self.reject(pending.conn.peer, &why);
                    let error = Error::AuthenticationFailed { peer: self.at.to_string() };
                    return self.send_rejection(pending, error, now);
                }
                (Stage::Hello, Frame::Hello { purpose, nonce: caller }) => {
                    match self.challenge(pending, purpose, caller) {
                        Ok(()) => {}
                        Err(error) => return self.send_rejection(pending, error, now),
                    }
                }
                (Stage::AwaitingResponse(transcript), Frame::Response { proof }) => {
                    let purpose = transcript.purpose;
                    if self.secret.verify(Role::Initiator, transcript, &proof) {
                        let keys = self.secret.keys(Role::Responder, transcript);
                        pending.conn.authenticate(keys, self.rank, purpose.rank());
                        return HandshakeProgress::Authenticated(purpose);
                    }
                    let who = format!("claims to be {}, but failed authentication", claimed_rank(&purpose));
                    self.reject(pending.conn.peer, &who);
                    return self.send_rejection(
                        pending,
                        Error::AuthenticationFailed { peer: self.at.to_string() },
                        now,
                    );
                }
                // The caller has rejected this rank's proof.
                (Stage::AwaitingResponse(Transcript { purpose, .. }), Frame::Rejected(_)) => {
                    let who = format!("claims to be {}, but failed authentication", claimed_rank(purpose));
                    return self.reject_and_close(pending, &who);
                }
                _ => return self.reject_and_close(pending, "unexpected frame in the handshake"),
            }
        }
    }

    fn challenge(&self, pending: &mut Pending, purpose: Purpose, caller: Nonce) -> Result<(), Error> {
        let nonce = secret::random()?;
        let transcript = Transcript { purpose, nonces: [caller, nonce] };
        let proof = self.secret.proof(Role::Responder, &transcript);
        pending.conn.push(&Frame::Challenge { nonce, proof });
        pending.stage = Stage::AwaitingResponse(transcript);
        Ok(())
    }

    fn send_rejection(&self, pending: &mut Pending, error: Error, now: Instant) -> HandshakeProgress {
        pending.conn.push(&Frame::Rejected(error));
        pending.stage = Stage::Rejected;
        pending.until = now + LINGER;
        HandshakeProgress::Pending
    }

    fn reject_and_close(&mut self, pending: &Pending, why: &str) -> HandshakeProgress {
        self.reject(pending.conn.peer, why);
        HandshakeProgress::Closed
    }

    fn reject(&mut self, from: SocketAddr, why: &str) {
        self.note_rejection(format!("{from} ({why})"));
    }

    fn note_rejection(&mut self, text: String) {
        if self.rejections.len() < MAX_REJECTIONS && !self.rejections.contains(&text) {
            self.rejections.push(text);
        }
    }
}

/// State of a handshake after it was advanced.
enum HandshakeProgress {
    Pending,
    Authenticated(Purpose),
    Closed,
}

fn claimed_rank(purpose: &Purpose) -> String {
    match purpose {
        Purpose::Join { rank, ranks, .. } | Purpose::Locate { rank, ranks } => format!("rank {rank} of {ranks}"),
        Purpose::Stream { from, .. } => format!("rank {from}"),
        Purpose::Continue { rank, .. } => format!("rank {rank} of the job that continues this one"),
        Purpose::Observe => "a process of the job".into(),
    }
}
