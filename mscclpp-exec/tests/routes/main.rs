//! Random plans that move data through any chunk of any buffer, at counts that do not divide evenly: the checks accept a plan iff
//! the CPU executor's results are right at every count.
//!
//! `MSCCLPP_ROUTES` is the number of plans. A test of its own links little, and `scripts/full.sh` runs it for long.

#[path = "../common/mod.rs"]
mod common;
mod generate;
mod mutation;

use generate::{Random, Routes};
use mscclpp_core::check::check;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cpu::{Executor, Options};
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{DataType, Error, Message};

/// Bytes of a part for which all counts are tried: every remainder of the chunks, with strides of one unit and of more.
fn lengths(tree: &PlanTree) -> std::ops::RangeInclusive<u64> {
    let tables = &tree.ranks[0];
    let chunks = u64::from(tables.input_chunks.max(tables.output_chunks)) / parts(tree);
    let unit = u64::from(tree.buffer_alignment).max(8);
    let first = (tree.min_message_size / parts(tree)).max(1);
    first..=first + (chunks + 1) * unit
}

/// Returns the number of parts of the larger buffer.
fn parts(tree: &PlanTree) -> u64 {
    use CollectiveKind as K;
    let has_parts = matches!(tree.collective.kind, K::AllGather | K::ReduceScatter | K::AllToAll);
    if has_parts { tree.ranks.len() as u64 } else { 1 }
}

/// Returns the counts of elements of some types at which the results of a plan are wrong.
fn wrong_counts(tree: &PlanTree, dtypes: &[DataType]) -> Vec<(u64, u64)> {
    let plan = Plan::new(tree);
    let world = Executor::with_options(plan.num_ranks(), Options::default().workers(Some(1)));
    let mut wrong = Vec::new();
    for &dtype in dtypes {
        let size = dtype.size() as u64;
        let lengths = lengths(tree);
        for elements in lengths.start().div_ceil(size)..=lengths.end() / size {
            let count = elements * parts(tree);
            let mut run = match world.prepare(&plan, Message::new(dtype, count)) {
                Err(Error::MessageSize { .. }) => continue,
                run => run.expect("a plan that can be prepared"),
            };
            let mut buffers = run.buffers().expect("little memory");
            let verifier = Verifier::with_pattern(&run, 1, Pattern::Exact).with_expectations(&tree.expectations);
            verifier.fill(&mut buffers);
            run.scramble_scratch(1);
            run.launch_buffers(&mut buffers).expect("it ends");
            let report = verifier.check(&buffers);
            assert!(!report.is_unverified());
            if !report.is_correct() {
                wrong.push((count, size));
            }
        }
    }
    wrong
}

/// Returns the count of elements of 4 bytes in a finding's message: `at 1 element` or `at 3 elements of 8 bytes, 5 of 4, …`.
fn least_count(message: &str) -> Option<u64> {
    let (_, counts) = message.split_once(": at ")?;
    let (counts, _) = counts.split_once(", elements of it are lost")?;
    let number = |text: &str| text.split_whitespace().next()?.parse().ok();
    let mut parts = counts.split(',').flat_map(|part| part.split(" or "));
    match parts.find(|part| part.ends_with(" of 4") || part.ends_with(" of 4 bytes")) {
        Some(of_four) => number(of_four),
        None if counts.contains(" of ") => None,
        None => number(counts),
    }
}

#[derive(Debug, Default)]
struct Tally {
    accepted: u64,
    refused: u64,
    false_accepts: u64,
    refused_but_right: u64,
    /// Refused plans of which the results are right for the values of the test.
    refused_and_unseen: u64,
    /// Refused plans of which a finding names the least count of 4-byte elements at which results are wrong.
    least_named: u64,
}

#[test]
fn routed_plans_are_accepted_iff_right_at_every_count() {
    let plans = std::env::var("MSCCLPP_ROUTES").map_or(150, |plans| plans.parse().expect("a number of plans"));
    let first = std::env::var("MSCCLPP_SEED").map_or(0, |seed| seed.parse().expect("a seed"));
    let mut tally = Tally::default();
    for seed in first..first + plans {
        let tree = Routes::random(&mut Random::new(seed));
        let found = check(&tree);
        let text = || format!("seed {seed}: {found}\n{}", Plan::new(&tree).to_text());
        assert!(found.iter().all(|finding| finding.code == Code::ShortChunk), "{}", text());
        let is_limited = tree.min_message_size > 0 || tree.max_message_size < u64::MAX;
        let few = [DataType::I32];
        let all = [DataType::I32, DataType::U8, DataType::F64];
        let wrong = wrong_counts(&tree, if is_limited { &all } else { &few });
        let is_sum = tree.reductions().iter().all(|op| *op == ReduceOp::Sum);
        match (found.is_empty(), wrong.is_empty()) {
            (true, true) => tally.accepted += 1,
            (false, false) => tally.refused += 1,
            (true, false) => {
                tally.false_accepts += 1;
                eprintln!("accepted, wrong at {wrong:?}: {}", text());
            }
            // Not every minimum changes where an operand is lost.
            (false, true) if !is_sum => tally.refused_and_unseen += 1,
            (false, true) => {
                tally.refused_but_right += 1;
                eprintln!("refused, right at all counts: {}", text());
            }
        }
        // Every finding names a count at which data is lost. The least of all is that of the operation that loses most.
        let named: Vec<u64> = found.iter().filter_map(|finding| least_count(&finding.message)).collect();
        let is_wrong = |count: &u64| wrong.contains(&(*count, 4));
        assert!(!is_sum || named.iter().all(is_wrong), "{named:?} of {wrong:?}: {}", text());
        let least = wrong.iter().find(|(_, size)| *size == 4).map(|(count, _)| *count);
        tally.least_named += u64::from(!named.is_empty() && named.into_iter().min() == least);
    }
    println!("{plans} routed plans: {tally:?}");
    assert_eq!(tally.false_accepts, 0);
    assert!(tally.refused_but_right * 200 <= plans, "{tally:?}");
    assert!(plans < 100 || tally.accepted * 10 > plans && tally.refused * 10 > plans, "{tally:?}");
}
