//! Verdicts depend on what a plan orders, never on its numbers or on the order of the abstract execution: a plan with other numbers
//! of ranks, thread blocks, channels and semaphores has findings with the same codes, and so has one whose abstract execution takes
//! another order.
//!
//! `MSCCLPP_PERMUTATIONS` is the number of permutations and orders per plan, and a factor for the number of random plans.

mod permute;

use std::collections::BTreeSet;

use mscclpp_core::check::{Checks, LaunchBoundaries, launch_boundaries};
use mscclpp_core::plan::raw::PlanTree;

use crate::corpus::{Named, faulty, fragments, reference, shipped, size};
use crate::filetests::common::tests;
use crate::fuzz::small::Script;
use crate::mutation::mutants::{apply, mutations};
use crate::mutation::{Random, bases, number};
use permute::permuted;

/// Returns the codes of the findings about a plan, whose abstract execution takes the usual order or another one.
fn codes(plan: &PlanTree, order: Option<u64>) -> BTreeSet<&'static str> {
    Checks::default().run_in_order(plan, order).iter().map(|finding| finding.code.entry().number).collect()
}

/// Returns the codes of the findings about a plan, and what it needs between launches if there are none.
fn verdict(plan: &PlanTree) -> (BTreeSet<&'static str>, Option<LaunchBoundaries>) {
    let codes = codes(plan, None);
    let boundaries = codes.is_empty().then(|| launch_boundaries(plan));
    (codes, boundaries)
}

fn effort() -> u64 {
    number("MSCCLPP_PERMUTATIONS", 1)
}

/// Compares the verdicts about some plans with those after permutations, and in other orders.
fn compare(plans: impl IntoIterator<Item = Named>) {
    let (mut accepted, mut rejected, mut wrong) = (0, 0, Vec::new());
    for (number, Named { name, plan }) in (0..).zip(plans) {
        let usual = verdict(&plan);
        *(if usual.0.is_empty() { &mut accepted } else { &mut rejected }) += 1;
        for seed in 0..effort() {
            let found = verdict(&permuted(&plan, &mut Random(seed << 32 | number)));
            if found != usual {
                wrong.push(format!("{name}, other numbers, seed {seed}: {usual:?} and {found:?}"));
            }
            let found = codes(&plan, Some(seed << 32 | number));
            if found != usual.0 {
                wrong.push(format!("{name}, other order, seed {seed}: {:?} and {found:?}", usual.0));
            }
        }
    }
    println!("{accepted} accepted, {rejected} rejected, each with {} permutations and orders", effort());
    let some: Vec<_> = wrong.iter().take(20).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} verdicts differ:\n{}", wrong.len(), some.join("\n"));
}

#[test]
fn verdicts_of_shipped_and_reference_plans_do_not_depend_on_numbers() {
    let mut plans = shipped(&[(2, 2), (3, 3), (4, 2), (4, 4)], 2);
    plans.extend(reference());
    plans.extend(fragments());
    plans.extend(faulty().into_iter().map(|(named, _)| named));
    let operations = number("MSCCLPP_OPERATIONS", 600) as usize;
    compare(plans.into_iter().filter(|named| size(&named.plan) <= operations));
}

#[test]
fn verdicts_of_file_tests_do_not_depend_on_numbers() {
    let plans = tests("check").into_iter().filter_map(|test| Some(Named { plan: test.parse().ok()?, name: test.name }));
    compare(plans);
}

#[test]
fn verdicts_of_random_plans_do_not_depend_on_numbers() {
    let scripts = |make: fn(&mut crate::fuzz::small::Random) -> Script, name: &'static str| {
        (0..600 * effort()).map(move |seed| {
            let plan = make(&mut crate::fuzz::small::Random(seed)).plan();
            Named { name: format!("{name} {seed}"), plan }
        })
    };
    compare(scripts(Script::random, "script"));
    compare(scripts(Script::alternating, "alternating"));
    compare((0..60 * effort()).map(|seed| bases::random(&mut Random(seed)).0));
}

#[test]
fn verdicts_of_mutants_do_not_depend_on_numbers() {
    let mut plans = shipped(&[(2, 2), (3, 3)], 1);
    plans.retain(|named| size(&named.plan) <= 120);
    let count = (400 * effort()).div_ceil(plans.len().max(1) as u64);
    let mutants = plans.iter().enumerate().flat_map(|(number, named)| {
        let all = mutations(&named.plan);
        let mut random = Random(number as u64);
        let chosen: Vec<_> = (0..count).map(|_| random.below(all.len() as u64) as usize).collect();
        let mutant = move |mutation: usize| {
            let plan = apply(&named.plan, &all[mutation])?;
            Some(Named { name: format!("{}: {}", named.name, all[mutation]), plan })
        };
        chosen.into_iter().filter_map(mutant)
    });
    compare(mutants);
}
