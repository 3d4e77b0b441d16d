//! What happens because time passes.

use std::time::Instant;

use super::{Phase, Root};
use crate::error::Error;
use crate::frame::Frame;
use crate::tcp::SHUTDOWN_TIMEOUT;

impl Root {
    /// Deadlines and signs of life.
    pub(super) fn check_timers(&mut self, now: Instant) {
        let mut silent = None;
        for (rank, seat) in self.peers.iter_mut().enumerate() {
            let Some(seat) = seat else { continue };
            if self.heartbeat.is_send_due(seat.conn.spoke, now) {
                seat.conn.push(&Frame::Heartbeat);
            }
            if let Some(time) = self.heartbeat.silence(seat.conn.heard, now).filter(|_| !seat.left) {
                silent.get_or_insert((rank as u32, time));
            }
        }
        if let Some((rank, silent)) = silent {
            let who = Box::new(self.name(rank));
            self.fail(Error::Unresponsive { who, silent });
            // It is not missed a second time; if it wakes up, it finds out how the group ended.
            if let Some(seat) = &mut self.peers[rank as usize] {
                seat.left = true;
            }
        }
        let counted = self.counted();
        match &mut self.phase {
            Phase::Gathering if self.clock.remaining().is_zero() => {
                let missing = (0..self.ranks).filter(|rank| self.members[*rank as usize].is_none()).collect();
                let rejections = self.acceptor.rejections().to_vec();
                self.fail(Error::JoinTimeout { missing, waited: self.options.timeout, rejections });
            }
            Phase::Together(router) => {
                let mut out = Vec::new();
                router.expire(counted, &mut out);
                self.deliver(out);
            }
            _ => {}
        }
    }

    /// Now, as deadlines count.
    pub(super) fn counted(&self) -> Instant {
        self.started + self.clock.elapsed()
    }

    /// Whether rank 0 is still needed. Once it has said goodbye, it passes on frames until the others are done too, unless
    /// the group has failed.
    pub(super) fn must_keep_serving(&self, now: Instant) -> bool {
        let Some(since) = self.leaving else { return true };
        // Ranks that are still on their way are to hear what went wrong, instead of finding nobody.
        let told = match &self.phase {
            Phase::Failed(_) => self.members.iter().all(Option::is_some),
            _ => true,
        };
        let seen = self.peers.iter().flatten().all(|seat| seat.seen);
        let settled = (told && seen) || now >= since + SHUTDOWN_TIMEOUT;
        if settled {
            self.outbox.settle();
        }
        let failed = match &self.phase {
            Phase::Gathering | Phase::Failed(_) => true,
            Phase::Together(router) => router.has_failed(),
        };
        let alone = self.peers.iter().all(Option::is_none);
        !(settled && (failed || alone))
    }
}
