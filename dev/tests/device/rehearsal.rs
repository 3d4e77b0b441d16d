//! The benchmarks' rows on tiny messages: each runs to its end, and prints the required output.

use libtest_mimic::{Failed, Trial};
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::cuda::Device;
use mscclpp_exec::cuda::jit::Cache;

use super::CACHE;
use crate::bench::Bench;
use crate::measure::Outcome;
use crate::rows::{ROWS, run};
use crate::stamps;

pub(crate) fn tests() -> Vec<Trial> {
    let trial = |name: &'static str| Trial::test(format!("rehearsal::{name}"), move || of_a_row(name));
    // Without the row that needs PyTorch.
    let rows = ROWS.iter().map(|(name, ..)| *name).filter(|name| *name != "b9").map(trial);
    rows.chain([Trial::test("rehearsal::stamps", stamps_in_order_are_summed_up)]).collect()
}

/// Start, first store and finish of launches, in any order; rows without a launch.
fn stamps_in_order_are_summed_up() -> Result<(), Failed> {
    assert!(stamps::summary(&[[5, u64::MAX, 9]]).is_err(), "nothing was stored");
    assert!(stamps::summary(&[[u64::MAX, u64::MAX, 0]]).is_err(), "nothing was launched");
    let steps = stamps::summary(&[[9000, 10_000, 11_000], [u64::MAX, u64::MAX, 0], [1000, 2000, 4000]]);
    let steps = steps.map_err(|error| error.to_string())?;
    let expected = "1.00 (1.00 to 1.00) 2.00 (1.00 to 2.00) 5.00 (5.00 to 5.00)";
    let found = steps.split_whitespace().collect::<Vec<_>>().join(" ");
    if found == expected { Ok(()) } else { Err(found.into()) }
}

fn device() -> Outcome<Device> {
    Ok(Device::with_cache(
        simulator(Options { stop_at_one_of: 0, threads: 4, ..Options::default() })?,
        Cache::at(CACHE),
    ))
}

fn of_a_row(name: &'static str) -> Result<(), Failed> {
    let failed = |error: Box<dyn std::error::Error>| Failed::from(error.to_string());
    let first = device().map_err(failed)?;
    let mut bench = Bench::new(&first, &device);
    (bench.rehearsal, bench.quiet) = (true, true);
    let verdicts = run(&bench, &[name]).map_err(failed)?;
    if verdicts == [name.to_uppercase()] { Ok(()) } else { Err(format!("verdicts of {verdicts:?}").into()) }
}
