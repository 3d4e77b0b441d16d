//! Twelve kinds of programs that a compiler without proofs lets pass, each refused for its own reason and in words that
//! name both places; and what looks like them, is right, and is accepted.
//!
//! Programs are written as a user writes them. Where the authoring API itself refuses one, its plan is changed afterwards:
//! plans come from strangers' files, too.

mod accepted;
mod blocks;
mod counters;
mod files;
mod launches;
mod layout;
mod limits;
mod loops;
mod rows;
mod transfers;
mod waits;

use mscclpp_core::check::{Checks, Level, check};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::compile_tree;
use mscclpp_core::diag::Diagnostics;
use mscclpp_core::dsl::Program;
use mscclpp_core::plan::raw::{Op, PlanTree};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::Protocol;

/// The specification of a program.
fn spec(kind: CollectiveKind, ranks: u32) -> AlgoSpec {
    AlgoSpec::new("program", kind, ranks)
}

/// One that is in place.
fn in_place(kind: CollectiveKind, ranks: u32) -> AlgoSpec {
    let mut spec = spec(kind, ranks);
    spec.collective.in_place = true;
    spec
}

/// One with packets.
fn packets(kind: CollectiveKind, ranks: u32) -> AlgoSpec {
    AlgoSpec { protocol: Protocol::LL, ..spec(kind, ranks) }
}

/// The plan of a program, not checked yet.
#[track_caller]
fn plan(spec: AlgoSpec, body: impl FnOnce(&Program)) -> PlanTree {
    let program = Program::new(spec);
    body(&program);
    let unchecked = Checks { level: Level::Off, ..Checks::default() };
    compile_tree(program, &unchecked).unwrap_or_else(|found| panic!("refused before it was a plan: {found}"))
}

/// The first operation of a plan that is of interest.
fn operation(plan: &mut PlanTree, wanted: impl Fn(&Op) -> bool) -> &mut Op {
    let blocks = plan.ranks.iter_mut().flat_map(|rank| &mut rank.blocks);
    blocks.flat_map(|block| &mut block.ops).find(|op| wanted(op)).expect("the plan has the operation")
}

/// Asserts that some findings are of one rule, and that one of them says all of some words.
#[track_caller]
fn say(found: &Diagnostics, slug: &str, words: &[&str]) {
    assert!(!found.is_empty(), "accepted, expected {slug}");
    assert!(found.iter().all(|finding| finding.code.entry().slug == slug), "expected only {slug}: {found}");
    let one = found.iter().any(|finding| words.iter().all(|word| finding.to_string().contains(word)));
    assert!(one, "no finding says all of {words:?}: {found}");
}

/// Asserts that a plan is refused by one rule, in some words.
#[track_caller]
fn refused(plan: &PlanTree, slug: &str, words: &[&str]) {
    say(&check(plan), slug, words);
}

#[track_caller]
fn accepted(plan: &PlanTree) {
    let found = check(plan);
    assert!(found.is_empty(), "{found}");
}
