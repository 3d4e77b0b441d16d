//! Copies data that arrives from other ranks to the device.

use std::sync::Arc;

use super::NodeConnections;
use super::traffic::Traffic;
use super::wire::LostRank;
use crate::cuda::nodes::memory::Owner;
use crate::cuda::nodes::staging::{MessageBuffer, Place, Staging, StagingBuffer, TransferDirection};
use crate::cuda::proxy::Failure;
use mscclpp_base::error::{Error, LateData};
use mscclpp_bootstrap::Error as BootstrapError;
use mscclpp_cuda::driver;
use mscclpp_cuda::driver::{Driver, Handle};
use mscclpp_transport::{Destination, Frame, FrameKind, Lost, Malformed, Received, RemoteAddress, Signal};

/// The staging buffers into which a transport receives messages of a rank.
struct StagingBuffers<'a> {
    staging: &'a Arc<Staging>,
    min_device_put: Option<u64>,
}

impl StagingBuffers<'_> {
    fn take(&self, place: Place) -> Option<MessageBuffer> {
        let piece = self.staging.take(TransferDirection::In, place)?;
        // SAFETY: the staging buffer was free, so no copy from it is pending.
        Some(unsafe { piece.into_message() })
    }
}

impl Destination<MessageBuffer> for StagingBuffers<'_> {
    fn buffer(&mut self, _len: u64) -> Option<MessageBuffer> {
        self.take(Place::Host)
    }

    fn long_buffer(&mut self, len: u64) -> Option<MessageBuffer> {
        self.take(self.staging.place(len, self.min_device_put))
    }
}

impl NodeConnections {
    /// Frees staging buffers whose bytes are on the device.
    pub(super) fn complete_receives(&mut self) -> driver::Result<bool> {
        let mut progress = false;
        while let Some(&(Some(event), _)) = self.arriving.front() {
            if !self.driver.is_done(event)? {
                break;
            }
            self.arriving.pop_front();
            self.events.release(event);
            progress = true;
        }
        Ok(progress)
    }

    /// Receives messages of a rank for launches that the device has begun.
    pub(super) fn take(&mut self, at: usize) -> Result<bool, Failure> {
        let mut progress = false;
        loop {
            let Self { wires, transport, .. } = self;
            let wire = &mut wires[at];
            let min_device_put = transport.min_device_put(wire.peer);
            let mut buffers = StagingBuffers { staging: &wire.staging, min_device_put };
            let received = transport.receive(wire.peer, self.begun, &mut buffers);
            let (bootstrap, peer) = (&self.bootstrap, wire.peer);
            let lost = |malformed: Malformed| match malformed {
                Malformed::Unauthenticated { number } => {
                    let (from, to, frame, connection) = (peer, bootstrap.rank(), number, "data".into());
                    // The other ranks receive the error too.
                    Error::from(bootstrap.fail(BootstrapError::FrameAuthenticationFailed {
                        from,
                        to,
                        frame,
                        connection,
                    }))
                }
                malformed => Error::RankLost { peer, reason: malformed.to_string() },
            };
            match received.map_err(lost)? {
                Received::Message(frame, buffer) => self.accept(at, frame, buffer.map(MessageBuffer::into_staging))?,
                Received::Part => {}
                Received::Nothing => {
                    if !wire.has_left && transport.lost(wire.peer) == Some(Lost::Closed) {
                        wire.lose(LostRank::Gone);
                    }
                    break;
                }
            }
            progress = true;
        }
        Ok(progress)
    }

    /// Executes a message whose bytes are in a staging buffer.
    fn accept(&mut self, at: usize, frame: Frame, piece: Option<StagingBuffer>) -> Result<(), Failure> {
        let peer = self.wires[at].peer;
        let malformed = || Error::RankLost { peer, reason: format!("it sent a frame that no plan expects: {frame:?}") };
        let launch = frame.launch;
        if launch.plan != self.traffic.key() {
            return Err(malformed().into());
        }
        match frame.kind {
            FrameKind::Put { to, len } | FrameKind::Zeros { to, len } => {
                self.reject_late(peer, launch.launch, to)?;
                let to = self.memories.resolve(to.key, to.offset, len).ok_or_else(malformed)?;
                if matches!(frame.kind, FrameKind::Zeros { .. }) {
                    self.arrive(None, |driver, stream| driver.memset_async(to, len, stream))?;
                } else {
                    let piece = piece.ok_or_else(malformed)?;
                    let from = piece.device();
                    self.arrive(Some(piece), |driver, stream| driver.copy(to, from, len, stream))?;
                }
            }
            FrameKind::Signal(Signal::Channel(to)) => {
                let counter = self.memories.resolve(to.key, to.offset, 8).filter(|counter| counter.is_multiple_of(8));
                let counter = counter.ok_or_else(malformed)?;
                // Only one channel signals a counter.
                let signals = self.signalled.entry(counter).or_default();
                *signals += 1;
                self.driver.write_value(counter, *signals, self.stream)?;
            }
            FrameKind::Signal(Signal::End) => self.wires[at].ended = launch.launch,
            FrameKind::Signal(Signal::Leave) => self.wires[at].has_left = true,
            FrameKind::Signal(Signal::Abort) => self.wires[at].lose(LostRank::Aborted),
            FrameKind::Signal(Signal::Call) => return Err(malformed().into()),
        }
        Ok(())
    }

    /// Enqueues work on the stream, and keeps its staging buffer until the work is complete.
    fn arrive(
        &mut self,
        piece: Option<StagingBuffer>,
        put: impl FnOnce(&dyn Driver, Handle) -> driver::Result<()>,
    ) -> driver::Result<()> {
        let put = put(&*self.driver, self.stream);
        let event = self.events.record(self.stream);
        // The staging buffer stays in use, even if the end of the work is unknown.
        self.arriving.push_back((event.as_ref().ok().copied(), piece));
        put.and(event.map(drop))
    }

    /// Rejects data that arrives after the device's operations of its launch have ended, if that makes the plan
    /// invalid: buffers of callers may not be written any more then.
    ///
    /// # Errors
    /// [`Error::LateData`].
    fn reject_late(&self, peer: u32, launch: u64, to: RemoteAddress) -> Result<(), Failure> {
        let Traffic::Plan { plan, ends, .. } = &self.traffic else { return Ok(()) };
        let is_over = launch <= self.ended;
        let owner = self.memories.owner(to.key);
        let harms = owner == Some(Owner::Caller) || !ends.scratch_may_be_late;
        if !(is_over || self.is_closing && harms) {
            return Ok(());
        }
        let error = Error::LateData(Box::new(LateData {
            plan: plan.name().to_owned(),
            launch,
            rank: self.bootstrap.rank(),
            peer,
            memory: if owner == Some(Owner::Caller) { "input or output" } else { "scratch" },
            sent_by: None,
            channel: None,
        }));
        // The other ranks receive the error, not only the fact that this rank is lost.
        let (who, call, kind) = (Box::new(self.bootstrap.member(peer)), self.call(), error.kind());
        self.bootstrap.fail(mscclpp_bootstrap::Error::CallFailed { who, call, kind, reason: error.to_string() });
        Err(error.into())
    }
}
