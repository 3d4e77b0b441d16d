//! Deadlocks, for every size of a message.
//!
//! Plans with loops do something else at every size: a loop makes an iteration for every window. This part of rule 4 proves that
//! every thread block runs to its end *whatever the size*, or finds the smallest size at which one does not. It trusts no
//! selection of sizes; credits that are given outside of loops, initial values, loops of different span and unit, loops in a row
//! and messages without any data are all part of the argument, which follows.
//!
//! # What is run
//!
//! The [rolled](rolled) plan: of each thread block what it gives and waits for, an operation of a loop once, and no data. Its
//! state is the position of every thread block, the value of every counter (a direction of a channel, a semaphore, the windows of
//! packets that one operation writes and another reads) and the iterations that each loop has left.
//!
//! # Why one schedule is enough
//!
//! Whether a thread block can take its next step depends on others by one of three conditions: a counter has been raised at
//! least n times, all thread blocks of a barrier have come to it at least n times, another thread block is done with an
//! operation. Once such a condition holds it holds for good: other thread blocks only go on, and none takes what this one needs.
//! So, by induction over the steps of any schedule, a schedule that can go no further has done every step of that schedule,
//! and all schedules that go as far as they can end in the same state. If one of them completes all do, and if one gets stuck all
//! get stuck, at the same operations.
//!
//! What that takes, and who sees to it at every size:
//!
//! * *No thread block takes what another one needs.* Of the thread blocks that wait on one counter, all waits of one come before those of
//!   another in every schedule, or there is only one. The race rule refuses others
//!   ([`Deadlock`](crate::diag::Code::Deadlock)), also where a counter starts so high that few iterations do not use it up.
//! * *A barrier has its thread blocks.* Rule `shape` demands as many as it says, rule `pairing` that they come equally often.
//! * *Packets are there before a port sends them on.* A port does not wait for them; the race rule demands that they were written.
//!   Who reads packets waits here for more than it has to ([`packets`]), which can only keep a schedule from completing.
//!
//! A thread that runs ahead of its block does steps earlier than they are done here, and a port's queue delays
//! what it is given without holding it back: neither takes anything away from a schedule that completes. Signals that make
//! nothing visible count as others do.
//!
//! # Why one run is enough for many sizes
//!
//! Loops whose span per unit is equal make equally many iterations at every size; the [combinations](rates) of trip counts that
//! loops of several rates can have are listed, and repeat, so that they fall into *families*: T, T + g, T + 2g, … with a vector g of
//! gains. A [run](family) of the first member keeps counters and iterations as functions a + b m of the member's number m.
//!
//! **Theorem.** *If the run completes, and all conditions that it noted hold at m, then the plan completes at the family's member
//! m.* Proof. The run is a list of steps and cycles, and says of every cycle how often it is repeated, k(m) times. Spelled out
//! for m this is a schedule of member m: after each entry of the list the positions are those of the run, since a
//! cycle ends where it begins, and the counters and iterations are what the functions say. By induction each entry is possible. A
//! step that takes from a counter can, as what is left there was noted not to be negative at m. A loop is left with no iterations
//! left, which was noted to be so at m; as iterations only become fewer, it had each one that it began. Of a cycle, noted are
//! k(m) ≥ 0, and that each counter is not negative at its lowest: where a cycle changes it by e and lets it get as low as l above (or -l below)
//! its value at the beginning, repetition i begins at v + i e, so that the lowest is v + l if e ≥ 0, and v + (k(m) - 1) e + l else.
//! Barriers and awaited operations depend on positions only. At the list's end all positions are ends. ∎
//!
//! All conditions have the form a + b m ≥ 0 (or b = 0), so they hold from 0 up to some m, and the next run begins behind that one. Where a
//! cycle's repetitions are no whole numbers at all members, every second, third, … member makes a family of its own ([`proof`]).
//! Conversely a run that gets stuck is a run of a real size, cycles and all, and families are looked at in the order of their
//! first members: the first one that gets stuck is the smallest size that does. Neither depends on which cycles are found, which
//! only decides about the time; that is limited, and what takes longer is refused.
//!
//! # Why launches may follow each other
//!
//! A rank begins a launch when its thread blocks are done with the one before, whatever other ranks do. A launch that completes leaves
//! every counter as it found it (rule `pairing`, at every size), so one launch after the other, each on all ranks, is a complete
//! schedule of any sequence of launches, whatever the sizes. The conditions above are met by sequences, too: thread blocks that
//! wait on one counter belong to one rank, so that its launches set their waits apart. By the argument about schedules all others complete.

mod family;
mod packets;
mod proof;
pub(super) mod rates;
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
use crate::diag::{Code, Diagnostic, Site};
use crate::plan::PlanTree;
use proof::{Proof, prove};
use rolled::Rolled;

/// What is found of loops.
pub(super) enum Verdict {
    /// Every thread block runs to its end at every size.
    Proved,
    /// Some thread blocks deadlock from some size on, or at some sizes only.
    Deadlock {
        finding: Diagnostic,
        /// Whether that is so at the smallest size, where every other look at the plan tells it as well.
        at_once: bool,
    },
    /// That could not be decided for all sizes.
    Undecided(Diagnostic),
}

/// What stands in the way of a verdict for all sizes.
pub(super) struct Obstacle<'p> {
    at: Option<LocatedOp<'p>>,
    message: String,
    help: String,
}

/// Steps of a run that is made to tell what is stuck.
const MAX_STEPS: u128 = 1 << 18;

/// Decides about the deadlocks of a plan that the rules about shapes and pairs accept.
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
                // What waits here for more than it has to.
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

/// Runs and actions in which it is proved that the loops of a plan let every thread block run to its end, at every size. `None` if
/// that is not so, or not decided; no runs where loops have no part in it.
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

/// Iterations of the longest loop of a thread block, or of all.
fn most_trips(rolled: &Rolled, size: u64, block: Option<u32>) -> u128 {
    let loops = rolled.loops.iter().filter(|body| block.is_none_or(|block| block == body.block));
    loops.map(|body| rolled.trips.rates()[body.rate].trips(size)).max().unwrap_or(0)
}

/// The finding about thread blocks that wait for ever for chunks of so many grains, among them one at an operation. `None` if
/// none does.
fn finding(rolled: &Rolled, pairs: &Pairs, size: u64, at: Option<LocatedOp>) -> Option<Diagnostic> {
    let view = rolled.view;
    let mut steps = 0_u128;
    each(view, &mut |at| {
        let repeated = at.inside.and_then(|(_, pipeline)| pipeline.body.as_ref());
        let trips = repeated.map_or(1, |body| rates::Rate::of(body, rolled.sizes.grain).trips(size));
        steps = steps.saturating_add(trips);
    });
    let model = (steps <= MAX_STEPS).then(|| Size::real(view, size, rolled.sizes.grain)).flatten();
    let mut finding = match model {
        Some(size) => {
            let model = Model::of(view, pairs, size);
            let mut machine = AbstractMachine::new(&model);
            machine.run(&mut Nobody);
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

/// Looks away.
struct Nobody;

impl<'p> Observer<'p> for Nobody {
    fn on_step(&mut self, _: &Model<'p>, _: usize, _: usize) {}

    fn on_barrier(&mut self, _: u32, _: &[usize]) {}
}

fn too_many_combinations<'p>(at: Option<LocatedOp<'p>>) -> Obstacle<'p> {
    let message = "the trip counts of loops with these units and spans have too many combinations before they repeat";
    let help = "use units and spans whose quotients have a small common multiple";
    Obstacle { at, message: message.to_owned(), help: help.to_owned() }
}
