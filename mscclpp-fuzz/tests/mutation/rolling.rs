//! Mutants of plans with loops, with one change or two, compared with executions at many sizes.
//!
//! A mutant that the checker accepts must run to its end at every number of iterations up to three times its credits
//! and initial units, and up to 64 at least ([`brute`](super::brute)), and must pass the fuzzer at a few of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use mscclpp_core::check::check;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_fuzz::{Outcome, ScheduleFuzzer};

use super::brute::Brute;
use super::mutants::{Mutation, apply, mutations, op_at};
use super::tally::{MutantOutcome, Tally};
use super::{Random, bases, number, reasons};

/// Trip count up to which every number is tried.
const MAX_TRIPS: u64 = 64;

/// Sizes are multiples of this, the alignment of the plans.
const ALIGNMENT: u64 = 16;

/// Bytes of the largest chunk that is tried.
const MAX_BYTES: u64 = 1 << 20;

/// A mutant with its original plan.
struct Mutant {
    name: String,
    base: PlanTree,
    plan: PlanTree,
    changes: Vec<Mutation>,
    credits: u64,
}

impl Mutant {
    /// Returns the mutant of a number; `None` if its changes cancel or cannot be applied.
    fn of(number: u64) -> Option<Self> {
        let random = &mut Random(number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let (named, credits) = bases::random(random);
        let first = some(&named.plan, None, random)?;
        let mut plan = apply(&named.plan, &first)?;
        let mut changes = vec![first];
        if random.below(2) == 0 {
            let second = some(&plan, Some((&named.plan, &first)), random)?;
            plan = apply(&plan, &second)?;
            changes.push(second);
        }
        let name = changes.iter().map(Mutation::to_string).collect::<Vec<_>>().join(" and ");
        let name = format!("mutant {number}: {}: {name}", named.name);
        (plan != named.plan).then_some(Self { name, base: named.plan, plan, changes, credits })
    }

    /// Returns whether it is correct at the given sizes and in the given schedules.
    fn fuzz(&self, every: bool, seeds: u64) -> Result<(), String> {
        self.brute(every)?;
        let few = [None, Some(1), Some(2), Some(3), Some(5), Some(9)];
        let many = Some(self.credits + 2).filter(|&trips| trips > 9 && (every || trips < 30)).map(Some);
        for trips in few.into_iter().chain(many) {
            for seed in 0..seeds {
                let at = self.changes[0].at;
                let fuzzer = ScheduleFuzzer::new(&self.plan).target_block(at.rank as u32, at.block as u32);
                let fuzzer = trips.map_or(fuzzer, |trips| fuzzer.iterations(trips));
                let how = match fuzzer.run(seed).map_err(|error| error.to_string())? {
                    Outcome::Passed { unordered: 0 } => continue,
                    Outcome::Passed { unordered } => format!("{unordered} accesses that nothing orders"),
                    Outcome::Failed(failure) => failure.to_string(),
                    Outcome::StepLimit => "takes too long".to_owned(),
                };
                return Err(format!("{trips:?} iterations, seed {seed}: {how}"));
            }
        }
        Ok(())
    }

    /// Searches for a number of iterations at which a thread block deadlocks.
    fn brute(&self, every: bool) -> Result<(), String> {
        let brute = Brute::of(&self.plan);
        let most = MAX_TRIPS.max(3 * self.credits);
        let mut before = Vec::new();
        for chunk in (0..=MAX_BYTES).step_by(ALIGNMENT as usize) {
            let trips: Vec<u64> = brute.trips(chunk).collect();
            let longest = brute.most_trips(chunk);
            if longest > most {
                break;
            }
            let past_credits = self.credits > 0 && (longest + 2) % self.credits <= 4;
            if trips == before || !every && longest > MAX_TRIPS && !past_credits {
                continue;
            }
            if brute.is_stuck(chunk) {
                return Err(format!("{longest} iterations: a thread block waits forever"));
            }
            before = trips;
            if before.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn mutant_outcome(&self, every: bool, seeds: u64, suspect: bool) -> MutantOutcome {
        if let Some(finding) = check(&self.plan).iter().next() {
            let unbroken = suspect.then(|| self.fuzz(every, seeds) == Ok(()));
            return MutantOutcome::Killed { code: finding.code.entry(), unbroken };
        }
        match self.fuzz(every, seeds) {
            Ok(()) if self.changes.len() == 1 => {
                MutantOutcome::Equivalent { reason: reasons::of(&self.base, &self.changes[0]) }
            }
            Ok(()) => MutantOutcome::Equivalent { reason: "two changes that go together".to_owned() },
            Err(how) => MutantOutcome::Lost { how: format!("{how}\n{}", text(&self.plan)) },
        }
    }
}

/// Returns a mutation: each operator is equally likely. A second one mostly relates to the first: by the same operator,
/// or on the same channel or semaphore.
fn some(plan: &PlanTree, first: Option<(&PlanTree, &Mutation)>, random: &mut Random) -> Option<Mutation> {
    let mut all = mutations(plan);
    let ids = |plan: &PlanTree, mutation: &Mutation| {
        let op = op_at(plan, mutation.at)?;
        let bodies = op.body.iter().flat_map(|body| &body.ops);
        let named: Vec<_> =
            std::iter::once(op).chain(bodies).flat_map(|op| op.ids.iter().map(|&id| (op.channel, id))).collect();
        Some(named)
    };
    if let Some((base, first)) = first {
        let known = ids(base, first).unwrap_or_default();
        let goes_with = |mutation: &Mutation, kind: u64| match kind {
            0..3 => {
                mutation.operator == first.operator
                    && ids(plan, mutation).is_some_and(|ids| ids.iter().any(|id| known.contains(id)))
            }
            3 => mutation.operator == first.operator,
            _ => true,
        };
        let kind = random.below(5);
        if all.iter().any(|mutation| goes_with(mutation, kind)) {
            all.retain(|mutation| goes_with(mutation, kind));
        }
    }
    let mut operators: Vec<_> = all.iter().map(|mutation| mutation.operator).collect();
    operators.sort();
    operators.dedup();
    let operator = *operators.get(random.below(operators.len() as u64) as usize)?;
    all.retain(|mutation| mutation.operator == operator);
    Some(all[random.below(all.len() as u64) as usize])
}

/// Returns a plan in the notation of tests.
fn text(plan: &PlanTree) -> String {
    let mut text = String::new();
    for (rank, tables) in plan.ranks.iter().enumerate() {
        for (number, block) in tables.blocks.iter().enumerate() {
            let ops = crate::testing::text(&block.ops);
            text += &format!("    rank {rank} block {number}: {ops}\n");
        }
        if tables.semaphores.iter().any(|&value| value != 0) {
            text += &format!("    rank {rank}: {:?}\n", tables.semaphores);
        }
    }
    text
}

#[test]
fn bases_are_correct() {
    for number in 0..super::number("MSCCLPP_BASES", 30) {
        let (named, credits) = bases::random(&mut Random(number));
        let found = check(&named.plan);
        assert!(found.is_empty(), "{}: {found}\n{}", named.name, text(&named.plan));
        let base = Mutant {
            name: named.name,
            base: named.plan.clone(),
            changes: vec![mutations(&named.plan)[0]],
            plan: named.plan,
            credits,
        };
        let found = base.fuzz(false, 2);
        assert_eq!(found, Ok(()), "{}\n{}", base.name, text(&base.plan));
    }
}

#[test]
fn wrong_loop_mutants_are_rejected() {
    let mutants = number("MSCCLPP_LOOP_MUTANTS", 400);
    let (first, seeds) = (number("MSCCLPP_FIRST", 0), number("MSCCLPP_NUM_SEEDS", 2));
    let every = mutants >= 20_000;
    let (next, sum) = (AtomicU64::new(first), Mutex::new(Tally::default()));
    let worker = || {
        let mut tally = Tally::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number - first >= mutants {
                break;
            }
            if let Some(mutant) = Mutant::of(number) {
                let suspect = Random(!number).below(8) == 0;
                tally.add(
                    mutant.changes[0].operator,
                    mutant.name.clone(),
                    mutant.mutant_outcome(every, seeds, suspect),
                );
            }
        }
        let mut sum = sum.lock().expect("no mutant panics");
        *sum = std::mem::take(&mut *sum).merge(tally);
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(worker))));
    let tally = sum.into_inner().expect("no mutant panics");
    println!("mutants {first} to {}, every number of iterations: {every}\n{tally}", first + mutants);
    let lost = tally.lost();
    assert!(lost.is_empty(), "{} accepted, but broken\n{}", lost.len(), lost.join("\n"));
    assert!(tally.total() as u64 * 2 > mutants, "only {} mutants", tally.total());
}
