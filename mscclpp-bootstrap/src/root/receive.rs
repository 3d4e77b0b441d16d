//! Reads frames from the ranks, and from rank 0's own outbox.

use std::time::Instant;

use super::{Phase, Root};
use crate::error::Error;
use crate::frame::Frame;

impl Root {
    /// Processes the frames of rank 0 itself.
    pub(super) fn serve_own_frames(&mut self, now: Instant) {
        let active_now = self.active_now();
        self.outbox.waker().clear();
        while let Some(frame) = self.outbox.take_if(|frame| self.has_room(frame)) {
            if let Frame::Leave { .. } = frame {
                self.leaving = Some(now);
            }
            match &mut self.phase {
                Phase::Connected(router) => {
                    let mut out = Vec::new();
                    router.route(0, frame, active_now, &mut out);
                    self.deliver(out);
                }
                // Before all ranks have joined, rank 0 can only abort or leave.
                _ => match frame {
                    Frame::Failed(error) => self.fail(error),
                    Frame::Leave { .. } => self.push_to_all(&frame),
                    _ => {}
                },
            }
        }
    }

    /// Reads and processes the frames of a rank.
    pub(super) fn serve_peer(&mut self, rank: u32, now: Instant) {
        let Some(peer) = &mut self.peers[rank as usize] else { return };
        peer.conn.flush();
        let open = if peer.held.is_some() { Ok(true) } else { peer.conn.read() };
        loop {
            let Some(peer) = &mut self.peers[rank as usize] else { return };
            let next = match peer.held.take() {
                Some(held) => {
                    // Its connection was not read meanwhile.
                    peer.conn.last_received = now;
                    Ok(Some(held))
                }
                None => peer.conn.next(),
            };
            let frame = match next {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(malformed) => {
                    let error = malformed.of(self.name(rank));
                    if let Some(peer) = self.peers[rank as usize].take() {
                        // The rank itself returns the same error as the others.
                        self.close_after(peer.conn, &Frame::Failed(error.clone()), now);
                    }
                    return self.fail(error);
                }
            };
            let has_room = self.has_room(&frame);
            let Some(peer) = &mut self.peers[rank as usize] else { return };
            match frame {
                Frame::LeaveAck => peer.leave_acked = true,
                Frame::FailureAck => peer.unacknowledged = peer.unacknowledged.saturating_sub(1),
                Frame::Heartbeat => {}
                Frame::Inspected { id, reports } => self.observers.record(rank, id, reports),
                frame if !has_room => {
                    peer.held = Some(frame);
                    return;
                }
                frame => {
                    if let Frame::Leave { .. } = frame {
                        peer.left = true;
                        peer.conn.push(&Frame::LeaveAck);
                    }
                    self.route(rank, frame);
                }
            }
        }
        let how = match open {
            Ok(true) => return,
            Ok(false) => "its connection closed without a shutdown frame".to_owned(),
            Err(error) => format!("its connection failed: {error}"),
        };
        let left = self.peers[rank as usize].take().is_none_or(|peer| peer.left);
        if !left {
            self.lose(rank, Error::Died { who: Box::new(self.name(rank)), how });
        }
    }

    pub(super) fn route(&mut self, rank: u32, frame: Frame) {
        let active_now = self.active_now();
        match (&mut self.phase, frame) {
            // Rank 0 did not answer for so long that a rank does not wait for it any more.
            (_, Frame::Lost { rank: 0, error: error @ Error::Unresponsive { .. } }) => {
                self.fail(error.excluded(vec![rank]));
            }
            (Phase::Connected(router), frame) => {
                let mut out = Vec::new();
                router.route(rank, frame, active_now, &mut out);
                self.deliver(out);
            }
            (_, Frame::Failed(error)) => self.fail(error),
            (Phase::Joining, Frame::Leave { .. }) => {
                let who = Box::new(self.name(rank));
                self.fail(Error::Died { who, how: "it left before all ranks had joined".into() });
            }
            _ => {}
        }
    }
}
