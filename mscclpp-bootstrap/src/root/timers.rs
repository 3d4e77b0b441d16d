//! Timeouts and heartbeats.

use std::time::Instant;

use super::{Phase, Root};
use crate::error::Error;
use crate::frame::Frame;
use crate::options::SHUTDOWN_TIMEOUT;

impl Root {
    /// Checks timeouts, and sends heartbeats.
    pub(super) fn check_timers(&mut self, now: Instant) {
        let mut silent = None;
        for (rank, peer) in self.peers.iter_mut().enumerate() {
            let Some(peer) = peer else { continue };
            if self.heartbeat.is_send_due(peer.conn.last_queued, now) {
                peer.conn.push(&Frame::Heartbeat);
            }
            if let Some(time) = self.heartbeat.silent_for(peer.conn.last_received, now).filter(|_| !peer.left) {
                silent.get_or_insert((rank as u32, time));
            }
        }
        if let Some((rank, silent)) = silent {
            let who = Box::new(self.name(rank));
            self.lose(rank, Error::Unresponsive { who, silent });
            // It is reported only once; if it continues, it reads how the communicator ended.
            if let Some(peer) = &mut self.peers[rank as usize] {
                peer.left = true;
            }
        }
        let active_now = self.active_now();
        match &mut self.phase {
            Phase::Joining if self.active_clock.remaining().is_zero() => {
                let missing = (0..self.ranks).filter(|rank| self.members[*rank as usize].is_none()).collect();
                let rejections = self.acceptor.rejections().to_vec();
                self.fail(Error::JoinTimeout { missing, waited: self.options.rendezvous_timeout, rejections });
            }
            Phase::Connected(router) => {
                let mut out = Vec::new();
                router.expire(active_now, &mut out);
                self.deliver(out);
            }
            _ => {}
        }
    }

    /// Returns the current time, as timeouts count it.
    pub(super) fn active_now(&self) -> Instant {
        self.started + self.active_clock.elapsed()
    }

    /// Returns whether rank 0 is still needed. After its shutdown frame it forwards frames until the other ranks have
    /// finished too, unless the communicator has failed.
    pub(super) fn must_keep_serving(&self, now: Instant) -> bool {
        let Some(since) = self.leaving else { return true };
        // Ranks that have not connected yet should read the reason of the failure instead of finding no listener.
        let all_notified = match &self.phase {
            Phase::Failed(_) => self.members.iter().all(Option::is_some),
            _ => true,
        };
        // An unresponsive rank may keep its connection open for any time.
        let is_needed = |rank: usize| match &self.phase {
            Phase::Connected(router) => !router.is_lost(rank as u32),
            _ => true,
        };
        let mut peers = (0..).zip(&self.peers).filter_map(|(rank, peer)| peer.as_ref().filter(|_| is_needed(rank)));
        let alone = peers.clone().next().is_none();
        let leave_acked = peers.all(|peer| peer.leave_acked) && self.closing.is_empty();
        let drained = (all_notified && leave_acked) || now >= since + SHUTDOWN_TIMEOUT;
        if drained {
            self.outbox.mark_drained();
        }
        let failed = match &self.phase {
            Phase::Joining | Phase::Failed(_) => true,
            Phase::Connected(router) => router.has_failed(),
        };
        !(drained && (failed || alone))
    }
}
