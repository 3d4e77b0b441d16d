//! What the ranks say, and rank 0 itself.

use std::time::Instant;

use super::{Phase, Root};
use crate::error::Error;
use crate::frame::Frame;

impl Root {
    /// What rank 0 itself has to say.
    pub(super) fn own(&mut self, now: Instant) {
        let counted = self.counted();
        self.outbox.waker().clear();
        while let Some(frame) = self.outbox.take_if(|frame| self.has_room(frame)) {
            if let Frame::Leave { .. } = frame {
                self.leaving = Some(now);
            }
            match &mut self.phase {
                Phase::Together(router) => {
                    let mut out = Vec::new();
                    router.route(0, frame, counted, &mut out);
                    self.deliver(out);
                }
                // Before all have come, all that rank 0 can say is that it gives up.
                _ => match frame {
                    Frame::Failed(error) => self.fail(error),
                    Frame::Leave { .. } => self.push_to_all(&frame),
                    _ => {}
                },
            }
        }
    }

    /// Listens to a rank.
    pub(super) fn hear(&mut self, rank: u32, now: Instant) {
        let Some(seat) = &mut self.peers[rank as usize] else { return };
        seat.conn.flush();
        let open = if seat.held.is_some() { Ok(true) } else { seat.conn.read() };
        loop {
            let Some(seat) = &mut self.peers[rank as usize] else { return };
            let next = match seat.held.take() {
                Some(held) => {
                    // Nobody has listened to it meanwhile.
                    seat.conn.heard = now;
                    Ok(Some(held))
                }
                None => seat.conn.next(),
            };
            let frame = match next {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(malformed) => {
                    let error = malformed.of(self.name(rank));
                    self.peers[rank as usize] = None;
                    return self.fail(error);
                }
            };
            let has_room = self.has_room(&frame);
            let Some(seat) = &mut self.peers[rank as usize] else { return };
            match frame {
                Frame::LeaveAck => seat.seen = true,
                Frame::Heartbeat => {}
                frame if !has_room => {
                    seat.held = Some(frame);
                    return;
                }
                frame => {
                    if let Frame::Leave { .. } = frame {
                        seat.left = true;
                        seat.conn.push(&Frame::LeaveAck);
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
        let left = self.peers[rank as usize].take().is_none_or(|seat| seat.left);
        if !left {
            self.fail(Error::Died { who: Box::new(self.name(rank)), how });
        }
    }

    fn route(&mut self, rank: u32, frame: Frame) {
        let counted = self.counted();
        match (&mut self.phase, frame) {
            (Phase::Together(router), frame) => {
                let mut out = Vec::new();
                router.route(rank, frame, counted, &mut out);
                self.deliver(out);
            }
            (_, Frame::Failed(error)) => self.fail(error),
            (Phase::Gathering, Frame::Leave { .. }) => {
                let who = Box::new(self.name(rank));
                self.fail(Error::Died { who, how: "it left before all ranks had joined".into() });
            }
            _ => {}
        }
    }
}
