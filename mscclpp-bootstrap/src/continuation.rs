//! How the ranks of a job find the one that continues it without rank 0, which forwards their messages.
//!
//! The first of them hosts the new job, at an address of its own. It tells it to the others at the address at which it listens in
//! the old one, which they know and for which they need no other rank.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::acceptor::{Acceptor, AuthenticatedPeer};
use super::connect::{self, MAX_JOIN_RETRY_DELAY, MIN_JOIN_RETRY_DELAY};
use super::error::Error;
use super::frame::{Frame, Malformed};
use super::inbox::Inbox;
use super::link::SharedListener;
use super::options::Options;
use super::protocol::Purpose;
use super::rank_info::in_zone_of;
use super::secret::Secret;
use crate::timeout::ActiveTimeout;

/// Answers, in the old job, where the new one listens.
#[derive(Debug)]
pub(super) struct Continuation {
    acceptor: Acceptor,
    /// This rank in the old job, and where streams of that job are delivered.
    rank: u32,
    inbox: Arc<Inbox>,
    /// The communicator that continues, and the generation of the new job.
    of: (u64, u32),
    /// Where the new job listens.
    address: SocketAddr,
}

impl Continuation {
    /// Answers at a socket of the old job, whose connection thread may accept connections as well: what it does not know it
    /// lets retry.
    ///
    /// # Errors
    /// The system's error about the socket.
    pub(super) fn new(
        SharedListener { listener, job, inbox }: SharedListener,
        secret: Secret,
        (rank, ranks): (u32, u32),
        of: (u64, u32),
        address: SocketAddr,
    ) -> Result<Self, Error> {
        let acceptor = Acceptor::new(listener, secret, rank, ranks);
        let mut acceptor = acceptor.map_err(|error| Error::of_system("cannot listen", &error))?;
        acceptor.set_job(job);
        Ok(Self { acceptor, rank, inbox, of, address })
    }

    pub(super) fn acceptor(&self) -> &Acceptor {
        &self.acceptor
    }

    /// Answers as far as possible without waiting.
    pub(super) fn poll(&mut self, now: Instant) {
        for AuthenticatedPeer { purpose, mut conn } in self.acceptor.poll(now) {
            match purpose {
                Purpose::Continue { context, generation, .. } if (context, generation) == self.of => {
                    conn.push(&Frame::Located(self.address));
                }
                _ => self.inbox.accept_stream(self.rank, purpose, conn),
            }
        }
    }
}

/// Returns where the job listens that `purpose` names; its host listens at `host` in the old job.
///
/// # Errors
/// [`Error::Unreachable`] if the host does not answer in time; the errors for a peer with another secret or protocol.
pub(super) fn locate(
    host: SocketAddr,
    purpose: Purpose,
    secret: &Secret,
    options: Options,
) -> Result<SocketAddr, Error> {
    let mut timeout = ActiveTimeout::new(options.rendezvous_timeout);
    let mut delay = MIN_JOIN_RETRY_DELAY;
    loop {
        let mut conn = connect::connect(&[host], purpose, secret, &mut timeout, &|| Ok(()))?;
        match connect::wait_frame(&mut conn, &mut timeout, &|| Ok(()))? {
            // At the IP address at which this rank has reached the host.
            Some(Frame::Located(at)) => {
                return Ok(in_zone_of(SocketAddr::new(conn.peer.ip(), at.port()), conn.peer));
            }
            Some(Frame::Rejected(error)) => return Err(error),
            None | Some(Frame::Retry) => {}
            Some(_) => return Err(Malformed::Unexpected("the address of the job that continues").of(host)),
        }
        if timeout.update() <= delay {
            let (rank, waited) = (purpose.rank(), options.rendezvous_timeout);
            let reason = "the rank that listens there does not continue the communicator".into();
            return Err(Error::Unreachable { rank, peer: 0, address: host, waited, reason });
        }
        timeout.allow_gap(delay);
        thread::sleep(delay);
        delay = (2 * delay).min(MAX_JOIN_RETRY_DELAY);
    }
}
