//! How a rank reaches the others: through memory, or through rank 0's connections.

use std::fmt::Debug;
use std::net::TcpStream;
use std::time::Duration;

use super::error::Error;
use super::frame::Frame;
use super::inbox::Inbox;
use super::options::Options;
use super::rank_info::RankInfo;
use super::secret::Secret;

/// Whether there is still a reason to wait: an error if not.
pub(crate) type GoOn<'a> = &'a dyn Fn() -> Result<(), Error>;

/// One rank's way to the others. Dropping it says goodbye, which takes no longer than a second.
pub(crate) trait Link: Debug + Send + Sync {
    /// What has come for this rank.
    fn inbox(&self) -> &Inbox;

    /// The deadlines of the group.
    fn options(&self) -> Options;

    /// Hands a frame to the router.
    ///
    /// # Errors
    /// Why it cannot be handed over.
    fn post(&self, frame: Frame) -> Result<(), Error>;

    /// What lets others join, where they can: between processes.
    fn secret(&self) -> Option<Secret> {
        None
    }

    /// Looks whether a deadline is over, where nobody else does.
    fn expire(&self) {}

    /// Opens a stream to a rank, which finds its end in its inbox.
    ///
    /// # Errors
    /// Why it cannot be opened in so much time, and what `go_on` says.
    fn connect(&self, peer: &RankInfo, context: u64, id: u64, time: Duration, go_on: GoOn) -> Result<TcpStream, Error>;
}
