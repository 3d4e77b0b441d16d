//! Connections between the ranks of a node, which transfer messages and memory and show when a rank ends: Unix sockets
//! between processes, channels within a process.

mod channel;
mod listener;
mod socket;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use self::channel::ChannelEnd;
pub use self::listener::LocalListener;
use super::Slab;
use crate::error::Error;

/// Maximum number of descriptors of a message, a slab's included.
const MAX_FILES: usize = 8;

/// Maximum number of bytes of a message.
const MAX_BYTES: usize = 1 << 16;

/// A descriptor that ranks of one process share.
pub type SharedFile = Arc<OwnedFd>;

/// A message from a rank to another one.
#[derive(Clone, Default)]
pub struct Sent {
    pub bytes: Vec<u8>,
    pub files: Vec<SharedFile>,
    /// Memory that the ranks share. A rank of another process receives its file, which it maps.
    pub slab: Option<Arc<Slab>>,
}

impl Sent {
    /// Returns the slab that was sent, of `len` bytes; `None` if there is none.
    ///
    /// # Errors
    /// As [`Slab::open`].
    pub fn into_slab(self, len: u64) -> Result<Option<Arc<Slab>>, Error> {
        match (self.slab, self.files.into_iter().next()) {
            (Some(slab), _) => Ok(Some(slab).filter(|slab| slab.len() == len)),
            (None, Some(file)) => Slab::open(file, len).map(|slab| Some(Arc::new(slab))),
            (None, None) => Ok(None),
        }
    }
}

/// A connection to every other rank of the node.
pub struct Mesh {
    /// By local rank; `None` for this rank.
    peers: Vec<Option<Peer>>,
}

/// A connection to a rank.
enum Peer {
    /// Of this process.
    Channel(ChannelEnd),
    /// Of another process.
    Socket(UnixStream),
}

impl Mesh {
    /// Returns the number of ranks of the node.
    pub fn num_ranks(&self) -> usize {
        self.peers.len()
    }

    /// Sends a message to a local rank. Does not wait: a message fits into a socket's buffer, and ranks exchange them
    /// one at a time.
    ///
    /// # Errors
    /// [`Error::RankLost`] if the rank is lost.
    pub fn send(&self, local_rank: usize, sent: &Sent) -> Result<(), Error> {
        let (bytes, files) = (sent.bytes.len(), sent.files.len() + usize::from(sent.slab.is_some()));
        if bytes > MAX_BYTES || files > MAX_FILES {
            return Err(Error::Internal(format!("a message of {bytes} bytes and {files} descriptors")));
        }
        match &self.peers[local_rank] {
            None => Ok(()),
            Some(Peer::Channel(end)) => end.send(local_rank, sent),
            Some(Peer::Socket(stream)) => socket::send(stream, local_rank, sent),
        }
    }

    /// Receives the next message of a local rank. Until it arrives, `wait` is called now and then; its error ends the
    /// wait.
    ///
    /// # Errors
    /// [`Error::RankLost`] if the rank is lost, and the error of `wait`.
    pub fn receive(&self, local_rank: usize, mut wait: impl FnMut() -> Result<(), Error>) -> Result<Sent, Error> {
        match &self.peers[local_rank] {
            None => Ok(Sent::default()),
            Some(Peer::Channel(end)) => end.receive(local_rank, &mut wait),
            Some(Peer::Socket(stream)) => socket::receive(stream, local_rank, &mut wait),
        }
    }

    /// Returns a local rank that is still needed and whose connection has ended, if there is one.
    pub fn poll_disconnected(&self, is_needed: impl Fn(usize) -> bool) -> Option<usize> {
        let is_closed = |peer: &Peer| match peer {
            Peer::Channel(end) => end.is_closed(),
            Peer::Socket(stream) => socket::is_closed(stream),
        };
        let mut peers = self.peers.iter().enumerate();
        peers.position(|(local_rank, peer)| peer.as_ref().is_some_and(is_closed) && is_needed(local_rank))
    }
}

/// Returns a received descriptor as one that this rank alone has.
///
/// # Errors
/// [`Error::System`].
pub fn own_file(file: SharedFile) -> Result<OwnedFd, Error> {
    let clone = |file: SharedFile| rustix::io::fcntl_dupfd_cloexec(&*file, 0);
    Arc::try_unwrap(file).or_else(clone).map_err(|errno| super::segment::system("copy a descriptor", errno))
}

/// Returns the error for a lost local rank.
fn lost(local_rank: usize, reason: String) -> Error {
    Error::RankLost { peer: local_rank as u32, reason }
}
