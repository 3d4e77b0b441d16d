//! Copies data that arrives from other ranks to the device.

use super::NodeConnections;
use super::frame::{Frame, kind, malformed};
use super::wire::{Incoming, Lost};
use crate::cuda::driver::{self, Driver, Handle};
use crate::cuda::nodes::memory::Owner;
use crate::cuda::nodes::staging::{STAGING_BYTES, StagingBuffer, TransferDirection};
use crate::cuda::proxy::Failure;
use crate::error::{Error, LateData};
use crate::process::Header;

impl NodeConnections {
    /// Frees staging buffers whose bytes are on the device.
    pub(super) fn complete_receives(&mut self) -> driver::Result<bool> {
        let mut progress = false;
        while let Some(&(event, _)) = self.arriving.front() {
            if !self.driver.is_done(event)? {
                break;
            }
            self.arriving.pop_front();
            self.driver.destroy_event(event)?;
            progress = true;
        }
        Ok(progress)
    }

    /// Receives messages of a rank for launches that the device has begun.
    pub(super) fn take(&mut self, at: usize) -> Result<bool, Failure> {
        let (mut progress, key) = (false, self.key());
        loop {
            let wire = &mut self.wires[at];
            let Some(connection) = &mut wire.connection else { break };
            if wire.incoming.is_none() {
                match connection.take_header() {
                    Some(frame) => wire.incoming = Some(Incoming { frame, piece: None, taken: 0 }),
                    None => {
                        if connection.is_closed() && !wire.has_left {
                            wire.lose(Lost::Gone);
                        }
                        break;
                    }
                }
            }
            let Some(incoming) = &mut wire.incoming else { break };
            let frame = incoming.frame;
            if frame.plan != key || frame.bytes() > STAGING_BYTES {
                return Err(malformed(wire.peer, &frame));
            }
            if frame.launch > self.begun {
                break;
            }
            if frame.kind == kind::DATA {
                if incoming.piece.is_none() {
                    incoming.piece = wire.staging.take(TransferDirection::In);
                }
                let Some(piece) = &mut incoming.piece else { break };
                // SAFETY: the staging buffer was free, so no copy from it is pending, and the next one begins when it
                // is full.
                let to = unsafe { piece.bytes_mut(frame.bytes) };
                let n = connection.take_bytes(&mut to[incoming.taken..]);
                incoming.taken += n;
                progress |= n > 0;
                if incoming.taken < frame.bytes as usize {
                    if n > 0 {
                        continue;
                    }
                    if connection.is_closed() {
                        wire.lose(Lost::Gone);
                    }
                    break;
                }
            }
            let piece = incoming.piece.take();
            wire.incoming = None;
            self.accept(at, frame, piece)?;
            progress = true;
        }
        Ok(progress)
    }

    /// Executes a message whose bytes are in a staging buffer.
    fn accept(&mut self, at: usize, frame: Frame, piece: Option<StagingBuffer>) -> Result<(), Failure> {
        let Frame { kind, memory, at: first, bytes, .. } = frame;
        let peer = self.wires[at].peer;
        let malformed = || malformed(peer, &frame);
        if matches!(kind, kind::DATA | kind::ZEROS) {
            self.reject_late(peer, &frame)?;
        }
        match kind {
            kind::DATA => {
                let to = self.memories.resolve(memory, first, bytes).ok_or_else(malformed)?;
                let piece = piece.ok_or_else(malformed)?;
                let from = piece.device();
                self.arrive(Some(piece), |driver, stream| driver.copy(to, from, bytes, stream))?;
            }
            kind::ZEROS => {
                let to = self.memories.resolve(memory, first, bytes).ok_or_else(malformed)?;
                self.arrive(None, |driver, stream| driver.memset_async(to, bytes, stream))?;
            }
            kind::END => self.wires[at].ended = frame.launch,
            kind::SIGNAL => {
                let counter = self.memories.resolve(memory, first, 8).filter(|counter| counter.is_multiple_of(8));
                let counter = counter.ok_or_else(malformed)?;
                // Only one channel signals a counter.
                let signals = self.signalled.entry(counter).or_default();
                *signals += 1;
                self.driver.write_value(counter, *signals, self.stream)?;
            }
            kind::LEAVES => self.wires[at].has_left = true,
            kind::GIVES_UP => self.wires[at].lose(Lost::GaveUp),
            _ => return Err(malformed()),
        }
        Ok(())
    }

    /// Enqueues work on the stream, and keeps its staging buffer until the work is complete.
    fn arrive(
        &mut self,
        piece: Option<StagingBuffer>,
        put: impl FnOnce(&dyn Driver, Handle) -> driver::Result<()>,
    ) -> driver::Result<()> {
        let event = self.driver.create_event()?;
        let done = put(&*self.driver, self.stream).and_then(|()| self.driver.record(event, self.stream));
        // The staging buffer stays in use, even if the end of the work is unknown.
        self.arriving.push_back((event, piece));
        done
    }

    /// Rejects data that arrives after the device's operations of its launch have ended, if that makes the plan
    /// invalid: buffers of callers may not be written any more then.
    ///
    /// # Errors
    /// [`Error::LateData`].
    fn reject_late(&self, peer: u32, frame: &Frame) -> Result<(), Failure> {
        let is_over = frame.launch <= self.ended;
        let owner = self.memories.owner(frame.memory);
        let harms = owner == Some(Owner::Caller) || !self.ends.scratch_may_be_late;
        if !(is_over || self.is_closing && harms) {
            return Ok(());
        }
        let error = Error::LateData(Box::new(LateData {
            plan: self.plan.name().to_owned(),
            launch: frame.launch,
            rank: self.bootstrap.rank(),
            peer,
            memory: if owner == Some(Owner::Caller) { "input or output" } else { "scratch" },
            place: None,
            channel: None,
        }));
        // The other ranks receive the error, not only the fact that this rank is lost.
        self.bootstrap.abort(&error.to_string());
        Err(error.into())
    }
}
