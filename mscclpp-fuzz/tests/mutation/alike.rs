//! Where all ranks of a plan do the same, the checks look at some. What they say must be what they say when they look at all,
//! of plans in which all ranks are wrong in the same way, and of such in which one is.

use mscclpp_core::check::check;
use mscclpp_core::plan::{Expectation, PlanTree};

use super::Random;
use super::corpus::{Named, shipped};
use super::mutants::{Mutation, Spot, apply, mutations};

/// The same plan with a demand on nothing, for the sake of which all ranks are looked at.
fn of_all_ranks(plan: &PlanTree) -> PlanTree {
    let nothing = Expectation { rank: 0, chunk: 0, len: 0, inputs: vec![(0, 0)], origin: Default::default() };
    PlanTree { expectations: vec![nothing], ..plan.clone() }
}

/// A plan in which every so many ranks are changed in the same way.
fn everywhere(plan: &PlanTree, all: &[Mutation], mutation: &Mutation, step: usize) -> Option<PlanTree> {
    let mut ranks = (mutation.at.rank % step..plan.ranks.len()).step_by(step);
    ranks.try_fold(plan.clone(), |plan, rank| {
        let wanted = Mutation { at: Spot { rank, ..mutation.at }, ..*mutation };
        apply(&plan, all.iter().find(|other| **other == wanted)?)
    })
}

#[test]
fn looking_at_some_ranks_is_as_good_as_looking_at_all() {
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
