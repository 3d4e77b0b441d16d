//! Every number of iterations, proved from one iteration of every loop, and from two.
//!
//! An **insertion** adds one iteration to every loop of one rate, at one position: before the nth iteration of each, or
//! after the last. Loops of one rate have equal trip counts at every message size, so every combination of trip counts
//! that a size can have results from one iteration of every loop by insertions, rate by rate. The **image** of an
//! operation after an insertion is the same operation, in the iteration in which it then is. An execution **proves** a
//! result if every insertion preserves everything by which it orders one access before another. These are
//!
//! 1. program order in a thread, the order of a port, and the order across block syncs: insertions preserve the order
//!    of operations;
//! 2. a clock that a wait acquires, if the transfer is *causal*: wherever an iteration is inserted, the wait's number
//!    grows by at least as much as the signal's number plus the numbers of signals of all other threads that signal on
//!    the counter ([`causal`]). A thread that has waited n times has received the first n − initial − (all signals of
//!    others) signals of each signaling thread, in every schedule; if that holds for the signal, it holds for the image
//!    of the signal and that of the wait. A wait for what a later iteration signals is not causal, nor is a wait inside
//!    of a loop for one of several threads that signal in loops. A clock that a wait must not acquire, the thread may
//!    acquire at the end of the loop: all iterations of the loop happen before that. Causal transfers remain causal,
//!    because an insertion moves both operations or only the later one. Where several threads use a counter one after
//!    the other, their signals count as those of one thread, and so do their waits ([`merged`]). A clock that a wait
//!    must not acquire because the wait is before the loop or in the previous iteration, the next iteration may acquire
//!    ([`begin_iteration`](RaceDetector::begin_iteration)): before its own waits, a thread has waited as often as it had
//!    before the loop and in all earlier iterations, which an insertion before the iteration increases and one after it
//!    does not, as if the wait were in the iteration. All threads of the block acquire it if a block sync follows their
//!    last wait, in the previous iteration and before the loop, or in the iteration;
//! 3. a barrier, if all its thread blocks execute it at the same positions of loops of the same rates: then the nth
//!    execution by one block is the nth execution by the others, and remains so. At other barriers, blocks acquire from
//!    each other the clocks that are causal ([`barriers`]);
//! 4. packets that are read outside of loops, or in equal windows, or all windows at once after a loop, if no slice has
//!    empty windows: then the packets of window i are read in iteration i. If one operation outside of loops writes
//!    packets, the iterations of a loop each read a part, provided that the operation writes at least all of their
//!    windows: they acquire what the readers of any of these packets do. In an iteration all windows are equally long;
//!    their lengths are not compared with those of other windows or with ranges outside of loops, since the message
//!    size decides ([`Windows`]). That a read waits for the packets that it reads holds at every size;
//! 5. that equal ranges are assigned to equal threads, if both are in loops with equal windows, or neither is in a
//!    loop.
//!
//! # Theorem
//!
//! *If executions that prove show no race with one iteration of every loop, nor with two iterations of the loops of one
//! rate and one of all others, for each rate, then there is no race with any number of iterations that a size can have,
//! and the results are correct.*
//!
//! Two conflicting accesses are of one of these kinds ([`skewed`]):
//!
//! * At most one of them is in a loop, or their rates differ. Remove all other iterations: the accesses are images of
//!   two accesses of the first execution, where windows are whole, so that these conflict as well, and are ordered. By
//!   1 to 5 the images are ordered, too.
//! * Both are in loops with equal windows: equal start, span, unit and slice. Then they are in the same iteration, and
//!   again images of accesses of the first execution.
//! * Both are in loops of one rate with different windows. Then each two iterations i and j whose windows may overlap
//!   at any size must be ordered, and they are images of two of the first two iterations. If one operand begins and
//!   ends no sooner than the other one, windows of its iteration i overlap only those of iterations j ≥ i, whatever the
//!   size: with spans s and t, starts a and b in chunks, T iterations and u of them per chunk and span, u > T − 1,
//!   window i begins at a·u + (i − 1)·s and window j ends at b·u + j·t at most; for i > j and t ≤ s that is no more
//!   than the begin of window i, since a ≥ b; and for t > s because a − b ≥ t − s and j ≤ T − 1 < u.
//!
//! A pair of waits on one counter (M0208) is a pair of iterations, too, and is ordered in one of these executions.
//!
//! *Results.* Each element of an operand is in one window. The order in which two operations access an element is the
//! same for all elements and sizes, since it is the order of their images: for equal windows and for one access outside
//! of loops directly; for others because all iterations of one that may overlap an iteration of the other are required
//! to happen before it, or all after it. So each element is accessed by the operations that the first execution shows,
//! in that order, and holds the same symbol.
//!
//! *Slices.* The bounds of slices depend on the size, but the order of accesses does not; which slices may overlap is
//! computed for all sizes, and the uneven sizes are executed with one iteration of every loop, too.
//!
//! *Launches.* Only the start and the end of a rank's launch order accesses of two launches. Both are outside of loops,
//! so insertions may differ from launch to launch, and the first execution shows what holds for all.
//!
//! *Completion* is proved by another rule ([`loops`](super::super::loops)): a plan may have no race with any number of
//! iterations, and still deadlock at some. The theorem does not require that messages of the small sizes exist:
//! insertion only compares orders.
//!
//! # Plans that are rejected though they could not fail
//!
//! Plans whose order holds for a reason that depends on the number of iterations: by signals of later iterations to a
//! wait inside of a loop; by signals of the first iteration to a wait before the loop, if that wait is used there
//! already; by packets of loops; by the order of windows where two loops overtake each other; by the order in which
//! several threads use a counter in loops of one rate. [`search`](super::super::search) then searches for a size with a
//! mistake, and reports if it finds none.

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
use super::release_queues::ReleaseQueues;
use super::shadow_memory::RecordedAccess;
use crate::model::Access;
use mscclpp_plan::raw::OpKind;

/// Which windows a reader of packets reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    /// Those that were written in the iteration of the same number; or there are no windows.
    Same,
    /// Those of all iterations.
    All,
    /// The window of the iteration, of packets that one operation outside of loops wrote.
    Part,
    /// It depends on the size.
    Unknown,
}

impl RaceDetector<'_, '_> {
    /// Returns whether a step belongs to a loop and the execution proves a result.
    pub(super) fn is_window(&self, step: usize) -> bool {
        self.model.size.proves() && self.model.in_loop(step)
    }

    /// Returns whether the packets of a step release no clock: which windows of its slice are empty depends on the
    /// size.
    pub(super) fn has_unknown_windows(&self, agent: usize, step: usize) -> bool {
        self.is_window(step) && self.model.op(agent, step).slice.is_some()
    }

    /// Returns whether all iterations of a step's loop read packets that an access outside of loops wrote at once,
    /// however many there are: the access wrote all of a range, and the range holds the windows of all iterations, none
    /// of which is empty.
    fn is_window_of(&self, by: usize, step: usize, old: &RecordedAccess) -> bool {
        let model = self.model;
        let is_whole = |agent, step| model.op(agent, step).slice.is_none();
        let writer = old.step as usize;
        let mut reads = model.effects(step).iter().filter(|effect| !effect.write && effect.packets());
        let covers = |effect: &Access| {
            // A window in another buffer is not between the two ends.
            let (first, end) = (old.atoms.0 as usize, old.atoms.1 as usize);
            let written = first < end && (first..end).contains(&effect.atoms().start);
            let (from, to) = (model.atoms.range(first).start, model.atoms.range(end.max(1) - 1).end);
            let windows = model.windows(by, step, effect);
            written && windows.is_some_and(|windows| from <= windows.start && windows.end <= to)
        };
        is_whole(by, step) && is_whole(model.agent_of(writer), writer) && reads.any(covers)
    }

    /// Returns which windows a block reads in a step, of packets that an access wrote.
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
                let alike = same
                    && !self.has_unknown_windows(by, step)
                    && shape(by, step) == shape(model.agent_of(writer), writer);
                if alike { Windows::Same } else { Windows::Unknown }
            }
        }
    }

    /// Ends a loop of an agent, given the steps of its last iteration: what its waits in the loop acquire in some
    /// iteration, the agent has acquired after the loop.
    pub(super) fn end_loop(&mut self, number: usize, steps: Range<usize>) {
        let model = self.model;
        let mut synced = false;
        for step in steps.rev() {
            let kind = model.step_at(step).kind;
            synced |= kind.is_block_sync();
            if kind == OpKind::Barrier {
                self.acquire_at_barrier(model.ids(step)[0], number, Stand::AfterLoop);
                continue;
            }
            let Some(released_clocks) = acquired(kind, &mut self.signals, &mut self.releases) else { continue };
            for (thread, &id) in (0..).zip(model.ids(step)) {
                let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
                released_clocks.end_loop(id, (number as u32, thread), |thread, released| {
                    let relaxed = kind.is_relaxed() || released.relaxed;
                    match synced {
                        true => agent.clock = clocks.join(agent.clock, released.clock, relaxed),
                        false => agent.acquire(thread, released.clock, relaxed, clocks),
                    }
                });
            }
        }
    }

    /// Begins an iteration of a loop if the agent's next step is the loop's first operation. If a block sync follows
    /// the last wait of its threads, in the previous iteration or before the loop, they acquire what all waits so far
    /// release.
    pub(super) fn begin_iteration(&mut self, number: usize, step: usize) {
        let model = self.model;
        if model.place_of(step).1 != 1 {
            return;
        }
        let Some((_, body)) = model.loop_of(number, step) else { return };
        let steps = step..step + body.ops.len();
        // A block at a barrier in the first step acquires the clocks of the others there.
        for barrier in steps.clone().skip(1).filter(|step| model.step_at(*step).kind == OpKind::Barrier) {
            self.acquire_at_barrier(model.ids(barrier)[0], number, Stand::Ahead);
        }
        let kinds = || steps.clone().map(|step| model.step_at(step).kind);
        let meets = kinds().rposition(OpKind::is_block_sync);
        let last = kinds().rposition(OpKind::acquires);
        let agent = &self.agents[number];
        if last.is_some() && meets > last && agent.waited <= agent.last_sync {
            self.acquire_ahead(number, steps);
        }
    }

    /// Synchronizes the threads of an agent in an iteration. If this is the first block sync and no thread has waited
    /// in the iteration before it, they acquire what all waits so far release.
    pub(super) fn sync_in_iteration(&mut self, number: usize, step: usize) {
        let model = self.model;
        let Some((_, body)) = model.loop_of(number, step) else { return };
        let first = step + 1 - model.place_of(step).1 as usize;
        let meets = |kind: OpKind| kind.is_block_sync() || kind.acquires();
        if !(first..step).rev().any(|step| meets(model.step_at(step).kind)) {
            self.acquire_ahead(number, first..first + body.ops.len());
        }
    }

    /// All threads of an agent acquire what its waits before an iteration with these steps release; none of these steps
    /// has been a wait.
    fn acquire_ahead(&mut self, number: usize, steps: Range<usize>) {
        let model = self.model;
        let relaxed = steps.clone().any(|step| model.step_at(step).kind == OpKind::RelaxedWait);
        for step in steps {
            let kind = model.step_at(step).kind;
            let Some(released_clocks) = acquired(kind, &mut self.signals, &mut self.releases) else { continue };
            let (agent, clocks) = (&mut self.agents[number], &mut self.clocks);
            for &id in model.ids(step) {
                released_clocks.acquire_ahead(id, number as u32, |released| {
                    agent.clock = clocks.join(agent.clock, released.clock, relaxed || released.relaxed);
                });
            }
        }
    }

    /// Records an access of a loop by `by`, in a step of the block `agent`. Returns an access that it overlaps in other
    /// iterations than its own and that is ordered neither before nor after all of them, given the current clock and
    /// the rotation of its agents.
    pub(super) fn check_skewed(
        &mut self,
        (agent, by): (usize, usize),
        effect: &Access,
        new: RecordedAccess,
        (clock, away): (VectorClock, u32),
        epoch: u32,
    ) -> Option<RecordedAccess> {
        if self.skewed.is_empty() {
            return None;
        }
        let (packets, is_block) = (effect.packets(), by < self.blocks);
        // A read of packets waits for them, if they are written once.
        let once = || !(new.atoms.0..new.atoms.1).any(|atom| self.rewritten.contains(&(atom as usize)));
        let waits = packets && is_block && !new.write && once();
        let (clocks, ring) = (&self.clocks, self.ring);
        let is_over = |old: &RecordedAccess| {
            let agent = ring.moved(old.agent, away);
            match old.agent == new.agent {
                true => old.count < epoch,
                false if old.write && !packets => clocks.visible(clock, agent) > old.count,
                false => clocks.ordered(clock, agent) > old.count,
            }
        };
        self.skewed.add(self.model, (agent, by as u32), effect, new, is_over).filter(|_| !waits)
    }
}

/// Returns the queues from which an operation acquires clocks.
fn acquired<'q>(
    kind: OpKind,
    signals: &'q mut ReleaseQueues,
    releases: &'q mut ReleaseQueues,
) -> Option<&'q mut ReleaseQueues> {
    kind.acquires().then_some(if kind.waits() { signals } else { releases })
}

#[cfg(test)]
mod tests;
