//! Plans that normalize rows: what the checks find in mutants is compared with schedules.

use std::collections::BTreeMap;

use mscclpp_core::check::check;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::raw::{OpClass, OpKind, PlanTree};
use mscclpp_fuzz::ScheduleFuzzer;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Mutants of each plan.
fn mutants() -> u64 {
    std::env::var("MSCCLPP_ROW_MUTANTS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// Returns the plans to test, with their names.
fn plans(ranks: u32) -> impl Iterator<Item = (&'static str, PlanTree)> {
    mscclpp_algorithms::norms().iter().map(move |algorithm| {
        let mut spec = algorithm.spec(ranks, ranks);
        (spec.collective.in_place, spec.collective.chunk_factor) = (false, 1);
        let arguments = algorithm.arguments([]).expect("defaults");
        (algorithm.name(), algorithm.compile_tree(spec, &arguments).expect("a right plan"))
    })
}

/// Changes an operation, and returns whether it did.
fn mutate(plan: &mut PlanTree, random: &mut SplitMix64) -> bool {
    let mut below = |limit: usize| (random.next_u64() % limit.max(1) as u64) as usize;
    let rank = below(plan.ranks.len());
    let mut ops = &mut plan.ranks[rank].blocks[0].ops;
    if let Some(at) = ops.iter().position(|op| op.body.is_some()) {
        ops = &mut ops[at].body.as_mut().expect("a body").ops;
    }
    if ops.len() < 2 {
        return false;
    }
    let at = below(ops.len() - 1);
    match below(4) {
        0 => drop(ops.remove(at)),
        1 => ops.swap(at, at + 1),
        2 => ops.insert(at, ops[at].clone()),
        _ if ops[at].kind == OpKind::RowNorm => ops[at].srcs[0].index = below(3) as u32,
        _ => return false,
    }
    true
}

#[test]
fn accepted_mutants_pass_under_all_schedules() {
    let mut verdicts: BTreeMap<String, u32> = BTreeMap::new();
    for ranks in [2, 3] {
        for (name, plan) in plans(ranks) {
            let failure = ScheduleFuzzer::new(&plan).find_failure(0..10).expect("a plan of few chunks");
            assert_eq!(failure, None, "{name}");
            for seed in 0..mutants() {
                let mut mutant = plan.clone();
                if !mutate(&mut mutant, &mut SplitMix64::seed_from_u64(seed)) || mutant == plan {
                    continue;
                }
                let found = check(&mutant);
                let failure = ScheduleFuzzer::new(&mutant).find_failure(0..20);
                let passed = matches!(failure, Ok(None));
                assert!(passed || !found.is_empty(), "{name}, {ranks} ranks, seed {seed}: accepted, but {failure:?}");
                let code = found.iter().next().map(|finding| finding.code);
                let verdict = code.map_or("accepted".to_owned(), |code| format!("{code:?}"));
                *verdicts.entry(format!("{verdict}, {}", if passed { "passed" } else { "failed" })).or_default() += 1;
            }
        }
    }
    println!("{verdicts:#?}");
    let count = |name: &str| verdicts.get(name).copied().unwrap_or(0);
    assert!(count("Race, failed") > 5 && count("NotNormalized, failed") > 2, "{verdicts:#?}");
}

/// Returns the mutants without one of the block syncs next to a row norm.
fn without_block_syncs(plan: &PlanTree) -> Vec<PlanTree> {
    let mut mutants = Vec::new();
    for rank in 0..plan.ranks.len() {
        for block in 0..plan.ranks[rank].blocks.len() {
            for at in 0..plan.ranks[rank].blocks[block].ops.len() {
                let mut mutant = plan.clone();
                let op = &mut mutant.ranks[rank].blocks[block].ops[at];
                if let Some(body) = &mut op.body {
                    let is_norm = |at: usize| body.ops.get(at).is_some_and(|op| op.kind == OpKind::RowNorm);
                    let is_sync =
                        |at: usize| body.ops[at].kind == OpKind::Nop && (is_norm(at + 1) || at > 0 && is_norm(at - 1));
                    if let Some(sync) = (0..body.ops.len()).find(|at| is_sync(*at)) {
                        body.ops.remove(sync);
                        // Another one, before the next operation on data, would take its place.
                        let rest = &body.ops[sync..];
                        let end = rest.iter().position(|op| matches!(op.kind.class(), OpClass::Data(..)));
                        let end = sync + end.unwrap_or(rest.len());
                        let mut at = 0;
                        body.ops.retain(|op| {
                            at += 1;
                            op.kind != OpKind::Nop || !(sync + 1..=end).contains(&at)
                        });
                        mutants.push(mutant);
                    }
                    continue;
                }
                let ops = &mut mutant.ranks[rank].blocks[block].ops;
                let is_norm = |at: usize| ops.get(at).is_some_and(|op| op.kind == OpKind::RowNorm);
                if ops[at].kind == OpKind::Nop && (is_norm(at + 1) || at > 0 && is_norm(at - 1)) {
                    ops.remove(at);
                    mutants.push(mutant);
                }
            }
        }
    }
    mutants
}

#[test]
fn block_sync_before_a_row_norm_is_required() {
    for (name, plan) in plans(3) {
        let mutants = without_block_syncs(&plan);
        assert!(mutants.len() >= 3, "{name}: {}", mutants.len());
        for mutant in mutants {
            let found = check(&mutant);
            assert!(found.iter().any(|finding| finding.code == Code::Race), "{name}: {found}");
            let failure = ScheduleFuzzer::new(&mutant).find_failure(0..200).expect("a plan of few chunks");
            assert!(failure.is_some(), "{name}");
        }
    }
}
