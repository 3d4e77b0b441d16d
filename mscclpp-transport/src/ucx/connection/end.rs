//! How a connection ends: in order, by the loss of the peer, or by a message that is none.

use std::time::{Duration, Instant};

use super::Connection;
use super::receive::{Bytes, Incoming};
use crate::frame::{Frame, Malformed};
use crate::ucx::control::Record;
use crate::ucx::transfer::Transfer;
use crate::ucx::worker::Worker;
use crate::{Buffer, Lost};

/// Minimum time between two reads of the stream, which take a call of the system each: as long as a message over shared memory.
const CONTROL_INTERVAL: Duration = Duration::from_millis(1);

/// Number of calls after which the time is read. Few, because a rank that has waited for long makes some calls, then sleeps.
const CLOCK_INTERVAL: u32 = 16;

impl<B: Buffer + 'static> Connection<B> {
    /// Reads the stream from time to time, and notices a lost peer.
    pub(super) fn watch(&mut self, worker: &Worker) {
        if let Some(reason) = worker.error(&self.endpoint) {
            self.broken.get_or_insert(reason);
        }
        let needs_record = self.broken.is_some() || !self.queue.is_empty() && !self.has_window();
        if !self.is_over && (needs_record || self.is_control_due()) {
            self.read_control();
        }
        if self.broken.is_none() && !self.control.is_closed() {
            return;
        }
        if self.control.is_closed() && self.queue.iter().any(|(_, source)| source.is_some()) {
            let reason = self.closed();
            self.failed.get_or_insert(reason);
        }
        self.discard();
        if let Some(reason) = &self.broken {
            // The peer may not notice, and would wait for what was not sent.
            if !std::mem::replace(&mut self.has_told, true) {
                self.control.send(&Record::Broken(reason.clone()));
            }
            self.control.shutdown();
        }
        // Messages of the peer may arrive through an endpoint that is not broken.
        if self.broken.is_some() || self.is_over {
            worker.close(&mut self.endpoint);
        }
        if self.is_over || self.failed.is_some() {
            // The worker has what UCX does not return.
            self.sending.clear();
            self.sending_bytes = 0;
        }
        let first = self.incoming.front().map(|first| &first.bytes);
        let has_arrived = first.map_or(self.batch.is_some(), |first| matches!(first, Bytes::InBatch(..)));
        let is_part = matches!(first, Some(Bytes::Receiving(transfer, _)) if transfer.is_pending());
        // UCX does not order messages, and the stream may be faster than it.
        let is_expected = self.ended.is_some_and(|count| count > self.taken);
        if self.has_all() || !has_arrived && self.quiet.is_over(is_part || is_expected, worker.num_events()) {
            self.is_over = true;
            if let Some(reason) = self.broken.take_if(|_| !self.control.is_closed()) {
                self.failed.get_or_insert(format!("UCX: {reason}"));
            } else if self.broken_there.is_some() && self.ended.is_none() {
                let reason = self.closed();
                self.failed.get_or_insert(reason);
            }
        }
    }

    /// Returns whether the stream was not read for some time.
    fn is_control_due(&mut self) -> bool {
        self.calls = self.calls.wrapping_add(1);
        if self.calls % CLOCK_INTERVAL != 1 {
            return false;
        }
        let now = Instant::now();
        let is_due = self.control_read.is_none_or(|at| now.saturating_duration_since(at) >= CONTROL_INTERVAL);
        if is_due {
            self.control_read = Some(now);
        }
        is_due
    }

    /// Returns whether all messages of a peer that has ended have been received.
    fn has_all(&self) -> bool {
        self.ended == Some(self.taken) && self.batch.is_none() && self.incoming.is_empty() && self.last.is_none()
    }

    /// Discards the messages that wait to be sent.
    fn discard(&mut self) {
        self.queue.clear();
        self.queued = 0;
    }

    fn read_control(&mut self) {
        loop {
            match self.control.receive() {
                Ok(Some(Record::Consumed(count))) if (self.credited..=self.sent).contains(&count) => {
                    self.credited = count
                }
                Ok(Some(Record::End(count, last))) if self.ended.is_none() => {
                    self.ended = Some(count);
                    match last.map(|frame| Frame::decode(&frame, 0)).transpose() {
                        Ok(last) => self.last = last,
                        Err(malformed) => return self.reject(malformed),
                    }
                }
                Ok(Some(Record::Broken(reason))) => self.broken_there = Some(reason),
                Ok(None) => return,
                Ok(Some(_)) => return self.reject(Malformed::Frame([0; 7])),
                Err(malformed) => return self.reject(malformed),
            }
        }
    }

    /// Returns why the peer has closed the stream.
    pub(super) fn closed(&self) -> String {
        match &self.broken_there {
            Some(reason) => format!("UCX on the other side: {reason}"),
            None => "the peer has closed the connection".into(),
        }
    }

    fn reject(&mut self, malformed: Malformed) {
        self.malformed.get_or_insert(malformed);
    }

    /// Returns whether the peer is lost, and how.
    pub(in super::super) fn lost(&self) -> Option<Lost> {
        match &self.failed {
            Some(reason) => Some(Lost::Failed(reason.clone())),
            None => self.is_over.then_some(Lost::Closed),
        }
    }

    /// Sends a last message, unless part of an earlier one remains. The peer reads what is on its way, and then the end of the
    /// stream.
    pub(in super::super) fn close(&mut self, worker: &Worker, last: &Frame) {
        self.send(worker);
        if !self.sending.iter().any(|sending| sending.has_bytes) {
            // What UCX has not sent yet is sent before the engine ends.
            self.control.send(&Record::End(self.sent, Some(last.encode())));
            self.queue.clear();
            self.queued = 0;
        } else {
            // The worker has the sources that UCX does not return at once.
            self.discard();
            worker.close(&mut self.endpoint);
            self.sending.clear();
            self.sending_bytes = 0;
        }
        self.is_closed = true;
        self.control.shutdown();
    }

    /// Ends the stream, and starts to send what is on its way, unless the peer is lost.
    pub(in super::super) fn start_end(&mut self, worker: &Worker) -> Option<Transfer<()>> {
        self.send(worker);
        let is_lost = self.broken.is_some() || self.failed.is_some() || self.is_over;
        if !is_lost && !self.is_closed {
            self.control.send(&Record::End(self.sent, None));
        }
        self.control.shutdown();
        (self.sent > 0 && !is_lost).then(|| worker.flush(&self.endpoint))
    }

    /// Ends the connection.
    pub(in super::super) fn end(&mut self, worker: &Worker) {
        for Incoming { bytes, .. } in self.incoming.drain(..) {
            if let Bytes::Offered(Some(descriptor)) = bytes {
                worker.release(descriptor);
            }
        }
        worker.forget(&self.tokens[1]);
        worker.close(&mut self.endpoint);
        self.control.end();
    }
}
