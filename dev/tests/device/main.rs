//! The CUDA executor: its results are bitwise equal to those of the CPU executor.
//!
//! The tests run on a device, if there is one; on the simulator, if there was a C++ compiler to build it; and on the
//! simulator with CUDA's own functions (`dev/mock`), if there is no real driver. Tests that cannot run are ignored, and
//! the reason is printed. Tests of kernels that are compiled at run time do not run on the mock, which loads no machine
//! code.
//!
//! The simulator uses one seed for each test, beginning with `MSCCLPP_SEED` (the day's by default, printed); `MSCCLPP_NUM_SEEDS=50`
//! uses that number of seeds, and runs all plans on the mock as well. `MSCCLPP_TEST_PLANS=FOLDER` adds the plans of a folder;
//! `MSCCLPP_SMALL=1` limits a device to the messages of the simulator.

// On every kind of device: `suite`.
mod bits;
mod computed_norms;
mod counts;
mod found;
mod graphs;
mod native;
mod plans;
mod row_norms;
mod specialized;
mod stalls;
mod streams;
mod suite;
mod timeline;
mod worlds;

// On simulated devices.
mod accesses;
mod bugs;
mod capture_modes;
mod communicator;
mod connections;
mod deadlocks;
mod devices;
mod faults;
mod instructions;
mod machines;
mod mock;
mod nodes;
mod planted;
mod processes;
mod prologue;
mod rehearsal;
mod seeds;
mod starts;
mod switches;
mod tensors;
mod threads;
mod trials;

// Unchecked plans.
#[path = "../../../mscclpp-exec/tests/common/flushed.rs"]
mod flushed;

// Plans with what is expected of them.
#[path = "../../../mscclpp-core/tests/filetests/common.rs"]
mod filetests;

// How many tests run at a time.
#[path = "../../../mscclpp-exec/tests/common/arguments.rs"]
mod arguments;

// Ports that are otherwise unused.
#[path = "../../../mscclpp-exec/tests/common/port.rs"]
mod port;

// The benchmarks, some of which are tested.
#[path = "../../benches/cuda/baselines.rs"]
mod baselines;
#[path = "../../benches/cuda/bench.rs"]
mod bench;
#[path = "../../benches/cuda/calls.rs"]
#[allow(dead_code, reason = "not all of the benchmarks is tried")]
mod calls;
#[path = "../../benches/cuda/compare.rs"]
#[allow(dead_code, reason = "not all of the benchmarks is tried")]
mod compare;
#[path = "../../benches/cuda/hand_written.rs"]
mod hand_written;
#[path = "../../benches/cuda/measure.rs"]
mod measure;
#[path = "../../benches/cuda/norm_kernels.rs"]
mod norm_kernels;
#[path = "../../benches/cuda/rows/mod.rs"]
mod rows;
#[path = "../../benches/cuda/stamps.rs"]
mod stamps;

use std::process::ExitCode;

pub(crate) use suite::{Rig, Test, at};

/// Folder of the simulator's kernels that are compiled at run time.
pub(crate) const CACHE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled");

fn main() -> ExitCode {
    // Tests of compiled kernels ask for them; the others would compile each of their plans.
    // SAFETY: there are no other threads yet.
    unsafe { std::env::set_var("MSCCLPP_KERNELS", "interpreter") };
    threads::run_case();
    if let Some(result) = processes::rank() {
        return result.map_or_else(
            |failed| {
                eprintln!("{}", failed.message().unwrap_or("no message"));
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    libtest_mimic::run(&arguments::arguments(), trials::all()).exit_code()
}
