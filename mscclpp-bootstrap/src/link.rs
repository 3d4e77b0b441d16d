//! Link from a rank to the other ranks: through memory, or through rank 0's connections.

use std::fmt::Debug;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::error::Error;
use super::frame::Frame;
use super::inbox::{Inbox, KeyedStream};
use super::options::Options;
use super::protocol::Nonce;
use super::rank_info::RankInfo;
use super::secret::Secret;

/// Checks whether a wait should continue, and returns an error if not.
pub(crate) type CheckAlive<'a> = &'a dyn Fn() -> Result<(), Error>;

/// The socket at which a rank listens in its job, whose connection thread may accept connections as well.
#[derive(Debug)]
pub(crate) struct SharedListener {
    pub(crate) listener: TcpListener,
    /// Random number of the job.
    pub(crate) job: Nonce,
    /// Where streams of the job are delivered.
    pub(crate) inbox: Arc<Inbox>,
}

/// One rank's link to the other ranks. Dropping it sends a shutdown frame and takes at most one second.
pub(crate) trait Link: Debug + Send + Sync {
    /// Returns the frames that have arrived for this rank.
    fn inbox(&self) -> &Inbox;

    /// Returns the timeouts of the communicator.
    fn options(&self) -> Options;

    /// Returns the random number of the job, which all its ranks have.
    fn job(&self) -> Nonce;

    /// Passes a frame to the router.
    ///
    /// # Errors
    /// Why it cannot be passed.
    fn post(&self, frame: Frame) -> Result<(), Error>;

    /// Returns the secret with which ranks can join, for links between processes.
    fn secret(&self) -> Option<Secret> {
        None
    }

    /// Returns the listening socket of this rank's connection thread, which then accepts no more connections; `None` if
    /// there is none or it was taken before.
    fn take_listener(&self) -> Option<TcpListener> {
        None
    }

    /// Returns another handle of this rank's listening socket; `None` if there is none or it was taken.
    ///
    /// # Errors
    /// The system's error.
    fn share_listener(&self) -> Result<Option<SharedListener>, Error> {
        Ok(None)
    }

    /// Checks whether a timeout has expired, for links without a connection thread that does, and returns when the next
    /// one can expire.
    fn expire(&self) -> Option<Instant> {
        None
    }

    /// Sends the shutdown frame, as the destructor does, for processes that exit without running it.
    fn leave(&self) {}

    /// Opens a stream to a rank, whose end is delivered to its inbox.
    ///
    /// # Errors
    /// Why it cannot be opened within `time`, and the error of `check_alive`.
    fn connect(
        &self,
        peer: &RankInfo,
        context: u64,
        id: u64,
        time: Duration,
        check_alive: CheckAlive,
    ) -> Result<KeyedStream, Error>;
}
