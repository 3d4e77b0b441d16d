//! What happens because time passes.

use std::time::Instant;

use super::{Phase, Root};
use crate::error::Error;
use crate::frame::Frame;
use crate::tcp::GOODBYE;

impl Root {
    /// Deadlines and signs of life.
    pub(super) fn look_at_the_clock(&mut self, now: Instant) {
        let mut silent = None;
        for (rank, seat) in self.seats.iter_mut().enumerate() {
            let Some(seat) = seat else { continue };
            if self.pulse.is_due(seat.conn.spoke, now) {
                seat.conn.push(&Frame::Beat);
            }
            if let Some(time) = self.pulse.silence(seat.conn.heard, now).filter(|_| !seat.left) {
                silent.get_or_insert((rank as u32, time));
            }
        }
        if let Some((rank, silent)) = silent {
            let who = Box::new(self.name(rank));
            self.fail(Error::Silent { who, silent });
            // It is not missed a second time; if it wakes up, it finds out how the group ended.
            if let Some(seat) = &mut self.seats[rank as usize] {
                seat.left = true;
            }
        }
        let counted = self.counted();
        match &mut self.phase {
            Phase::Gathering if self.clock.remaining().is_zero() => {
                let missing = (0..self.ranks).filter(|rank| self.members[*rank as usize].is_none()).collect();
                let strangers = self.gate.turned_away().to_vec();
                self.fail(Error::Missing { missing, waited: self.options.deadline, strangers });
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
    pub(super) fn goes_on(&self, now: Instant) -> bool {
        let Some(since) = self.leaving else { return true };
        // Ranks that are still on their way are to hear what went wrong, instead of finding nobody.
        let told = match &self.phase {
            Phase::Failed(_) => self.members.iter().all(Option::is_some),
            _ => true,
        };
        let seen = self.seats.iter().flatten().all(|seat| seat.seen);
        let settled = (told && seen) || now >= since + GOODBYE;
        if settled {
            self.outbox.settle();
        }
        let failed = match &self.phase {
            Phase::Gathering | Phase::Failed(_) => true,
            Phase::Together(router) => router.has_failed(),
        };
        let alone = self.seats.iter().all(Option::is_none);
        !(settled && (failed || alone))
    }
}
