//! Sends triggers of the proxy to other nodes.

use super::NodeConnections;
use super::frame::{Frame, kind};
use super::wire::Outgoing;
use crate::cuda::driver::{self, Handle};
use crate::cuda::nodes::memory::Target;
use crate::cuda::nodes::staging::{STAGING_BYTES, TransferDirection};
use crate::cuda::proxy::Failure;
use crate::error::Error;

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

impl NodeConnections {
    fn wire_to(&self, address: u64) -> Result<(usize, Target), Failure> {
        let target = self.memories.find(address);
        let found = target.and_then(|target| {
            let wire = self.wires.iter().position(|wire| wire.peer == target.rank)?;
            Some((wire, target))
        });
        found.ok_or_else(|| Error::Internal(format!("a request for the unknown address {address:#x}")).into())
    }

    fn frame(&self, kind: u64, target: Target, bytes: u64) -> Frame {
        Frame { plan: self.key(), launch: self.begun, kind, memory: target.number, at: target.at, bytes }
    }

    /// Enqueues an end message after all earlier messages of the launch, for the ranks that wait for it.
    pub(super) fn send_ends(&mut self) {
        let frame = Frame { plan: self.key(), launch: self.begun, kind: kind::END, memory: 0, at: 0, bytes: 0 };
        for wire in self.wires.iter_mut().filter(|wire| self.ends.to.contains(&wire.peer)) {
            // It depends on no copies but those of the messages queued before it.
            wire.outgoing.push_back(Outgoing { frame, piece: None, after: 0, begun: false, sent: 0 });
        }
    }

    /// Begins a copy to memory of another node; no part of it is staged yet.
    pub(in crate::cuda) fn put(&self, src: u64, dst: u64, bytes: u64) -> Result<Put, Failure> {
        let (wire, target) = self.wire_to(dst)?;
        if target.room < bytes {
            let text = format!("a request for {bytes} bytes, but rank {} has {}", target.rank, target.room);
            return Err(Error::Internal(text).into());
        }
        Ok(Put { src, bytes, wire, target })
    }

    /// Copies as much of it as there are free staging buffers, on the proxy's stream. `after`: the batch that contains
    /// the copy. Returns whether it made progress.
    pub(in crate::cuda) fn stage(&mut self, put: &mut Put, after: u64, stream: Handle) -> driver::Result<bool> {
        let before = put.bytes;
        while put.bytes > 0 && self.wires[put.wire].outgoing.len() < MAX_PENDING {
            let (mut piece, mut n, mut kind) = (None, put.bytes, kind::ZEROS);
            if put.src != 0 {
                let Some(free) = self.wires[put.wire].staging.take(TransferDirection::Out) else { break };
                n = n.min(STAGING_BYTES);
                self.driver.copy(free.device(), put.src, n, stream)?;
                put.src += n;
                (piece, kind) = (Some(free), kind::DATA);
            }
            let frame = self.frame(kind, put.target, n);
            self.wires[put.wire].outgoing.push_back(Outgoing { frame, piece, after, begun: false, sent: 0 });
            put.target.at += n;
            put.bytes -= n;
        }
        Ok(put.bytes < before)
    }

    /// Enqueues a signal after all earlier messages; returns whether there was space.
    pub(in crate::cuda) fn signal(&mut self, signal: u64, after: u64) -> Result<bool, Failure> {
        let (wire, target) = self.wire_to(signal)?;
        let frame = self.frame(kind::SIGNAL, target, 8);
        let outgoing = &mut self.wires[wire].outgoing;
        let has_room = outgoing.len() < MAX_PENDING;
        if has_room {
            outgoing.push_back(Outgoing { frame, piece: None, after, begun: false, sent: 0 });
        }
        Ok(has_room)
    }
}
