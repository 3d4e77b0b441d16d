//! Time to a checked plan, and to its JSON text, for the reference's programs: `cargo bench -p conformance`, with
//! `MSCCLPP_CONFORMANCE` set to the directory of reference plans, which lists the programs and their arguments. A word
//! after `--` selects the programs that have it in their names.
//!
//! It prints one line per program, with medians in microseconds, to compare with the reference's DSL run on the same
//! machine and programs. Plans that the checks rightly reject are skipped.
#![allow(missing_docs, reason = "a benchmark has no readers of documentation")]

#[path = "../tests/ours/cases.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod cases;
#[path = "../tests/ours/index.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod index;
#[path = "../tests/ours/programs/mod.rs"]
mod programs;

use std::hint::black_box;
use std::time::Instant;

use mscclpp_core::check::Checks;
use mscclpp_core::compile_tree;
use mscclpp_core::dsl::Program;
use mscclpp_core::plan::json;

/// Number of runs of each program.
const RUNS: usize = 30;

fn main() {
    if !cfg!(reference_plans) {
        println!("skipped: MSCCLPP_CONFORMANCE does not name a directory of reference plans");
        return;
    }
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    println!("{:44} {:>12} {:>12}", "program", "plan us", "and text us");
    for entry in index::read().iter().filter(|entry| entry.overrides.is_empty() && entry.simulated) {
        if !entry.slug.contains(&wanted) {
            continue;
        }
        let Some(case) = cases::case(entry) else { continue };
        let compile = || {
            let program = Program::new(case.spec.clone());
            (case.call.native)(&program);
            compile_tree(program, &Checks::default())
        };
        if compile().is_err() {
            continue;
        }
        let plan = median(|| compile().map(black_box).is_ok());
        let text = median(|| compile().map(|plan| black_box(json::write(&plan, json::Style::Compact))).is_ok());
        println!("{:44} {plan:12.1} {text:12.1}", entry.slug);
    }
}

/// Returns the median time of some runs, in microseconds.
fn median(mut run: impl FnMut() -> bool) -> f64 {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begin = Instant::now();
            run();
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}
