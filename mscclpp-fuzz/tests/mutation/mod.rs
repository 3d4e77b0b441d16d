//! Mutation test: the checker rejects correct plans with one change that makes them wrong.
//!
//! Every mutant is checked. A mutant that the checker accepts is fuzzed; if it fails, or has unordered accesses, the
//! checker is wrong. Otherwise the mutant is considered equivalent, and counted under a reason. Some of the mutants
//! that the checker rejects are fuzzed too: the number of those that pass is printed, and is no failure, since a
//! checker may reject what it cannot prove.
//!
//! | variable | |
//! |---|---|
//! | `MSCCLPP_CONFORMANCE` | the folder of the reference plans, which take part if it is set |
//! | `MSCCLPP_MUTANTS` | mutants per plan: a number, or `all` |
//! | `MSCCLPP_OPERATIONS` | operations of the largest plan that takes part |
//! | `MSCCLPP_NUM_SEEDS` | runs of a survivor |
//! | `MSCCLPP_LOOP_MUTANTS` | mutants of random plans with loops |
//! | `MSCCLPP_BASES` | random plans with loops that are tested unchanged |
//! | `MSCCLPP_FIRST` | number of the first one of these |
//! | `MSCCLPP_FIRST_SHAPE` | number of the first shape in `bases` that takes part |
//! | `MSCCLPP_LIST` | if set, all survivors are listed |

mod alike;
pub(crate) mod bases;
#[path = "../../../mscclpp-check/src/loops/tests/brute.rs"]
mod brute;
mod loops;
pub(crate) mod mutants;
mod reasons;
mod rolling;
mod tally;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::corpus::{Named, reference, shipped, size};
use mscclpp_core::check::check;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_fuzz::{Outcome, ScheduleFuzzer};
use mutants::{Mutation, apply, mutations, op_at};
use tally::{MutantOutcome, Tally};

/// The amount of work.
#[derive(Clone, Copy)]
struct Effort {
    /// Approximate number of mutants per plan.
    mutants: u64,
    seeds: u64,
    operations: usize,
}

impl Effort {
    fn from_environment() -> Self {
        let operations = usize::try_from(number("MSCCLPP_OPERATIONS", 120)).unwrap_or(usize::MAX);
        Self { mutants: number("MSCCLPP_MUTANTS", 8), seeds: number("MSCCLPP_NUM_SEEDS", 8), operations }
    }
}

/// Returns a number from the environment, or a default.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) if text == "all" => u64::MAX,
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, expected a number or `all`")),
        Err(_) => default,
    }
}

/// A random number generator with a fixed sequence per seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// Returns the failure that the fuzzer finds in a mutant; `None` if it passes.
fn fuzz(plan: &PlanTree, mutation: &Mutation, seeds: u64) -> Result<Option<String>, String> {
    let (rank, block) = (mutation.at.rank as u32, mutation.at.block as u32);
    let fuzzer = ScheduleFuzzer::new(plan).target_block(rank, block);
    let mut racing = None;
    for seed in 0..seeds {
        // Engines between nodes let puts overtake each other.
        let fuzzer = if seed % 2 == 1 { fuzzer.reorders_puts() } else { fuzzer };
        match fuzzer.run(seed).map_err(|error| error.to_string())? {
            Outcome::Failed(failure) => return Ok(Some(format!("seed {seed}: {failure}"))),
            Outcome::Passed { unordered: 0 } => {}
            Outcome::Passed { unordered } => {
                racing.get_or_insert(format!("seed {seed}: {unordered} accesses that nothing orders"));
            }
            Outcome::StepLimit => return Err(format!("seed {seed} takes too long")),
        }
    }
    Ok(racing)
}

/// Returns the outcome of one mutant; `None` if it is the plan itself.
fn mutant_outcome(named: &Named, mutation: &Mutation, effort: &Effort, suspect: bool) -> Option<MutantOutcome> {
    let plan = apply(&named.plan, mutation)?;
    if plan == named.plan {
        return None;
    }
    let found = check(&plan);
    Some(match found.iter().next() {
        Some(finding) => {
            let broken = suspect.then(|| fuzz(&plan, mutation, effort.seeds));
            // A plan that cannot be executed needs no further proof.
            let unbroken = broken.map(|result| result == Ok(None));
            MutantOutcome::Killed { code: finding.code.entry(), unbroken }
        }
        None => match fuzz(&plan, mutation, effort.seeds) {
            Ok(None) => MutantOutcome::Equivalent { reason: reasons::of(&named.plan, mutation) },
            Ok(Some(how)) | Err(how) => MutantOutcome::Lost { how },
        },
    })
}

fn suite(plans: &[Named], effort: &Effort) -> Tally {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut tally = Tally::default();
        while let Some((number, named)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|number| Some((number, plans.get(number)?)))
        {
            let mutations = mutations(&named.plan);
            let rate = (mutations.len() as u64).div_ceil(effort.mutants).max(1);
            let mut random = Random(number as u64);
            for mutation in &mutations {
                if !random.next().is_multiple_of(rate) {
                    continue;
                }
                let suspect = random.next().is_multiple_of(8);
                if let Some(mutant_outcome) = mutant_outcome(named, mutation, effort, suspect) {
                    let op = op_at(&named.plan, mutation.at).map_or("", |op| op.kind.name());
                    tally.add(mutation.operator, format!("{}: {mutation} ({op})", named.name), mutant_outcome);
                }
            }
        }
        tally
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        let tallies = workers.into_iter().map(|worker| worker.join().expect("no mutant panics"));
        tallies.fold(Tally::default(), Tally::merge)
    })
}

#[test]
fn wrong_mutants_are_rejected() {
    let mut effort = Effort::from_environment();
    let mut plans = shipped(&[(2, 2), (3, 3), (4, 2)], 2);
    let reference = reference();
    if reference.is_empty() {
        // More of each replace those that are not available.
        effort.mutants = effort.mutants.saturating_mul(2);
    }
    plans.extend(reference);
    plans.retain(|named| size(&named.plan) <= effort.operations);
    let tally = suite(&plans, &effort);
    println!("{} plans, {} runs on every survivor", plans.len(), effort.seeds);
    println!("{tally}");
    let lost = tally.lost();
    if std::env::var_os("MSCCLPP_LIST").is_some() {
        println!("accepted, but broken: {}\n{}", lost.len(), lost.join("\n"));
    }
    assert!(lost.is_empty(), "{} accepted, but broken\n{}", lost.len(), lost.join("\n"));
    assert!(tally.total() >= 1500, "only {} mutants", tally.total());
}
