//! The engine over UCX: active messages, and rendezvous for long puts. A pair of ranks that does not agree on UCX uses TCP.
//!
//! The two sides of a pair exchange the addresses of their workers on the stream, which is authenticated, and with them the
//! random token by which their messages are recognized. If UCX is not required, a pair uses it when both sides find that UCX
//! would use memory that they share, or RDMA (`opening`).
//!
//! Frames and bytes are authenticated as those of TCP are, where keys are given. What UCX exchanges to set up its own
//! connections cannot be authenticated.
//!
mod api;
mod connection;
mod control;
mod inbox;
mod library;
mod opening;
mod progress;
mod quiet;
mod report;
#[cfg(test)]
mod tests;
mod transfer;
mod worker;

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::MutexGuard;

use mscclpp_bootstrap::StreamKeys;

use self::connection::Connection;
use self::control::{Control, Record};
use self::inbox::Token;
use self::library::Unavailable;
use self::opening::{Agreed, Opening};
use self::progress::Progress;
pub use self::report::{UcxReport, try_ucx};
use self::transfer::Memory;
use self::worker::Worker;
use super::frame::{Frame, FrameKind, LaunchId, Malformed, RemoteAddress, Signal};
use super::tcp::{MAX_PUT_BYTES, MAX_QUEUED_BYTES, Tcp};
use super::{Buffer, Capabilities, Destination, Lost, Received, Transport};
use mscclpp_base::error::Error;
use mscclpp_base::memory::Span;
use mscclpp_base::shm::Region;

/// Connections to peers.
pub struct Ucx<B: Buffer + 'static> {
    links: BTreeMap<u32, Link<B>>,
    tcp: Tcp<B>,
    is_required: bool,
    /// Whether UCX has worked since there was last nothing to receive. Over sockets, its work is at least a call of the system.
    has_worked: bool,
    uses_device_memory: bool,
    /// Dropped last. `None` where there is no UCX and it is not required.
    progress: Option<Progress>,
}

/// State of a connection.
enum Link<B: Buffer + 'static> {
    Opening(Box<Opening<B>>),
    Ucx(Box<Connection<B>>),
    Tcp,
}

impl<B: Buffer + 'static> Ucx<B> {
    /// `is_required`: whether all pairs use UCX.
    ///
    /// # Errors
    /// UCX is required, and cannot be used.
    pub fn new(is_required: bool) -> Result<Self, Unavailable> {
        let progress = match library::library(is_required).and_then(Progress::new) {
            Err(why) if is_required => return Err(why),
            Err(why) => {
                log::debug!("connections between nodes use TCP: {why}");
                None
            }
            Ok(progress) => Some(progress),
        };
        let uses_device_memory = worker_of(&progress).is_some_and(|worker| worker.supports_cuda());
        let (links, tcp) = (BTreeMap::new(), Tcp::new());
        Ok(Self { links, tcp, is_required, has_worked: false, uses_device_memory, progress })
    }

    /// Returns an engine that has no UCX.
    #[cfg(test)]
    pub fn without_library() -> Self {
        let (links, tcp) = (BTreeMap::new(), Tcp::new());
        Self { links, tcp, is_required: false, has_worked: false, uses_device_memory: false, progress: None }
    }

    /// Continues to open a connection.
    fn advance(&mut self, peer: u32) {
        let Some(Link::Opening(opening)) = self.links.get_mut(&peer) else { return };
        let worker = worker_of(&self.progress);
        let Some(agreed) = opening.advance(worker.as_deref(), self.is_required) else { return };
        let Some(Link::Opening(opening)) = self.links.remove(&peer) else { return };
        let (control, keys, pending, token) = (opening.control, opening.keys, opening.pending, opening.token);
        match (agreed, worker) {
            (Agreed::Ucx(endpoint, tokens), Some(worker)) => {
                log::info!("the connection to rank {peer} uses {}", worker.describe(&endpoint));
                let mut connection = Connection::new(control, endpoint, keys, tokens);
                pending.into_iter().for_each(|(frame, source)| connection.push(frame, source.map(Memory::Buffer)));
                self.links.insert(peer, Link::Ucx(Box::new(connection)));
            }
            (_, worker) => {
                log::info!("the connection to rank {peer} uses TCP");
                if let Some(worker) = worker {
                    worker.forget(&token);
                }
                self.links.insert(peer, Link::Tcp);
                // It fails only for sockets that cannot be set up, and this one was.
                if self.tcp.open(peer, control.into_stream(), keys).is_ok() {
                    pending.into_iter().for_each(|(Frame { launch, kind }, source)| {
                        self.tcp.send(peer, launch, kind, source);
                    });
                }
            }
        }
    }
}

fn worker_of(progress: &Option<Progress>) -> Option<MutexGuard<'_, Worker>> {
    progress.as_ref().and_then(Progress::worker)
}

impl<B: Buffer + 'static> Transport<B> for Ucx<B> {
    fn capabilities(&self) -> Capabilities {
        let (uses_regions, uses_device_memory) = (self.progress.is_some(), self.uses_device_memory);
        Capabilities { max_put_bytes: MAX_PUT_BYTES, uses_regions, uses_device_memory }
    }

    fn open(&mut self, peer: u32, stream: TcpStream, keys: Option<StreamKeys>) -> Result<(), Error> {
        let failed = |reason: String| Error::System { what: format!("set up a connection to rank {peer}"), reason };
        let mut token = Token::default();
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| failed(error.to_string()))?;
        let record = match worker_of(&self.progress) {
            Some(worker) => {
                worker.inbox.expect(token);
                Record::Address(token, worker.address().map_err(failed)?)
            }
            None => Record::Tcp,
        };
        let mut control = Control::new(stream, keys.clone()).map_err(|error| failed(error.to_string()))?;
        control.send(&record);
        let opening = Opening::new(control, keys, token);
        self.links.insert(peer, Link::Opening(Box::new(opening)));
        Ok(())
    }

    fn is_open(&self, peer: u32) -> bool {
        self.links.contains_key(&peer)
    }

    fn has_room(&self, peer: u32) -> bool {
        match self.links.get(&peer) {
            Some(Link::Opening(opening)) => opening.queued() < MAX_QUEUED_BYTES,
            Some(Link::Ucx(connection)) => connection.queued() < MAX_QUEUED_BYTES,
            Some(Link::Tcp) => self.tcp.has_room(peer),
            None => false,
        }
    }

    fn send(&mut self, peer: u32, launch: LaunchId, kind: FrameKind, source: Option<B>) {
        let frame = Frame { launch, kind };
        match self.links.get_mut(&peer) {
            Some(Link::Opening(opening)) if opening.lost().is_none() => opening.pending.push((frame, source)),
            Some(Link::Ucx(connection)) => connection.push(frame, source.map(Memory::Buffer)),
            Some(Link::Tcp) => self.tcp.send(peer, launch, kind, source),
            Some(Link::Opening(_)) | None => {}
        }
    }

    fn put_from(
        &mut self,
        peer: u32,
        launch: LaunchId,
        to: RemoteAddress,
        source: Span<'_>,
        region: &dyn Fn() -> Option<Region>,
    ) -> Option<u64> {
        match self.links.get_mut(&peer)? {
            Link::Tcp => self.tcp.put_from(peer, launch, to, source, region),
            Link::Ucx(connection) => {
                let len = source.len() as u64;
                let region = if connection.sends_regions(len) { region()? } else { return None };
                connection.push(Frame { launch, kind: FrameKind::Put { to, len } }, Some(Memory::Region(region)));
                Some(len)
            }
            Link::Opening(_) => None,
        }
    }

    fn min_device_put(&self, peer: u32) -> Option<u64> {
        match self.links.get(&peer)? {
            Link::Ucx(connection) if self.uses_device_memory => connection.min_device_put(),
            Link::Ucx(_) | Link::Opening(_) | Link::Tcp => None,
        }
    }

    fn keeps_regions(&self, peer: u32) -> bool {
        matches!(self.links.get(&peer), Some(Link::Ucx(connection)) if connection.keeps_regions())
    }

    fn is_flushed(&self, peer: u32) -> bool {
        match self.links.get(&peer) {
            Some(Link::Opening(opening)) => opening.pending.is_empty(),
            Some(Link::Ucx(connection)) => connection.is_flushed(),
            Some(Link::Tcp) | None => self.tcp.is_flushed(peer),
        }
    }

    fn progress(&mut self) -> bool {
        if self.links.values().any(|link| matches!(link, Link::Opening(_))) {
            let peers: Vec<_> = self.links.keys().copied().collect();
            peers.into_iter().for_each(|peer| self.advance(peer));
        }
        let mut progress = self.tcp.progress();
        if let Some(worker) = worker_of(&self.progress) {
            // What waits is sent first: a look for what has arrived takes as long as a short message over sockets.
            for link in self.links.values_mut() {
                if let Link::Ucx(connection) = link {
                    progress |= connection.send(&worker);
                }
            }
            worker.progress();
            self.has_worked = true;
        }
        progress
    }

    fn receive(
        &mut self,
        peer: u32,
        launch: u64,
        destination: &mut dyn Destination<B>,
    ) -> Result<Received<B>, Malformed> {
        self.advance(peer);
        let worker = worker_of(&self.progress);
        match (self.links.get_mut(&peer), worker) {
            (Some(Link::Opening(opening)), _) => opening.malformed().map_or(Ok(Received::Nothing), Err),
            (Some(Link::Ucx(connection)), Some(worker)) => {
                let received = connection.receive(&worker, (launch, MAX_PUT_BYTES), destination)?;
                if !matches!(received, Received::Nothing) || std::mem::take(&mut self.has_worked) {
                    return Ok(received);
                }
                worker.progress();
                connection.receive(&worker, (launch, MAX_PUT_BYTES), destination)
            }
            (Some(Link::Tcp), _) => self.tcp.receive(peer, launch, destination),
            _ => Ok(Received::Nothing),
        }
    }

    fn lost(&self, peer: u32) -> Option<Lost> {
        match self.links.get(&peer)? {
            Link::Opening(opening) => opening.lost(),
            Link::Ucx(connection) => connection.lost(),
            Link::Tcp => self.tcp.lost(peer),
        }
    }

    fn close(&mut self, peer: u32, launch: LaunchId, last: Signal) {
        self.advance(peer);
        let worker = worker_of(&self.progress);
        match (self.links.get_mut(&peer), worker) {
            (Some(Link::Opening(opening)), _) => {
                opening.pending.clear();
                opening.control.shutdown();
            }
            (Some(Link::Ucx(connection)), Some(worker)) => {
                connection.close(&worker, &Frame { launch, kind: FrameKind::Signal(last) });
            }
            _ => self.tcp.close(peer, launch, last),
        }
    }
}

impl<B: Buffer + 'static> Drop for Ucx<B> {
    fn drop(&mut self) {
        let Some(worker) = worker_of(&self.progress) else {
            if self.progress.is_some() {
                // In a copy of the process, UCX's objects and memory belong to the other one.
                std::mem::forget(std::mem::take(&mut self.links));
            }
            return;
        };
        let flush = |link: &mut Link<B>| match link {
            Link::Ucx(connection) => connection.start_end(&worker),
            Link::Opening(_) | Link::Tcp => None,
        };
        let mut flushes: Vec<_> = self.links.values_mut().filter_map(flush).collect();
        worker.progress_until(|worker| {
            flushes.retain_mut(|flush| worker.poll(flush).is_none());
            flushes.is_empty()
        });
        for link in self.links.values_mut() {
            match link {
                Link::Ucx(connection) => connection.end(&worker),
                Link::Opening(opening) => opening.end(&worker),
                Link::Tcp => {}
            }
        }
        // Transfers that remain are left to the worker.
        self.links.clear();
    }
}
