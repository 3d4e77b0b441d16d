//! What is checked of a collective's plans, at compile time and at run time, and of plans from files.

use mscclpp::compiler::LoadOptions;
use mscclpp::compiler::{Checks, Level};
use mscclpp::prelude::*;
use mscclpp::raw::core::diag::Code;
use mscclpp::raw::core::plan::json;

/// Both thread blocks write the same into the same chunk.
#[collective(Test(input = 1, output = 1), ranks = 2, allow(race, redundant_transfer))]
fn judged(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0);
        rank.copy(rank.output().chunk(0), rank.input().chunk(0), 1);
    }
}

/// The same, with nobody looking.
#[collective(Test(input = 1, output = 1), ranks = 2, check = off)]
fn unseen(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0);
        rank.copy(rank.output().chunk(0), rank.input().chunk(0), 1);
    }
}

#[test]
fn a_module_knows_what_was_asked() {
    assert_eq!(
        judged::algorithm().checks(),
        Checks { level: Level::Full, allow: vec![Code::Race, Code::RedundantTransfer] }
    );
    assert_eq!(unseen::algorithm().checks(), Checks { level: Level::Off, allow: Vec::new() });
}

#[test]
fn plans_built_at_run_time_are_asked_the_same() {
    assert_eq!(judged::compile(judged::spec(3)).expect("the race is allowed").num_ranks(), 3);
    let found = mscclpp::compiler::compile(judged::spec(3), judged).expect_err("an unordered plan is not allowed");
    assert!(found.iter().all(|finding| finding.code == Code::Race), "{found}");
}

#[test]
fn plans_from_files_are_checked_unless_their_reader_says_no() {
    let tree = judged::plan(2).tree();
    for file in [json::write(&tree, json::Style::Compact).into_bytes(), judged::plan(2).image().to_vec()] {
        let found = Plan::load(&file).expect_err("a file allows nothing");
        assert!(found.iter().all(|finding| finding.code == Code::Race), "{found}");
        let (plan, warnings) =
            Plan::load_with_options(&file, &LoadOptions::unchecked()).expect("no checks were requested");
        assert!(warnings.is_empty());
        assert_eq!(plan, *judged::plan(2));
    }
}
