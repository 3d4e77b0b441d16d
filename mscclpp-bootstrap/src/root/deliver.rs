//! What goes to the ranks, and whether there is room for it.

use std::sync::Arc;

use super::{Phase, Root};
use crate::error::Error;
use crate::frame::{BODY_BYTES, Frame};
use crate::router::Delivery;

/// How many bytes may wait for one rank's connection before messages to it wait with their senders.
const FULL_BYTES: usize = 4 << 20;
/// Most bytes that may wait there, of what does not wait with its sender, before the rank counts as stuck; less in tests,
/// which then need not send as much.
const QUEUED_BYTES: usize = if cfg!(test) { 32 << 20 } else { 4 * BODY_BYTES };

impl Root {
    /// Whether a frame can be passed on, or has to wait because it is a message to a rank for which enough waits already.
    pub(super) fn has_room(&self, frame: &Frame) -> bool {
        let Frame::Message { to, .. } = frame else { return true };
        let Phase::Together(router) = &self.phase else { return true };
        let seat = self.peers.get(*to as usize).and_then(Option::as_ref);
        router.has_failed() || seat.is_none_or(|seat| seat.conn.queued() <= FULL_BYTES)
    }

    /// Whether something that waited for room has it.
    pub(super) fn could_go_on(&self) -> bool {
        let mut held = self.peers.iter().flatten().filter_map(|seat| seat.held.as_ref());
        held.any(|frame| self.has_room(frame)) || self.outbox.is_next(|frame| self.has_room(frame))
    }

    /// Hands out what the router says.
    pub(super) fn deliver(&mut self, out: Vec<Delivery>) {
        let mut failures = Vec::new();
        for Delivery { to, frame } in out {
            let bytes: Arc<[u8]> = frame.encode().into();
            for rank in to {
                let Some(seat) = &mut self.peers[rank as usize] else {
                    if rank == 0 {
                        failures.extend(self.inbox.deliver(frame.clone()));
                    }
                    continue;
                };
                seat.conn.push_bytes(bytes.clone());
                if seat.conn.queued() > QUEUED_BYTES {
                    self.peers[rank as usize] = None;
                    let (who, how) = (Box::new(self.name(rank)), "it does not read its messages".into());
                    failures.push(Error::Died { who, how });
                }
            }
        }
        // Only now: the others hear everything that was to be said.
        failures.into_iter().for_each(|error| self.fail(error));
    }

    pub(super) fn fail(&mut self, error: Error) {
        let mut out = Vec::new();
        match &mut self.phase {
            Phase::Together(router) => router.fail(error, &mut out),
            Phase::Gathering => {
                self.phase = Phase::Failed(error.clone());
                out.push(Delivery { to: (0..self.ranks).collect(), frame: Frame::Failed(error) });
            }
            Phase::Failed(_) => {}
        }
        self.deliver(out);
    }

    pub(super) fn push_to_all(&mut self, frame: &Frame) {
        let bytes: Arc<[u8]> = frame.encode().into();
        self.peers.iter_mut().flatten().for_each(|seat| seat.conn.push_bytes(bytes.clone()));
    }
}
