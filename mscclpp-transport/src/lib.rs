//! What carries port channels between nodes: the one interface below the process executor and the CUDA executor.
//!
//! An engine moves puts and signals between pairs of ranks that are connected: [`Tcp`], or [`Ucx`], which uses the former for
//! pairs that cannot use UCX. [`Hostile`] tests what is above an engine. An engine knows no plans: what a message means is the
//! executor's business.
//!
//! # Contract
//!
//! 1. **Order.** A *put* is received after any delay, and puts may overtake each other and signals. A *signal* is
//!    received only after every put that was passed to the same connection before it. [`Signal::End`],
//!    [`Signal::Leave`] and [`Signal::Abort`] are received only after everything that was passed before them. No order
//!    holds between connections. An executor that writes puts and counts signals in the order in which
//!    [`receive`](Transport::receive) returns them thus makes a signal visible only after every earlier put.
//!
//!    Of puts to the *same* bytes the last one that was passed must remain, because a plan may put twice to a place before
//!    the receiver answers (`docs/semantics.md`, assumption 3). Keys do not tell that two puts overlap, so an engine that is
//!    not for tests must return the puts of a connection in order. No built-in plan needs it, so [`Hostile`] does not.
//! 2. **Launches.** A message names its launch. It stays in the engine until the receiver asks for messages of that
//!    launch, so a rank's memory is written only while the rank is in the launch. An engine that writes to memory itself
//!    must observe this too, or leave it to plans that are proved to handshake.
//! 3. **Sources.** A source belongs to the engine from [`put`](Transport::put) until it can be reused; then it is dropped. A region is
//!    memory that the plan uses too: a flush waits until the engine [does not keep it](Transport::keeps_regions) any more.
//!    [`is_flushed`](Transport::is_flushed) says that no source of a connection is in use, and nothing of its destinations.
//! 4. **Progress.** No call waits. Messages move within calls only, so a rank that waits for anything must continue to call
//!    [`progress`](Transport::progress) and [`receive`](Transport::receive): the peer that it waits for may be unable to
//!    continue before.
//! 5. **Destinations.** Memory of a peer is a [`RemoteAddress`]: the key under which its owner has registered it, and an
//!    offset. The *owner* resolves it when it receives the message, so keys of memory that was never registered, or is not
//!    any more, reach nothing.
//! 6. **Loss.** A lost peer is reported by [`lost`](Transport::lost), after everything that arrived from it. Timeouts and
//!    the search for the cause are the executor's.
//!
//! 7. **Authentication.** A connection that was opened with keys delivers only what the peer has sent, in its order: the
//!    engine verifies a message whole before [`receive`](Transport::receive) returns it, so neither its bytes nor a signal
//!    after it become visible before. The first message that was changed, repeated, dropped, reordered or injected ends the
//!    connection with [`Malformed::Unauthenticated`].
//!
//! Nothing here requires that a connection be a stream of bytes: messages are delivered whole, and their bytes into buffers or memory
//! that the receiver provides when their length is known ([`Destination`]). An engine that needs no copy of a source sends it from memory
//! ([`put_from`](Transport::put_from)): within a call, or from a [`Region`], which a library may still read, and at the receiver
//! write, after a launch has failed and its memory is its owner's again.
//!
//! Registration is not part of the trait, because no engine so far takes part in it. It is the business of each
//! executor: `cuda::nodes::RegionTable` gives a region its key (`export`) and a peer's key an address (`add`); in the
//! process executor the operands of a prepared plan are registered, and [`RemoteAddress::of_operand`] is the key. An engine
//! that writes to memory itself needs to know regions when they get their keys.

#![deny(unsafe_code)]
#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    clippy::len_without_is_empty,
    clippy::should_implement_trait,
    clippy::new_without_default,
    reason = "the interface is that of the crates above"
)]

mod frame;
pub mod hostile;
mod tcp;
#[cfg(test)]
mod tests;
#[allow(unsafe_code, reason = "UCX is reached through raw handles")]
mod ucx;

use std::io::{ErrorKind, Read};
use std::net::TcpStream;

use mscclpp_bootstrap::{NodeTransport, StreamKeys};

pub use self::frame::{Frame, FrameKind, LaunchId, Malformed, RemoteAddress, Signal};
use self::hostile::{Delay, Hostile};
pub use self::tcp::Tcp;
pub use self::ucx::Ucx;
pub use self::ucx::{UcxReport, try_ucx};
use mscclpp_base::error::Error;
use mscclpp_base::memory::Span;
use mscclpp_base::shm::Region;

/// Memory that an engine reads sources from, or writes received bytes to.
pub trait Buffer: AsRef<[u8]> + AsMut<[u8]> + Send {
    /// Returns the address and the number of its bytes if they are in memory of a device: then the host cannot access them, and as a
    /// slice it has none. Only an engine whose [`min_device_put`](Transport::min_device_put) allows it gets such a buffer.
    fn device_bytes(&self) -> Option<(u64, usize)> {
        None
    }
}

impl Buffer for Vec<u8> {}

/// Where received bytes go. A function that returns buffers is one.
pub trait Destination<B> {
    /// Returns a buffer of at least this many bytes, or `None` if there is none now: then the message stays.
    fn buffer(&mut self, len: u64) -> Option<B>;

    /// Returns such a buffer for a put of at least [`min_device_put`](Transport::min_device_put) bytes, which may be in memory of a device.
    fn long_buffer(&mut self, len: u64) -> Option<B> {
        self.buffer(len)
    }

    /// Returns the memory into which the bytes of a put are received from byte `at` on, or fewer of them. `None` if they must be
    /// received into a buffer; it may be so only for all bytes of a put.
    fn memory(&mut self, _put: &Frame, _at: u64) -> Option<Span<'_>> {
        None
    }

    /// Returns the same memory, of all bytes of a put, for an engine that lets a library write to it. `None` if they must be received in
    /// another way.
    fn region(&mut self, _put: &Frame) -> Option<Region> {
        None
    }
}

impl<B, F: FnMut(u64) -> Option<B>> Destination<B> for F {
    fn buffer(&mut self, len: u64) -> Option<B> {
        self(len)
    }
}

/// Returns the engine of a rank for a choice. `delay`: of [`Hostile`], if the environment demands that engine.
///
/// # Errors
/// [`Error::System`] if it is UCX, which cannot be used.
pub fn engine<B: Buffer + 'static>(
    choice: NodeTransport,
    rank: u32,
    delay: Delay,
) -> Result<Box<dyn Transport<B>>, Error> {
    Ok(match hostile::seed() {
        Some(seed) => Box::new(Hostile::new(chosen(choice)?, rank, seed, delay)),
        None => chosen(choice)?,
    })
}

fn chosen<B: Buffer + 'static>(choice: NodeTransport) -> Result<Box<dyn Transport<B>>, Error> {
    if choice == NodeTransport::Tcp {
        return Ok(Box::new(Tcp::new()));
    }
    match Ucx::new(choice == NodeTransport::Ucx) {
        Ok(ucx) => Ok(Box::new(ucx)),
        Err(why) => Err(Error::System {
            what: format!("use UCX between nodes (MSCCLPP_TRANSPORT={})", choice.name()),
            reason: why.to_string(),
        }),
    }
}

/// Maximum number of bytes that are discarded of a connection that is about to be closed. A rank whose launches have all succeeded
/// has left no more than a few signals.
const MAX_DISCARDED_BYTES: usize = 1 << 16;

/// Discards what has arrived on a connection and will not be read, before it is closed: otherwise the system resets the connection, and
/// discards what it has yet to send, which a rank that has left owes its peers.
fn discard_arrived(stream: &TcpStream) {
    let (mut discarded, mut bytes) = (0, [0; 1 << 12]);
    while discarded < MAX_DISCARDED_BYTES {
        match (&mut &*stream).read(&mut bytes) {
            Ok(n) if n > 0 => discarded += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

/// Properties of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Maximum number of bytes of a put that has a source, a multiple of 32.
    pub max_put_bytes: u64,
    /// Whether it may send from regions, and receive into them.
    pub uses_regions: bool,
    /// Whether it can access memory of devices.
    pub uses_device_memory: bool,
}

/// Result of [`Transport::receive`].
#[derive(Debug)]
pub enum Received<B> {
    /// A message. A put that has bytes comes with the buffer in which they are the first ones, unless they were received into
    /// their memory.
    Message(Frame, Option<B>),
    /// Part of a message; the next call may return more of it.
    Part,
    Nothing,
}

/// State of a peer from which nothing more can be received, or to which nothing can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It has ended the connection, and all messages of it have been received.
    Closed,
    /// Sending failed, for the given reason.
    Failed(String),
}

/// An engine that carries puts and signals between this rank and its peers; the module's documentation has the
/// contract.
pub trait Transport<B: Buffer>: Send {
    /// Returns the properties of the engine.
    fn capabilities(&self) -> Capabilities;

    /// Opens the connection to a peer, which does the same. `stream` leads to the peer, is authenticated, and belongs to
    /// the engine; engines with addresses of their own exchange them on it. `keys`: with which the messages are
    /// authenticated, if they are.
    ///
    /// # Errors
    /// [`Error::System`].
    fn open(&mut self, peer: u32, stream: TcpStream, keys: Option<StreamKeys>) -> Result<(), Error>;

    /// Returns whether there is a connection to a peer.
    fn is_open(&self, peer: u32) -> bool;

    /// Returns whether the engine has capacity for another message. It accepts messages beyond that; an executor that
    /// does not ask only needs more memory. `false` without a connection.
    fn has_room(&self, peer: u32) -> bool;

    /// Writes `len` bytes to memory of a peer: the first ones of `source`, or zeros. Without a connection, or to a lost
    /// peer, it does nothing.
    fn put(&mut self, peer: u32, launch: LaunchId, to: RemoteAddress, len: u64, source: Option<B>) {
        let kind = if source.is_some() { FrameKind::Put { to, len } } else { FrameKind::Zeros { to, len } };
        self.send(peer, launch, kind, source);
    }

    /// Sends bytes of memory without a copy of them: a put of all of them, or the next bytes of the put that an earlier call began.
    /// Returns how many were sent. If some remain, the next message to the peer must be the rest. `None` if the engine prefers a source
    /// that it can keep; not for the rest of a put.
    ///
    /// `region`: returns the same bytes as a region, if they are in one. The engine has used either the source within this call, or
    /// keeps the region.
    fn put_from(
        &mut self,
        _peer: u32,
        _launch: LaunchId,
        _to: RemoteAddress,
        _source: Span<'_>,
        _region: &dyn Fn() -> Option<Region>,
    ) -> Option<u64> {
        None
    }

    /// Returns the minimum length of puts to a peer, and from it, whose buffers may be in memory of a device; `None` if none may.
    fn min_device_put(&self, _peer: u32) -> Option<u64> {
        None
    }

    /// Returns whether a region that an earlier [`put_from`](Self::put_from) has left to the engine may still be read.
    fn keeps_regions(&self, _peer: u32) -> bool {
        false
    }

    /// Sends a signal. Without a connection, or to a lost peer, it does nothing.
    fn signal(&mut self, peer: u32, launch: LaunchId, signal: Signal) {
        self.send(peer, launch, FrameKind::Signal(signal), None);
    }

    /// Sends a message. Without a connection, or to a lost peer, it does nothing.
    fn send(&mut self, peer: u32, launch: LaunchId, kind: FrameKind, source: Option<B>);

    /// Returns whether no source of a put to a peer is in use any more, and all signals to it are on their way.
    fn is_flushed(&self, peer: u32) -> bool;

    /// Sends as much as possible, and returns whether that was anything.
    fn progress(&mut self) -> bool;

    /// Returns the next message of a peer whose launch is at most `launch`, and receives its bytes into `destination`.
    ///
    /// # Errors
    /// The peer sends no valid messages; none follow.
    ///
    /// # Panics
    /// If a buffer is shorter.
    fn receive(
        &mut self,
        peer: u32,
        launch: u64,
        destination: &mut dyn Destination<B>,
    ) -> Result<Received<B>, Malformed>;

    /// Returns whether a peer is lost, and how.
    fn lost(&self, peer: u32) -> Option<Lost>;

    /// Sends a last signal and nothing more. What cannot be sent now is discarded, the signal included if part of a
    /// message remains before it: the peer then notices only that the connection was closed.
    fn close(&mut self, peer: u32, launch: LaunchId, last: Signal);
}
