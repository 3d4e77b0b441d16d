//! Mutants of plans that are right where all chunks are full, at counts that do not divide evenly: where the checks accept a
//! mutant, its results are right at every count; where they reject it for shorter chunks only, its results are wrong at some count.
//!
//! `MSCCLPP_COUNTED` is the approximate number of mutants per plan.

#[path = "../../../mscclpp-fuzz/tests/corpus/mod.rs"]
mod corpus;
#[path = "../../../mscclpp-fuzz/tests/mutation/loops.rs"]
mod loops;
#[allow(dead_code, reason = "the fuzzer uses more of it")]
#[path = "../../../mscclpp-fuzz/tests/mutation/mutants.rs"]
mod mutants;

use corpus::{Named, reference, shipped, size};
use mscclpp_core::check::check;
use mscclpp_core::diag::Code;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::DataType;

use super::generate::{Random, Routes};
use super::wrong_counts;

/// Maximum number of operations of a plan that takes part.
const MAX_OPERATIONS: usize = 100;

#[test]
fn accepted_mutants_are_right_at_every_count() {
    let per_plan = std::env::var("MSCCLPP_COUNTED").map_or(4, |count| count.parse().expect("a number of mutants"));
    let mut plans = shipped(&[(2, 2), (3, 3), (4, 2)], 2);
    plans.extend(reference());
    let routed =
        (0..100).map(|seed| Named { name: format!("routes {seed}"), plan: Routes::random(&mut Random::new(seed)) });
    plans.extend(routed);
    plans.retain(|named| size(&named.plan) <= MAX_OPERATIONS);
    let (mut accepted, mut short, mut rejected) = (0, 0, 0);
    for (number, Named { name, plan }) in (0..).zip(&plans) {
        let mut random = Random::new(number);
        let mutations = mutants::mutations(plan);
        let rate = (mutations.len() as u64).div_ceil(per_plan).max(1);
        for mutation in mutations.iter().filter(|_| random.below(rate) == 0) {
            let Some(mutant) = mutants::apply(plan, mutation).filter(|mutant| mutant != plan) else { continue };
            let found = check(&mutant);
            let is_short = found.iter().all(|finding| finding.code == Code::ShortChunk);
            if !is_short {
                rejected += 1;
                continue;
            }
            let wrong = wrong_counts(&mutant, &[DataType::I32]);
            let is_sum = mutant.reductions().iter().all(|op| *op == ReduceOp::Sum);
            match found.is_empty() {
                true => assert_eq!(wrong, [], "{name}: {mutation} is accepted"),
                false => assert!(!is_sum || !wrong.is_empty(), "{name}: {mutation} is right at every count: {found}"),
            }
            *if found.is_empty() { &mut accepted } else { &mut short } += 1;
        }
    }
    println!(
        "{} plans: {accepted} mutants accepted, {short} rejected for short chunks, {rejected} for others",
        plans.len()
    );
    assert!(accepted >= plans.len() as u64 / 10 && short > 0, "{accepted} accepted, {short} rejected for short chunks");
}
