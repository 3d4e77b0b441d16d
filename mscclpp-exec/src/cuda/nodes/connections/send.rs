//! Sends triggers of the proxy to other nodes.

use super::NodeConnections;
use super::traffic::Traffic;
use super::wire::{Content, NodeConnection, Outgoing};
use crate::cuda::nodes::memory::Target;
use crate::cuda::nodes::staging::{STAGING_BYTES, TransferDirection};
use crate::cuda::proxy::Failure;
use mscclpp_cuda::driver;
use mscclpp_cuda::driver::Handle;
use mscclpp_transport::{RemoteAddress, Signal};

/// Maximum number of pending messages for a rank, above which the queue is blocked.
const MAX_PENDING: usize = 1024;

/// The rest of a copy to another node.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct Put {
    /// Source address; 0 for zeros.
    src: u64,
    bytes: u64,
    wire: usize,
    target: Target,
}

impl Put {
    pub(in crate::cuda) fn is_staged(&self) -> bool {
        self.bytes == 0
    }
}

impl Target {
    fn address(self) -> RemoteAddress {
        RemoteAddress { key: self.number, offset: self.at }
    }
}

impl NodeConnections {
    fn wire_to(&self, address: u64) -> Result<(usize, Target), Failure> {
        let target = self.memories.find(address);
        let found = target.and_then(|target| {
            let wire = self.wires.iter().position(|wire| wire.peer == target.rank)?;
            Some((wire, target))
        });
        let unknown = || self.traffic.invalid_request(format!("a request for the unknown address {address:#x}"));
        found.ok_or_else(|| unknown().into())
    }

    /// Enqueues an end message after all earlier messages of the launch, for the ranks that wait for it.
    pub(super) fn send_ends(&mut self) {
        let launch = self.launch_id();
        let Traffic::Plan { ends, .. } = &self.traffic else { return };
        for wire in self.wires.iter_mut().filter(|wire| ends.to.contains(&wire.peer)) {
            // It depends on no copies but those of the messages queued before it.
            wire.outgoing.push_back(Outgoing { launch, content: Content::Signal(Signal::End), after: 0 });
        }
    }

    /// Begins a copy to memory of another node; no part of it is staged yet.
    pub(in crate::cuda) fn put(&self, src: u64, dst: u64, bytes: u64) -> Result<Put, Failure> {
        let (wire, target) = self.wire_to(dst)?;
        if target.room < bytes {
            let text = format!("a request for {bytes} bytes, but rank {} has {}", target.rank, target.room);
            return Err(self.traffic.invalid_request(text).into());
        }
        Ok(Put { src, bytes, wire, target })
    }

    /// Copies as much of it as there are free staging buffers, on the proxy's stream. `after`: the batch that contains
    /// the copy. Returns whether it made progress.
    pub(in crate::cuda) fn stage(&mut self, put: &mut Put, after: u64, stream: Handle) -> driver::Result<bool> {
        let before = put.bytes;
        while put.bytes > 0 && self.wires[put.wire].outgoing.len() < MAX_PENDING {
            let (mut piece, mut n) = (None, put.bytes);
            if put.src != 0 {
                n = n.min(STAGING_BYTES).min(self.transport.capabilities().max_put_bytes);
                let NodeConnection { staging, peer, .. } = &self.wires[put.wire];
                let place = staging.place(n, self.transport.min_device_put(*peer));
                let Some(free) = staging.take(TransferDirection::Out, place) else { break };
                self.driver.copy(free.device(), put.src, n, stream)?;
                put.src += n;
                piece = Some(free);
            }
            let (launch, content) = (self.launch_id(), Content::Put(put.target.address(), n, piece));
            self.wires[put.wire].outgoing.push_back(Outgoing { launch, content, after });
            put.target.at += n;
            put.bytes -= n;
        }
        Ok(put.bytes < before)
    }

    /// Enqueues a signal after all earlier messages; returns whether there was space.
    pub(in crate::cuda) fn signal(&mut self, signal: u64, after: u64) -> Result<bool, Failure> {
        let (wire, target) = self.wire_to(signal)?;
        let (launch, content) = (self.launch_id(), Content::Signal(Signal::Channel(target.address())));
        let outgoing = &mut self.wires[wire].outgoing;
        let has_room = outgoing.len() < MAX_PENDING;
        if has_room {
            outgoing.push_back(Outgoing { launch, content, after });
        }
        Ok(has_room)
    }
}
