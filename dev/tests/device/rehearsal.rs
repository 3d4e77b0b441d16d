//! The benchmarks' rows on tiny messages: that each runs to its end, and says what it must.

use libtest_mimic::{Failed, Trial};
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::cuda::Device;
use mscclpp_exec::cuda::jit::Cache;

use super::CACHE;
use crate::bench::Bench;
use crate::measure::Outcome;
use crate::rows::{ROWS, run};

pub(crate) fn tests() -> Vec<Trial> {
    let trial = |name: &'static str| Trial::test(format!("rehearsal::{name}"), move || of_a_row(name));
    // What PyTorch needs is its own affair.
    ROWS.iter().map(|(name, ..)| *name).filter(|name| *name != "b9").map(trial).collect()
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
