//! Runs a plan from an MSCCL++ JSON file: the one beside this example, or the one named on the command line.
//!
//! `cargo run --release --example load_json_plan [-- PLAN.json]`

use mscclpp::core::check::check;
use mscclpp::core::plan::json;
use mscclpp::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text = match std::env::args().nth(1) {
        Some(path) => std::fs::read_to_string(&path).map_err(|error| format!("cannot read `{path}`: {error}"))?,
        None => include_str!("plans/pair_sum.json").to_owned(),
    };
    let (tree, warnings) = json::read(&text, json::ReadOptions::default())?;
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    // A plan from a file was checked by nobody yet.
    check(&tree).into_result(())?;
    examples::demonstrate(&Plan::new(&tree), &[1 << 10, 1 << 20])?;
    Ok(())
}
