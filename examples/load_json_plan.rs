//! Runs a plan from an MSCCL++ JSON file: the one next to this example, or the one named on the command line.
//!
//! `cargo run --release --example load_json_plan [-- PLAN.json]`

use mscclpp::compiler::LoadOptions;
use mscclpp::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = match std::env::args().nth(1) {
        Some(path) => std::fs::read(&path).map_err(|error| format!("cannot read `{path}`: {error}"))?,
        None => include_bytes!("plans/pair_sum.json").to_vec(),
    };
    // A plan from a file is unchecked: loading checks it, unless the options disable that.
    let (plan, warnings) = Plan::load_with_options(&file, &LoadOptions::default())?;
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    examples::demonstrate(&plan, &[1 << 10, 1 << 20])?;
    Ok(())
}
