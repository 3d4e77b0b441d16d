//! Every number of iterations: what one iteration of every loop shows, and two.
//!
//! An **insertion** puts one more iteration into every loop of one rate, at one place: before the nth iteration of each, or behind the
//! last. Loops of a rate make equally many iterations at every size, so every combination of iterations that a size brings about
//! comes from one iteration of every loop by insertions, rate by rate. An operation has an **image** behind an insertion: itself,
//! in the iteration that it is in then. A run **proves** something if all that it relies on to put one access before another is kept
//! by every insertion. That is the case for
//!
//! 1. the order in a thread, in a port, and across block syncs: insertions keep what stands before what;
//! 2. a word that a wait hears, if it is *causal*: wherever an iteration is inserted, the wait's number grows by at least as much as the
//!    signal's and those of all others who signal on the counter ([`causal`]). A waiter that has waited n times has got the first n −
//!    initial − (all signals of others) signals of each signaller, in every schedule; if that holds for the signal, it holds for the
//!    image of the signal and that of the wait. A wait for what a later iteration signals is not causal, nor is a wait inside of a
//!    loop for one of several who signal in loops. What a wait must not hear, whoever has left the loop may: all iterations of the
//!    loop come before that. Causal words keep being causal, because an insertion moves both or what is behind. Where several threads
//!    use a counter in turn, their signals count as those of one, and so do their waits ([`merged`]). What a wait must not hear since
//!    it stands before the loop or in the iteration before, the next iteration may ([`begin_iteration`](Races::begin_iteration)):
//!    before its own waits, a thread has waited as often as it had before the loop and in all iterations before, which an insertion
//!    before the iteration adds to and one behind it does not, as if the wait were in it. All threads of the block know that if they have
//!    met since their last wait, in the iteration before and before the loop, or in the iteration;
//! 3. a barrier, if all who come to it come at the same places of loops of the same rates: then the nth time of one is that of the
//!    others, and remains so. At others, blocks hear from each other what is causal ([`barriers`]);
//! 4. packets that are read where no loop is, or in equal windows, or all windows at once behind a loop, if no slice leaves windows
//!    empty: the packets of window i are read in iteration i then. Of packets that one operation outside of loops writes, the
//!    iterations of a loop each read a part if that operation writes at least all of their windows: they learn what the readers of
//!    any of these packets do. In an iteration all windows are equally long; with those
//!    of others and with ranges outside nothing is compared, since the size decides ([`Windows`]). That reads wait for the packets
//!    they read holds at every size;
//! 5. that equal ranges belong to equal threads, if both are in loops with equal windows, or none is in a loop.
//!
//! # Theorem
//!
//! *If runs that prove show no race with one iteration of every loop, and with two of those of one rate and one of all others, rate
//! by rate, then there is none with any number of iterations that a size brings about, and results are right.*
//!
//! Two accesses that collide are of one of these kinds ([`skewed`]):
//!
//! * One of them, at most, is in a loop, or their rates differ. Take away all other iterations: they are images of two accesses of the
//!   first run, where windows are whole, so that these collide as well, and are in order. By 1 to 5 so are the images.
//! * Both are in loops with equal windows: equal start, span, unit and slice. Then they are of the same iteration, and again
//!   images of accesses of the first run.
//! * Both are in loops of one rate with other windows. Then each two iterations i and j whose windows may meet at any size must be in
//!   order, and they are images of two of the first two iterations. If one reference begins and ends no sooner than the other one,
//!   windows of its iteration i meet only those of iterations j ≥ i, whatever the size: with spans s and t, starts a and b in chunks, T
//!   iterations and u of them per chunk and span, u > T − 1, window i begins at a·u + (i − 1)·s and window j ends at b·u + j·t at most; for i
//!   > j and t ≤ s that is no more than where i begins, since a ≥ b; and for t > s because a − b ≥ t − s and j ≤ T − 1 < u.
//!
//! A pair of waits for one counter (M0208) is a pair of iterations, too, and is in order in one of these runs.
//!
//! *Results.* Each element of a reference is in one window. In which order two operations touch an element is the same for
//! all elements and sizes, since it is the order of their images: for equal windows and for one access outside of loops at once; for
//! others because all iterations of one that may meet an iteration of the other are asked to come before it, or all behind it. So each
//! element sees the operations that the first run shows, in that order, and holds the same symbol.
//!
//! *Slices.* Where slices begin depends on the size, but the order of accesses does not; which slices may meet is asked for all sizes, and
//! the uneven sizes are run with one iteration of every loop, too.
//!
//! *Launches.* Nothing but the begin and the end of a rank's launch puts accesses of two launches in order. Both stand outside of
//! loops, so insertions may differ from launch to launch, and the first run shows what holds for all.
//!
//! *Completion* is another rule's ([`loops`](super::super::loops)): a plan may well have no race with any number of iterations, and
//! get stuck at some. It needs no small sizes that occur: insertion only compares orders.
//!
//! # What is refused though it could not fail
//!
//! Orders that hold for a reason that depends on the number of iterations: by what later iterations signal to a wait inside of a
//! loop, by what the first iteration signals to a wait before the loop, if that is used there already, by packets of loops, by the order of windows where two loops overtake each other, by the order in which several threads use a
//! counter in loops of one rate. [`search`](super::super::search)
//! then looks for a size with a mistake, and says so if it finds none.

mod barriers;
mod causal;
mod merged;
mod skewed;

use std::ops::Range;

pub(super) use barriers::UnevenBarriers;
pub(super) use causal::{Courses, Looped, Stand, looped};
pub(super) use merged::Merged;
pub(super) use skewed::Skewed;

use super::RaceDetector;
use super::clock::VectorClock;
use super::shadow_memory::RecordedAccess;
use crate::check::model::Access;
use crate::check::pairing::waits;
use crate::plan::OpKind;

/// Which windows a reader of packets reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// Those that were written in the iteration of its own number; or there are none.
    Same,
    /// Those of all iterations.
    All,
    /// The one of the iteration, of what was written at once.
    Part,
    /// It depends on the size.
    Unknown,
}

/// What a proof asks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) enum Demand {
    /// Words are causal.
    Causal,
    /// Several who signal on a counter do so in all iterations.
    Others,
    /// Barriers are even.
    Barriers,
    /// Equal ranges are equal windows.
    Mapping,
    /// Skewed windows meet in other iterations.
    Skewed,
    /// Two iterations.
    Twice,
}

/// Whether something is asked: always, but where a test shows what it is good for.
#[cfg(not(test))]
pub(in crate::check) const fn asks(_: Demand) -> bool {
    true
}

#[cfg(test)]
pub(in crate::check) fn asks(demand: Demand) -> bool {
    tests::WITHOUT.get() != Some(demand)
}

impl RaceDetector<'_, '_> {
    /// Whether a run proves something of a step that belongs to a loop.
    pub(super) fn is_window(&self, step: usize) -> bool {
        self.model.size.proves() && self.model.in_loop(step)
    }

    /// Whether nothing is learned from the packets of a step: it depends on the size which windows of a slice are empty.
    pub(super) fn is_mute(&self, agent: usize, step: usize) -> bool {
        self.is_window(step) && self.model.op(agent, step).slice.is_some()
    }

    /// Whether all iterations of a step's loop read packets that an access wrote at once outside of loops, however many there are: what
    /// it wrote is all of a range, and holds the windows of all iterations, none of which is empty.
    fn is_window_of(&self, by: usize, step: usize, old: &RecordedAccess) -> bool {
        let model = self.model;
        let is_whole = |agent, step| model.op(agent, step).slice.is_none();
        let writer = old.step as usize;
        let mut reads = model.effects(step).iter().filter(|effect| !effect.write && effect.packets());
        let covers = |effect: &Access| {
            // What lies in another memory is not between the two ends.
            let (first, end) = (old.atoms.0 as usize, old.atoms.1 as usize);
            let written = first < end && (first..end).contains(&effect.atoms().start);
            let (from, to) = (model.atoms.range(first).start, model.atoms.range(end.max(1) - 1).end);
            let windows = model.windows(by, step, effect);
            written && windows.is_some_and(|windows| from <= windows.start && windows.end <= to)
        };
        is_whole(by, step) && is_whole(model.agent_of(writer), writer) && reads.any(covers)
    }

    /// Which windows of packets that an access wrote a block reads in a step.
    pub(super) fn windows_of(&self, by: usize, step: usize, old: &RecordedAccess) -> Windows {
        let model = self.model;
        let writer = old.step as usize;
        match (self.is_window(writer), self.is_window(step)) {
            (false, false) => Windows::Same,
            (true, false) => Windows::All,
            (false, true) if self.is_window_of(by, step, old) => Windows::Part,
            (false, true) => Windows::Unknown,
            (true, true) => {
                let shape = |agent, step| model.loop_of(agent, step).map(|(_, body)| (body.unit, body.num_chunks));
                let same = model.effects(step).iter().any(|effect| {
                    !effect.write
                        && effect.packets()
                        && (effect.atoms().start as u32, effect.atoms().end as u32) == old.atoms
                });
                let alike = same && !self.is_mute(by, step) && shape(by, step) == shape(model.agent_of(writer), writer);
                if alike { Windows::Same } else { Windows::Unknown }
            }
        }
    }

    /// An agent has done the last step of a loop, with the steps of its last iteration: what was waited for in the loop is known
    /// behind it, in whichever iteration it came.
    pub(super) fn leave_loop(&mut self, number: usize, steps: Range<usize>) {
        let model = self.model;
        let mut synced = false;
        for step in steps.rev() {
            let kind = model.step_at(step).kind;
            synced |= matches!(kind, OpKind::Nop | OpKind::Barrier);
            if kind == OpKind::Barrier {
                self.hear_at_barrier(model.ids(step)[0], number, Stand::Behind);
                continue;
            }
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
                        false => agent.acquire(thread, word.knows, relaxed, clocks),
                    }
                });
            }
        }
    }

    /// An agent begins an iteration of a loop if it has the step of its first operation ahead. If its threads have met since
    /// their last wait, be that in the iteration before or before the loop, they know what all waits up to there tell.
    pub(super) fn begin_iteration(&mut self, number: usize, step: usize) {
        let model = self.model;
        if model.place_of(step).1 != 1 {
            return;
        }
        let Some((_, body)) = model.loop_of(number, step) else { return };
        let steps = step..step + body.ops.len();
        // Who comes to a barrier in the first step has heard of the others there.
        for barrier in steps.clone().skip(1).filter(|step| model.step_at(*step).kind == OpKind::Barrier) {
            self.hear_at_barrier(model.ids(barrier)[0], number, Stand::Ahead);
        }
        let kinds = || steps.clone().map(|step| model.step_at(step).kind);
        let meets = kinds().rposition(|kind| matches!(kind, OpKind::Nop | OpKind::Barrier));
        let last = kinds().rposition(|kind| waits(kind) || kind == OpKind::SemaphoreAcquire);
        let agent = &self.agents[number];
        if last.is_some() && meets > last && agent.waited <= agent.last_sync {
            self.look_ahead(number, steps);
        }
    }

    /// The threads of an agent have met in an iteration. If that is the first such place and none has waited in the iteration before,
    /// they know what all waits up to there tell.
    pub(super) fn meet_in_iteration(&mut self, number: usize, step: usize) {
        let model = self.model;
        let Some((_, body)) = model.loop_of(number, step) else { return };
        let first = step + 1 - model.place_of(step).1 as usize;
        let meets = |kind| matches!(kind, OpKind::Nop | OpKind::Barrier | OpKind::SemaphoreAcquire) || waits(kind);
        if !(first..step).rev().any(|step| meets(model.step_at(step).kind)) {
            self.look_ahead(number, first..first + body.ops.len());
        }
    }

    /// All threads of an agent know what it has waited for up to an iteration with these steps, in none of which it has waited.
    fn look_ahead(&mut self, number: usize, steps: Range<usize>) {
        let model = self.model;
        let relaxed = steps.clone().any(|step| model.step_at(step).kind == OpKind::RelaxedWait);
        for step in steps {
            let words = match model.step_at(step).kind {
                OpKind::SemaphoreAcquire => &mut self.releases,
                kind if waits(kind) => &mut self.signals,
                _ => continue,
            };
            let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
            for &id in model.ids(step) {
                words.look_ahead(id, number as u32, |word| {
                    agent.knows = clocks.join(agent.knows, word.knows, relaxed || word.relaxed);
                });
            }
        }
    }

    /// Notes an access of a loop by `by`, in a step of the block `agent`. Returns an access that it meets in other iterations than its
    /// own and that nothing puts before or behind all of them; given what is known then, and how that counts agents.
    pub(super) fn meet_skewed(
        &mut self,
        (agent, by): (usize, usize),
        effect: &Access,
        new: RecordedAccess,
        (knows, away): (VectorClock, u32),
        epoch: u32,
    ) -> Option<RecordedAccess> {
        if self.skewed.is_empty() {
            return None;
        }
        let (packets, is_block) = (effect.packets(), by < self.blocks);
        // Who reads packets waits for them, if they are written once.
        let once = || !(new.atoms.0..new.atoms.1).any(|atom| self.rewritten.contains(&(atom as usize)));
        let waits = packets && is_block && !new.write && once();
        let (clocks, ring) = (&self.clocks, self.ring);
        let is_over = |old: &RecordedAccess| {
            let agent = ring.moved(old.agent, away);
            match old.agent == new.agent {
                true => old.count < epoch,
                false if old.write && !packets => clocks.visible(knows, agent) > old.count,
                false => clocks.ordered(knows, agent) > old.count,
            }
        };
        self.skewed.add(self.model, (agent, by as u32), effect, new, is_over).filter(|_| !waits)
    }
}

#[cfg(test)]
mod tests;
