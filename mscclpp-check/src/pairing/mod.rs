//! Rule 3: every counter has equally many increments and decrements, at every message size. It proves that
//!
//! 1. a channel has as many signals as its partner has waits (M0201). Channel k from a to b of a kind is paired with
//!    channel k from b to a of that kind, in rank-level order; k counts the channels from a to b only;
//! 2. a semaphore is released as often as it is acquired, so that it ends at its initial value (M0207);
//! 3. the thread blocks of a barrier execute it the same number of times (M0205).
//!
//! An operation inside a loop is executed once per iteration, ⌈span × bytes of a chunk / unit⌉ times. These numbers are
//! equal at every size exactly if span per unit is, so the operations of one side in loops of some span per unit must
//! match those of the other side in loops of the same, whatever sizes the launches have. Counters persist between
//! launches, hence a surplus is a mistake even if no thread block waits for it.
//!
//! The rule would reject sides whose totals agree at every size though those of their loops do not one by one; no such
//! plans are known.

mod advice;
mod occurrence_count;
mod pairs;

use std::collections::BTreeMap;

use super::MAX_FINDINGS;
use super::place::{LocatedOp, each};
use super::view::View;
pub(super) use advice::order_of_creation;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics};
use mscclpp_plan::raw::{OpKind, PlanTree};
use occurrence_count::OccurrenceCount;
pub(super) use pairs::{Direction, Pairs};

pub(super) fn check(view: View, pairs: &Pairs) -> Diagnostics {
    let plan = view.plan;
    let mut channels: Vec<Sides> = Vec::new();
    channels.resize_with(pairs.counters(), Sides::default);
    let mut semaphores: BTreeMap<(usize, u32), Sides> = BTreeMap::new();
    let mut barriers: BTreeMap<(usize, u32), BTreeMap<usize, (OccurrenceCount, LocatedOp)>> = BTreeMap::new();
    each(view, &mut |at| {
        let (ids, kind) = (&at.op.ids, at.op.kind);
        if kind.signals() {
            for counter in ids.iter().copied().filter_map(pairs.outgoing(plan, &at)) {
                channels[counter].add(at, true);
            }
        } else if kind.waits() {
            for counter in ids.iter().copied().filter_map(pairs.incoming(plan, &at)) {
                channels[counter].add(at, false);
            }
        } else if kind.is_semaphore() {
            for &id in ids {
                semaphores.entry((at.rank, at.number(id))).or_default().add(at, kind == OpKind::SemaphoreRelease);
            }
        } else if kind == OpKind::Barrier {
            let blocks = barriers.entry((at.rank, at.number(ids[0]))).or_default();
            blocks.entry(at.block).or_insert((OccurrenceCount::default(), at)).0.add(&at);
        }
    });
    let mut found = Diagnostics::default();
    let unequal = channels.iter().enumerate().filter(|(_, sides)| sides.up != sides.down);
    for (counter, sides) in unequal.take(MAX_FINDINGS) {
        let direction = pairs.direction(counter);
        let help = advice::help(plan, pairs, &channels, &direction);
        found.extend(unmatched(plan, direction, sides, help));
    }
    let unequal = semaphores.iter().filter(|(_, sides)| sides.up != sides.down);
    for (&(rank, id), sides) in unequal.take(MAX_FINDINGS) {
        found.extend(unbalanced_semaphore(plan, rank, id, sides));
    }
    let mut out_of_step = barriers.iter().filter_map(|(&(_, id), blocks)| barrier_mismatch(plan, id, blocks));
    found.extend(out_of_step.by_ref().take(MAX_FINDINGS));
    found
}

/// Both sides of a counter, each with its first operation.
#[derive(Default)]
struct Sides<'p> {
    up: OccurrenceCount,
    down: OccurrenceCount,
    first_up: Option<LocatedOp<'p>>,
    first_down: Option<LocatedOp<'p>>,
}

impl<'p> Sides<'p> {
    fn add(&mut self, at: LocatedOp<'p>, up: bool) {
        let (times, first) =
            if up { (&mut self.up, &mut self.first_up) } else { (&mut self.down, &mut self.first_down) };
        times.add(&at);
        first.get_or_insert(at);
    }

    fn example(&self, up: &str, down: &str) -> String {
        example((&self.up, up), (&self.down, down))
    }
}

/// Returns a text such as "; for chunks of b bytes that is n of these and m of those", if the numbers alone do not show
/// that they differ.
fn example((one, these): (&OccurrenceCount, &str), (other, those): (&OccurrenceCount, &str)) -> String {
    let describe = |count: u128, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let in_loops = one.units().chain(other.units()).next().is_some();
    match one.differs_at(other) {
        Some(size) if in_loops => format!(
            "; for chunks of {} these are {} and {}",
            describe(size.into(), "byte"),
            describe(one.total(size), these),
            describe(other.total(size), those)
        ),
        _ => String::new(),
    }
}

fn unmatched(plan: &PlanTree, direction: Direction, sides: &Sides, help: String) -> Option<Diagnostic> {
    let Direction { from, to, kind, number } = direction;
    let message = format!(
        "rank {to} {} on its {kind} channel {number} to rank {from}, but rank {from} {} on its {kind} channel {number} to \
         rank {to}{}",
        sides.down.describe("", "waits"),
        sides.up.describe("", "signals"),
        sides.example("signal", "wait")
    );
    // The side that exists; if both do, the wait, which is the one that would deadlock.
    let at = sides.first_down.or(sides.first_up)?;
    let finding = Diagnostic::new(Code::UnmatchedWait, at.site(plan), message).help(help);
    Some(match sides.first_down.and(sides.first_up) {
        Some(other) => finding.note("a signal on the channel", other.site(plan)),
        None => finding,
    })
}

fn unbalanced_semaphore(plan: &PlanTree, rank: usize, id: u32, sides: &Sides) -> Option<Diagnostic> {
    let message = format!(
        "semaphore {id} of rank {rank} {}, but {}{}, so its value changes from launch to launch",
        sides.up.describe("is", "released"),
        sides.down.describe("is", "acquired"),
        sides.example("release", "acquire")
    );
    let at = sides.first_down.or(sides.first_up)?;
    let finding = Diagnostic::new(Code::UnbalancedSemaphore, at.site(plan), message)
        .help("release and acquire it the same number of times, in loops of equal unit and span");
    Some(match sides.first_down.and(sides.first_up) {
        Some(other) => finding.note("a release", other.site(plan)),
        None => finding,
    })
}

/// Returns the finding about thread blocks that do not execute a barrier the same number of times.
fn barrier_mismatch(
    plan: &PlanTree,
    id: u32,
    blocks: &BTreeMap<usize, (OccurrenceCount, LocatedOp)>,
) -> Option<Diagnostic> {
    let (one, (first, at)) = blocks.first_key_value()?;
    let (other, (times, place)) = blocks.iter().find(|(_, (times, _))| times != first)?;
    let message = format!(
        "thread block {one} reaches barrier {id} of rank {} {first}, but thread block {other} {times}{}",
        at.rank,
        example((first, "time"), (times, "time")),
    );
    let finding = Diagnostic::new(Code::BarrierMismatch, at.site(plan), message)
        .note(format!("thread block {other} reaches it"), place.site(plan))
        .help("let all thread blocks reach it the same number of times, in loops of equal unit and span");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::{Diagnostics, PlanTree};
    use crate::testing::plan;
    use mscclpp_plan::diag::Code;

    fn check(plan: &PlanTree) -> Diagnostics {
        super::check(plan.into(), &super::Pairs::of(plan))
    }

    #[track_caller]
    fn finding(ranks: &[&[&str]]) -> (Code, String) {
        let found = check(&plan(ranks));
        assert_eq!(found.len(), 1, "{found}");
        let first = found.iter().next().unwrap();
        (first.code, first.message.clone())
    }

    #[test]
    fn equal_counts_are_accepted() {
        for ranks in [
            [&["signal.m#0,1; wait.m#1"][..], &["wait.m#0; signal.m#1; wait.m#1"]],
            [&["rlxsignal.m#0; wait.p#0"], &["wait.m#0; pws.p#0 i0 > r0:0"]],
            [&["loop 64x1 { signal.m#0 }"], &["loop 128x2 { wait.m#0 }"]],
            [&["loop 64x2 { copy i0+2 > s0+2; sem_release#1 }", "loop 64x2 { sem_acquire#1 }"], &[""]],
        ] {
            assert_eq!(check(&plan(&ranks)), Default::default());
        }
    }

    #[test]
    fn wait_without_signal_is_found() {
        let (code, message) = finding(&[&["signal.m#0"], &["wait.m#0; wait.m#0"]]);
        assert_eq!(code, Code::UnmatchedWait);
        assert!(message.contains("waits twice"), "{message}");
    }

    #[test]
    fn totals_per_pair_of_ranks_are_not_enough() {
        let found = check(&plan(&[&["signal.m#0; wait.m#1"], &["signal.m#1; wait.m#1"]]));
        let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [Code::UnmatchedWait; 2], "{found}");
    }

    #[test]
    fn signal_without_wait_is_found() {
        let (code, message) = finding(&[&["signal.p#2"], &[""]]);
        assert_eq!(code, Code::UnmatchedWait);
        assert_eq!(
            message,
            "rank 1 never waits on its port channel 2 to rank 0, but rank 0 signals once on its port channel 2 to rank 1"
        );
    }

    #[test]
    fn loops_must_agree_at_every_size() {
        let (_, message) = finding(&[&["loop 64x1 { signal.m#0 }"], &["wait.m#0"]]);
        assert!(message.ends_with("for chunks of 128 bytes these are 2 signals and 1 wait"), "{message}");
        let (_, message) = finding(&[&["loop 64x1 { signal.m#0 }"], &["loop 32x1 { wait.m#0 }"]]);
        assert!(message.ends_with("for chunks of 128 bytes these are 2 signals and 4 waits"), "{message}");
        let (_, message) = finding(&[&["loop 64x1 { signal.m#0 }"], &[""]]);
        assert!(message.ends_with("for chunks of 1 byte these are 1 signal and 0 waits"), "{message}");
    }

    #[track_caller]
    fn help(plan: &PlanTree) -> String {
        check(plan).iter().next().unwrap().help.clone().unwrap()
    }

    #[test]
    fn help_names_the_cause() {
        let crossed = plan(&[&["signal.m#0"], &["wait.m#1"]]);
        let text = help(&crossed);
        assert!(text.contains("in the order of their creation") && text.contains("of a ring"), "{text}");
        let crossed = plan(&[&["signal.m#0"], &["wait.m#1"], &[""]]);
        assert!(help(&crossed).contains("with `memory_channel` to rank 0"), "{}", help(&crossed));
        let mut three = plan(&[&["signal.m#0; signal.m#0; wait.m#1"], &["wait.m#0; signal.m#0; wait.m#1"], &[""]]);
        for (rank, peer) in [(0, 1), (1, 0)] {
            three.ranks[rank].channels[0] = mscclpp_plan::raw::ChannelTable::Memory(vec![peer; 2]);
        }
        let text = help(&three);
        assert!(text.starts_with("match every wait"), "{text}");
        three.ranks[0].blocks[0].ops.remove(1);
        three.ranks[1].blocks[0].ops.truncate(2);
        let text = help(&three);
        assert!(text.ends_with("; create them in the same order on both ranks"), "{text}");

        let mut kinds = plan(&[&["signal.m#3"], &["wait.p#3"]]);
        kinds.ranks[0].channels[1] = mscclpp_plan::raw::ChannelTable::Port(vec![]);
        kinds.ranks[1].channels[0] = mscclpp_plan::raw::ChannelTable::Memory(vec![]);
        for rank in &mut kinds.ranks {
            rank.blocks[0].channels.retain(|(kind, _)| *kind != mscclpp_plan::types::ChannelKind::Switch);
        }
        let text = help(&kinds);
        assert!(text.contains("both ends of a channel have the same kind"), "{text}");
    }

    #[test]
    fn channel_without_partner_is_found() {
        let mut plan = plan(&[&["wait.m#3"], &[""]]);
        plan.ranks[1].channels[0] = mscclpp_plan::raw::ChannelTable::Memory(vec![0; 2]);
        plan.ranks[1].blocks[0].channels.clear();
        let found = check(&plan);
        assert!(
            found.iter().next().unwrap().message.starts_with("rank 0 waits once on its memory channel 3"),
            "{found}"
        );
    }

    #[test]
    fn blocks_must_execute_a_barrier_equally_often() {
        for blocks in [
            ["barrier#0=2; barrier#0=2", "barrier#0=2; nop; barrier#0=2"],
            ["loop 64x1 { barrier#0=2 }", "loop 128x2 { barrier#0=2 }"],
        ] {
            assert_eq!(check(&plan(&[&blocks])), Default::default());
        }
        let (code, message) = finding(&[&["barrier#0=2; barrier#0=2", "barrier#0=2"]]);
        assert_eq!(code, Code::BarrierMismatch);
        assert_eq!(message, "thread block 0 reaches barrier 0 of rank 0 twice, but thread block 1 once");
        let (_, message) = finding(&[&["loop 64x1 { barrier#0=2 }", "loop 80x1 { barrier#0=2 }"]]);
        assert!(message.ends_with("; for chunks of 160 bytes these are 3 times and 2 times"), "{message}");
    }

    #[test]
    fn semaphores_must_end_at_their_initial_value() {
        let (code, message) = finding(&[&["sem_release#2,2; sem_acquire#2"], &[""]]);
        assert_eq!(code, Code::UnbalancedSemaphore);
        assert_eq!(
            message,
            "semaphore 2 of rank 0 is released twice, but is acquired once, so its value changes from launch to launch"
        );
    }
}
