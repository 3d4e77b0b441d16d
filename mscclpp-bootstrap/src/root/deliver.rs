//! Delivers frames to the ranks, if there is room for them.

use std::time::Instant;

use super::{PeerState, Phase, Root};
use crate::conn::Conn;
use crate::error::Error;
use crate::failure_times::ACKNOWLEDGEMENT_TIME;
use crate::frame::{BODY_BYTES, Frame};
use crate::options::SHUTDOWN_TIMEOUT;
use crate::router::Delivery;

/// Number of bytes queued for one rank's connection above which messages to it wait with their senders.
const MAX_UNHELD_BYTES: usize = 4 << 20;
/// Maximum number of queued bytes of frames that do not wait with their sender, after which the rank counts as stuck.
/// Less in tests, which then need to send less.
const MAX_QUEUED_BYTES: usize = if cfg!(test) { 32 << 20 } else { 4 * BODY_BYTES };

impl Root {
    /// Returns whether a frame can be forwarded. If not, it is a message to a rank with too many queued bytes, and has
    /// to wait.
    pub(super) fn has_room(&self, frame: &Frame) -> bool {
        let Frame::Message { to, .. } = frame else { return true };
        let Phase::Connected(router) = &self.phase else { return true };
        let peer = self.peers.get(*to as usize).and_then(Option::as_ref);
        {
            let has_room = |peer: &PeerState| peer.conn.queued() <= MAX_UNHELD_BYTES;
            router.has_failed() || router.is_absent(*to) || peer.is_none_or(has_room)
        }
    }

    /// Returns whether a frame that waited for room can be sent now.
    pub(super) fn can_send_held(&self) -> bool {
        let mut held = self.peers.iter().flatten().filter_map(|peer| peer.held.as_ref());
        held.any(|frame| self.has_room(frame)) || self.outbox.is_next(|frame| self.has_room(frame))
    }

    /// Delivers the router's frames, to rank 0 itself after all others: its process may end as soon as its call returns, and what has not
    /// been sent by then is lost. It notices a failure only when the others have acknowledged it, because they would take rank 0 for the cause.
    pub(super) fn deliver(&mut self, out: Vec<Delivery>) {
        let (mut own, mut dead) = (Vec::new(), Vec::new());
        for Delivery { to, frame } in out {
            let mut encoded = None;
            for rank in to {
                let Some(peer) = &mut self.peers[rank as usize] else {
                    if rank == 0 && frame.is_failure() {
                        self.withheld.push_back((frame.clone(), Instant::now() + ACKNOWLEDGEMENT_TIME));
                    } else if rank == 0 {
                        own.push(frame.clone());
                    }
                    continue;
                };
                peer.unacknowledged += u32::from(frame.is_failure());
                peer.conn.push_encoded(encoded.get_or_insert_with(|| frame.encode()));
                if peer.conn.queued() > MAX_QUEUED_BYTES {
                    self.peers[rank as usize] = None;
                    let (who, how) = (Box::new(self.name(rank)), "it does not read its messages".into());
                    dead.push((rank, Error::Died { who, how }));
                }
            }
        }
        // Failures come last, so that the other ranks receive all earlier frames.
        dead.into_iter().for_each(|(rank, error)| self.lose(rank, error));
        for frame in own {
            if let Some(answer) = self.inbox.deliver(frame) {
                self.route(0, answer);
            }
        }
    }

    /// Lets rank 0 notice the failures that the other ranks have acknowledged, or whose time is over.
    pub(super) fn deliver_withheld(&mut self, is_over: impl Fn(Instant) -> bool) {
        let waits = self.peers.iter().flatten().any(|peer| peer.unacknowledged > 0 && !peer.left);
        while self.withheld.front().is_some_and(|(_, until)| !waits || is_over(*until)) {
            self.withheld.pop_front().map(|(frame, _)| self.inbox.deliver(frame));
        }
    }

    pub(super) fn fail(&mut self, error: Error) {
        let mut out = Vec::new();
        match &mut self.phase {
            Phase::Connected(router) => router.fail(error, &mut out),
            Phase::Joining => {
                self.phase = Phase::Failed(error.clone());
                out.push(Delivery { to: (0..self.ranks).collect(), frame: Frame::Failed(error) });
            }
            Phase::Failed(_) => {}
        }
        self.deliver(out);
    }

    /// Fails the communicators of a lost rank, or the rendezvous.
    pub(super) fn lose(&mut self, rank: u32, error: Error) {
        let (mut out, now) = (Vec::new(), self.active_now());
        match &mut self.phase {
            Phase::Connected(router) => router.lose(rank, error, now, &mut out),
            _ => return self.fail(error),
        }
        self.deliver(out);
    }

    pub(super) fn push_to_all(&mut self, frame: &Frame) {
        let encoded = frame.encode();
        self.peers.iter_mut().flatten().for_each(|peer| peer.conn.push_encoded(&encoded));
    }

    /// Closes a connection after a last frame. What arrives on it is not valid any more.
    pub(super) fn close_after(&mut self, mut conn: Conn, last: &Frame, now: Instant) {
        conn.push(last);
        self.closing.push((conn, now + SHUTDOWN_TIMEOUT));
    }

    /// Continues to close connections.
    pub(super) fn serve_closing(&mut self, now: Instant) {
        self.closing.retain_mut(|(conn, until)| conn.finish() && now < *until);
    }
}
