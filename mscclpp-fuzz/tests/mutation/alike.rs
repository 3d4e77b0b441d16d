//! Symmetry reduction: if all ranks of a plan do the same, the checks use representatives. The result must be that of
//! checking all ranks, for plans in which all ranks have the same mistake, and for plans in which one has.

use mscclpp_core::check::check;
use mscclpp_core::plan::raw::{Expectation, PlanTree};

use super::Random;
use super::mutants::{Mutation, OpLocation, apply, mutations};
use crate::corpus::{Named, shipped};

/// Returns the same plan with an expectation about nothing, which disables symmetry reduction.
fn of_all_ranks(plan: &PlanTree) -> PlanTree {
    let nothing = Expectation { rank: 0, chunk: 0, len: 0, inputs: vec![(0, 0)], origin: Default::default() };
    PlanTree { expectations: vec![nothing], ..plan.clone() }
}

/// Returns a plan in which every `step`-th rank is changed in the same way.
fn everywhere(plan: &PlanTree, all: &[Mutation], mutation: &Mutation, step: usize) -> Option<PlanTree> {
    let mut ranks = (mutation.at.rank % step..plan.ranks.len()).step_by(step);
    ranks.try_fold(plan.clone(), |plan, rank| {
        let wanted = Mutation { at: OpLocation { rank, ..mutation.at }, ..*mutation };
        apply(&plan, all.iter().find(|other| **other == wanted)?)
    })
}

#[test]
fn checks_of_representatives_agree_with_checks_of_all_ranks() {
    let plans = shipped(&[(3, 3), (4, 4), (4, 2), (6, 2), (8, 4)], 2);
    let (mut right, mut wrong) = (0, 0);
    for (number, Named { name, plan }) in (0..).zip(&plans) {
        let mut random = Random(number);
        let mutations = mutations(plan);
        let rate = (mutations.len() as u64).div_ceil(20).max(1);
        for mutation in mutations.iter().filter(|_| random.next().is_multiple_of(rate)) {
            let node = plan.ranks_per_node as usize;
            for broken in [
                everywhere(plan, &mutations, mutation, 1),
                everywhere(plan, &mutations, mutation, node),
                apply(plan, mutation),
            ] {
                let Some(broken) = broken else { continue };
                let (some, all) = (check(&broken).is_empty(), check(&of_all_ranks(&broken)).is_empty());
                assert_eq!(some, all, "{name}: {mutation}");
                *(if all { &mut right } else { &mut wrong }) += 1;
            }
        }
    }
    println!("right: {right}, wrong: {wrong}");
    assert!(right > 1000 && wrong > 1000, "{right} {wrong}");
}
