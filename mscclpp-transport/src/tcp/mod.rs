//! The engine over TCP: one connection per peer, on which messages follow each other in the order of the calls.

mod connection;

use std::collections::BTreeMap;
use std::net::TcpStream;

use mscclpp_bootstrap::StreamKeys;

use self::connection::{Connection, Source};
use super::frame::{Frame, FrameKind, LaunchId, Malformed, Signal};
use super::{Buffer, Capabilities, Destination, Lost, Received, RemoteAddress, Transport, discard_arrived};
use mscclpp_base::error::Error;
use mscclpp_base::memory::Span;
use mscclpp_base::shm::{ProcessMark, Region};

/// Maximum number of bytes of a put, so that a peer can make this rank provide only buffers of this length.
pub(super) const MAX_PUT_BYTES: u64 = 1 << 20;

/// Number of queued bytes for a peer from which on there is no room.
pub(super) const MAX_QUEUED_BYTES: usize = 1 << 20;

/// Connections to peers.
pub struct Tcp<B> {
    connections: BTreeMap<u32, Connection<B>>,
    mark: ProcessMark,
}

impl<B> Tcp<B> {
    pub fn new() -> Self {
        Self { connections: BTreeMap::new(), mark: ProcessMark::new() }
    }
}

impl<B: Buffer> Transport<B> for Tcp<B> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { max_put_bytes: MAX_PUT_BYTES, uses_regions: false, uses_device_memory: false }
    }

    fn open(&mut self, peer: u32, stream: TcpStream, keys: Option<StreamKeys>) -> Result<(), Error> {
        let connection = Connection::new(stream, keys).map_err(|error| Error::System {
            what: format!("set up a connection to rank {peer}"),
            reason: error.to_string(),
        })?;
        self.connections.insert(peer, connection);
        Ok(())
    }

    fn is_open(&self, peer: u32) -> bool {
        self.connections.contains_key(&peer)
    }

    fn has_room(&self, peer: u32) -> bool {
        self.connections.get(&peer).is_some_and(|connection| connection.queued() < MAX_QUEUED_BYTES)
    }

    fn send(&mut self, peer: u32, launch: LaunchId, kind: FrameKind, source: Option<B>) {
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.push(&Frame { launch, kind }, source.map_or(Source::None, Source::Buffer));
        }
    }

    fn put_from(
        &mut self,
        peer: u32,
        launch: LaunchId,
        to: RemoteAddress,
        source: Span<'_>,
        _region: &dyn Fn() -> Option<Region>,
    ) -> Option<u64> {
        self.connections.get_mut(&peer)?.put_from(launch, to, source)
    }

    fn is_flushed(&self, peer: u32) -> bool {
        self.connections.get(&peer).is_none_or(|connection| connection.queued() == 0)
    }

    fn progress(&mut self) -> bool {
        let mut progress = false;
        for connection in self.connections.values_mut() {
            progress |= connection.write();
        }
        progress
    }

    fn receive(
        &mut self,
        peer: u32,
        launch: u64,
        destination: &mut dyn Destination<B>,
    ) -> Result<Received<B>, Malformed> {
        match self.connections.get_mut(&peer) {
            Some(connection) => connection.receive(launch, MAX_PUT_BYTES, destination),
            None => Ok(Received::Nothing),
        }
    }

    fn lost(&self, peer: u32) -> Option<Lost> {
        self.connections.get(&peer)?.lost()
    }

    fn close(&mut self, peer: u32, launch: LaunchId, last: Signal) {
        if let Some(connection) = self.connections.get_mut(&peer) {
            connection.close(&Frame { launch, kind: FrameKind::Signal(last) });
        }
    }
}

impl<B> Drop for Tcp<B> {
    fn drop(&mut self) {
        // In a copy of the process, the sockets are the other one's too.
        if !self.mark.is_copy() {
            self.connections.values().for_each(|connection| discard_arrived(connection.stream()));
        }
    }
}
