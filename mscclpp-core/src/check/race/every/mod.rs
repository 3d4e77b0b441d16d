//! PROOF
mod causal;
mod skewed;

use std::ops::Range;

pub(super) use causal::{Courses, Looped, looped, uneven_barriers};
pub(super) use skewed::Skewed;

use super::Races;
use super::cells::Access;
use super::clock::Clock;
use crate::check::model::Effect;
use crate::check::pairing::waits;
use crate::plan::OpKind;

impl Races<'_, '_> {
    /// Whether nothing is learned from the packets of a step, since it depends on the size how many of them there are.
    pub(super) fn is_mute(&self, step: usize) -> bool {
        self.model.size.proves() && self.model.in_loop(step)
    }

    /// An agent has done the last step of a loop, with the steps of its last iteration: what was waited for in the loop is known
    /// behind it, in whichever iteration it came.
    pub(super) fn leave_loop(&mut self, number: usize, steps: Range<usize>) {
        let model = self.model;
        let mut synced = false;
        for step in steps.rev() {
            let kind = model.step_at(step).kind;
            synced |= matches!(kind, OpKind::Nop | OpKind::Barrier);
            let words = match kind {
                OpKind::SemaphoreAcquire => &mut self.releases,
                _ if waits(kind) => &mut self.signals,
                _ => continue,
            };
            for (thread, &id) in (0..).zip(model.ids(step)) {
                let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
                words.leave_loop(id, (number as u32, thread), |thread, word| {
                    let relaxed = kind == OpKind::RelaxedWait || word.relaxed;
                    match synced {
                        true => agent.knows = clocks.join(agent.knows, word.knows, relaxed),
                        false => agent.hear(thread, word.knows, relaxed, clocks),
                    }
                });
            }
        }
    }

    /// Notes an access of a loop by `by`, in a step of the block `agent`. Returns an access that it meets in other iterations than its
    /// own and that nothing puts before or behind all of them; given what is known then, and how that counts agents.
    pub(super) fn meet_skewed(
        &mut self,
        (agent, by): (usize, usize),
        effect: &Effect,
        new: Access,
        (knows, away): (Clock, u32),
        epoch: u32,
    ) -> Option<Access> {
        let (packets, is_block) = (effect.packets(), by < self.blocks);
        // Who reads packets waits for them, if they are written once.
        let once = || !(new.atoms.0..new.atoms.1).any(|atom| self.rewritten.contains(&(atom as usize)));
        let waits = packets && is_block && !new.write && once();
        let (clocks, ring) = (&self.clocks, self.ring);
        let is_over = |old: &Access| {
            let agent = ring.moved(old.agent, away);
            match old.agent == new.agent {
                true => old.count < epoch,
                false if old.write && !packets => clocks.seen(knows, agent) > old.count,
                false => clocks.over(knows, agent) > old.count,
            }
        };
        self.skewed.add(self.model, (agent, by as u32), effect, new, is_over).filter(|_| !waits)
    }
}

#[cfg(test)]
mod tests;
