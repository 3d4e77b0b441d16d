//! The CUDA executor on a real device: `cargo test -p mscclpp-exec --features gpu-tests`. Every built-in algorithm on
//! virtual ranks, graphs, stalls, every type and reduction, specialized kernels and custom kernels; results must be
//! bitwise equal to those of the CPU executor. `MSCCLPP_TEST_PLANS=FOLDER` adds the plans of a folder, `MSCCLPP_SMALL=1`
//! makes messages small. Without a device all are ignored, and the reason is printed.
//!
//! The tests are those of `dev/tests/device`, which runs them on a simulator as well.

#[path = "../../../dev/tests/device/bits.rs"]
mod bits;
#[path = "../../../mscclpp-core/tests/filetests/common.rs"]
mod filetests;
#[path = "../../../dev/tests/device/graphs.rs"]
mod graphs;
#[path = "../../../dev/benches/cuda/hand_written.rs"]
mod hand_written;
#[path = "../../../dev/tests/device/native.rs"]
mod native;
#[path = "../../../dev/tests/device/plans.rs"]
mod plans;
#[path = "../../../dev/tests/device/specialized.rs"]
mod specialized;
#[path = "../../../dev/tests/device/stalls.rs"]
mod stalls;
#[path = "../../../dev/tests/device/streams.rs"]
mod streams;
#[allow(dead_code, reason = "some of what it says of tests only the simulator's ask")]
#[path = "../../../dev/tests/device/suite.rs"]
mod suite;
#[path = "../../../dev/tests/device/timeline.rs"]
mod timeline;
#[path = "../../../dev/tests/device/worlds.rs"]
mod worlds;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use mscclpp_exec::cuda::Device;
use suite::{Rig, Test, at};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Parallel tests would take one another's multiprocessors, and time out.
    arguments.test_threads.get_or_insert(1);
    let device = Device::new(0);
    match &device {
        Ok(device) => println!("cuda: on {}", device.properties()),
        Err(reason) => println!("cuda: ignored: {reason}"),
    }
    libtest_mimic::run(&arguments, suite::on_device(&device, 0)).exit_code()
}
