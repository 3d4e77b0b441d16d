//! Deadlocks, for every message size.
//!
//! Plans with loops behave differently at every size: a loop makes an iteration for every window. This part of rule 4
//! proves that every thread block runs to its end *whatever the size*, or finds the smallest size at which one does
//! not. It relies on no selection of sizes; credits that are released outside of loops, initial values, loops of
//! different span and unit, consecutive loops and messages without data are all part of the following argument.
//!
//! # What is executed
//!
//! The [rolled](rolled) plan: the signals and waits of each thread block, an operation of a loop once, and no data. Its
//! state is the position of every thread block, the value of every counter (a direction of a channel, a semaphore, the
//! windows of packets that one operation writes and another reads) and the remaining iterations of each loop.
//!
//! # Why one schedule is enough
//!
//! Whether a thread block can execute its next step depends on others by one of three conditions: a counter has been
//! raised at least n times, all thread blocks of a barrier have reached it at least n times, another thread block has
//! completed an operation. Once such a condition holds, it continues to hold: other thread blocks only make progress,
//! and none takes what this one needs. So, by induction over the steps of any schedule, a schedule that cannot be
//! extended contains every step of that schedule, and all maximal schedules end in the same state. If one of them
//! completes all do, and if one deadlocks all deadlock, at the same operations.
//!
//! The assumptions, and what guarantees them at every size:
//!
//! * *No thread block takes what another one needs.* Of the thread blocks that wait on one counter, all waits of one
//!   happen before those of another in every schedule, or there is only one. The race rule rejects other plans
//!   ([`Deadlock`](mscclpp_plan::diag::Code::Deadlock)), also where the initial value of a counter is so high that few
//!   iterations do not use it up.
//! * *A barrier has its thread blocks.* Rule `shape` requires the stated number of thread blocks, rule `pairing` that
//!   they execute it the same number of times.
//! * *Packets have been written before a port sends them.* A port does not wait for them; the race rule requires that
//!   they were written. A read of packets waits here for more than it has to ([`packets`]), which can only keep a
//!   schedule from completing.
//!
//! A thread that runs ahead of its block executes steps earlier than they are executed here, and the queue of a port
//! delays its triggers without blocking them: neither removes anything from a schedule that completes. Relaxed signals
//! count as others do.
//!
//! # Why one run is enough for many sizes
//!
//! Loops whose span per unit is equal make equally many iterations at every size; the [combinations](rates) of trip
//! counts that loops of several rates can have are listed, and repeat, so that they form *families*: T, T + g, T + 2g,
//! … with a vector g of gains. A [run](family) of the first member keeps counters and iterations as functions a + b m
//! of the member's number m.
//!
//! **Theorem.** *If the run completes, and all conditions that it recorded hold at m, then the plan completes at the
//! family's member m.* Proof. The run is a list of steps and cycles, with the number of repetitions k(m) of every
//! cycle. Expanded for m, this is a schedule of member m: after each entry of the list the positions are those of the
//! run, since a cycle ends at the positions at which it begins, and the counters and iterations are the values of the
//! functions. By induction each entry is possible. A step that takes from a counter is, as the remaining value was
//! recorded not to be negative at m. A loop is left with no iterations left, which was recorded to be so at m; as
//! iterations only become fewer, it had each one that it began. Of a cycle, the recorded conditions are k(m) ≥ 0, and
//! that each counter is not negative at its minimum: where a cycle changes it by e and its minimum is l above (or -l
//! below) its value at the beginning, repetition i begins at v + i e, so that the minimum is v + l if e ≥ 0, and v +
//! (k(m) - 1) e + l otherwise. Barriers and awaited operations depend on positions only. At the list's end all
//! positions are ends. ∎
//!
//! All conditions have the form a + b m ≥ 0 (or b = 0), so they hold from 0 up to some m, and the next run begins after
//! that one. Where the numbers of a cycle's repetitions are not integers at all members, every second, third, … member
//! forms its own family ([`proof`]). Conversely a run that deadlocks is an execution of a real size, including its
//! cycles, and families are executed in the order of their first members: the first one that deadlocks is the smallest
//! size that does. Neither depends on which cycles are found, which determines only the time; that is limited, and
//! plans that take longer are rejected.
//!
//! # Why launches may follow each other
//!
//! A rank starts a launch when its thread blocks have ended the previous one, whatever other ranks do. A launch that
//! completes leaves every counter at its initial value (rule `pairing`, at every size), so one launch after the other,
//! each on all ranks, is a complete schedule of any sequence of launches, whatever the sizes. Sequences satisfy the
//! conditions above, too: thread blocks that wait on one counter belong to one rank, so that the waits of its launches
//! are ordered. By the argument about schedules all others complete.

mod family;
mod packets;
mod proof;
pub(super) mod rolled;
#[cfg(test)]
mod tests;

use super::deadlock;
use super::machine::{AbstractMachine, Observer};
use super::model::{Model, Size};
use super::pairing::Pairs;
use super::place::{LocatedOp, each};
use super::shape;
use super::view::View;
use mscclpp_plan::diag::{Code, Diagnostic, Site};
use mscclpp_plan::raw::PlanTree;
use proof::{Proof, prove};
use rolled::Rolled;

/// The result of the analysis of loops.
pub(super) enum Verdict {
    /// Every thread block runs to its end at every size.
    Proved,
    /// Some thread blocks deadlock from some size on, or at some sizes only.
    Deadlock {
        finding: Diagnostic,
        /// Whether that is so at the smallest size, where the other rules find it as well.
        at_once: bool,
    },
    /// The analysis could not decide that for all sizes.
    Undecided(Diagnostic),
}

/// A property of a plan that prevents a result for all sizes.
pub(super) struct Obstacle<'p> {
    at: Option<LocatedOp<'p>>,
    message: String,
    help: String,
}

/// Maximum number of steps of an execution that finds the blocked thread blocks.
const MAX_STEPS: u128 = 1 << 18;

/// Decides whether a plan that the rules about shapes and pairs accept deadlocks.
pub(super) fn check(view: View, pairs: &Pairs) -> Verdict {
    let rolled = match Rolled::of(view, pairs) {
        Ok(None) => return Verdict::Proved,
        Ok(Some(rolled)) => rolled,
        Err(obstacle) => return Verdict::Undecided(undecided(view, obstacle)),
    };
    match prove(&rolled) {
        Proof::Completes(_) => Verdict::Proved,
        Proof::Deadlock { number, block, position } => {
            let at = rolled.placed(block as usize, position as usize);
            let size = rolled.trips.size(number).max(rolled.sizes.min);
            let at_once = size <= rolled.sizes.min.max(1);
            match finding(&rolled, pairs, size, at) {
                Some(finding) => Verdict::Deadlock { finding, at_once },
                // An operation that waits here for more than it has to.
                None => {
                    let message =
                        "packets are written more than once, or in other ranges than they are read".to_owned();
                    let help = "read packets in the ranges, slices and loops in which they are written".to_owned();
                    Verdict::Undecided(undecided(view, Obstacle { at, message, help }))
                }
            }
        }
        Proof::Undecided { number } => {
            let bytes = rolled.trips.size(number).saturating_sub(1).saturating_mul(rolled.sizes.grain);
            let trips = most_trips(&rolled, rolled.trips.size(number).saturating_sub(1), None);
            let message = format!(
                "its loops were analyzed for chunks of up to {bytes} bytes, or up to {trips} iterations, and their \
                 waits do not become periodic"
            );
            let help = format!(
                "give loops that wait for each other equal units, spans and numbers of waits, or limit \
                 `message_size` so that chunks have at most {bytes} bytes"
            );
            let at = rolled.loops.first().and_then(|body| rolled.placed(body.block as usize, body.begin as usize));
            Verdict::Undecided(undecided(view, Obstacle { at, message, help }))
        }
    }
}

/// Returns the numbers of runs and actions of the proof that the loops of a plan let every thread block run to its end,
/// at every size. `None` if that is not so, or not decided; no runs if no loop affects it.
#[doc(hidden)]
pub fn proof_effort(plan: &PlanTree) -> Option<(u64, u64)> {
    if !shape::check(plan.into()).is_empty() {
        return None;
    }
    match Rolled::of(plan.into(), &Pairs::of(plan)).ok()?.map(|rolled| prove(&rolled)) {
        None => Some((0, 0)),
        Some(Proof::Completes(effort)) => Some((effort.runs, effort.steps)),
        Some(_) => None,
    }
}

fn undecided(view: View, Obstacle { at, message, help }: Obstacle) -> Diagnostic {
    let message = format!("cannot decide whether a thread block waits forever at some message size: {message}");
    Diagnostic::new(Code::Undecided, at.map_or(Site::None, |at| at.site(view.plan)), message).help(help)
}

/// Returns the trip count of the longest loop of a thread block, or of all.
fn most_trips(rolled: &Rolled, size: u64, block: Option<u32>) -> u128 {
    let loops = rolled.loops.iter().filter(|body| block.is_none_or(|block| block == body.block));
    loops.map(|body| rolled.trips.rates()[body.rate].trips(size)).max().unwrap_or(0)
}

/// Returns the finding about thread blocks that deadlock with chunks of the given number of grains, among them one at
/// an operation. `None` if none does.
fn finding(rolled: &Rolled, pairs: &Pairs, size: u64, at: Option<LocatedOp>) -> Option<Diagnostic> {
    let view = rolled.view;
    let mut steps = 0_u128;
    each(view, &mut |at| {
        let repeated = at.inside.and_then(|(_, pipeline)| pipeline.body.as_ref());
        let trips = repeated.map_or(1, |body| crate::rates::Rate::of(body, rolled.sizes.grain).trips(size));
        steps = steps.saturating_add(trips);
    });
    let model = (steps <= MAX_STEPS).then(|| Size::real(view, size, rolled.sizes.grain)).flatten();
    let mut finding = match model {
        Some(size) => {
            let model = Model::of(view, pairs, size);
            let mut machine = AbstractMachine::new(&model);
            machine.run(&mut NoObserver);
            deadlock::check(&machine)?
        }
        None => {
            let at = at?;
            let message = format!("{} ({}) waits forever", at.display_name(view.plan), at.agent());
            Diagnostic::new(Code::Deadlock, at.site(view.plan), message)
        }
    };
    finding.message += &match size {
        0 => ", for messages without data".to_owned(),
        _ => {
            let trips = most_trips(rolled, size, None);
            let before = (size - 1) * rolled.sizes.grain;
            let times = if trips == 1 { "iteration" } else { "iterations" };
            format!(", first with {trips} {times} of a loop, for chunks of more than {before} bytes")
        }
    };
    Some(finding)
}

/// An observer that does nothing.
struct NoObserver;

impl<'p> Observer<'p> for NoObserver {
    fn on_step(&mut self, _: &Model<'p>, _: usize, _: usize) {}

    fn on_barrier(&mut self, _: u32, _: &[usize]) {}
}

fn too_many_combinations<'p>(at: Option<LocatedOp<'p>>) -> Obstacle<'p> {
    let message = "the trip counts of loops with these units and spans have too many combinations before they repeat";
    let help = "use units and spans whose quotients have a small common multiple";
    Obstacle { at, message: message.to_owned(), help: help.to_owned() }
}
