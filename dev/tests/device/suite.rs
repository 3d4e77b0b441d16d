//! Tests that run on every kind of device: on real ones, here and as `cargo test -p mscclpp-exec --features gpu-tests`,
//! on the simulator, and on the mock.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_exec::cuda::{CudaUnavailable, Device};

use super::{
    bits, computed_norms, counts, found, graphs, native, plans, row_norms, specialized, stalls, streams, timeline,
    worlds,
};

/// Timeout for incorrect plans on a device that no tool slows down, and on simulated devices, which have a clock of their own.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_millis(200);

/// A device under test.
pub(crate) struct Rig {
    pub(crate) device: Device,
    /// Whether to use small messages only, because there is no time for more: on the simulator, and under tools that
    /// slow a device down.
    pub(crate) small: bool,
    /// Timeout by which incorrect plans stall soon, and correct ones do not.
    pub(crate) stall_timeout: Duration,
    /// Seed of the simulator, which also selects types and reductions.
    pub(crate) seed: u64,
}

/// Body of a test.
type Run = dyn Fn(&Rig) -> Result<(), Failed> + Send + Sync;

/// A test on a device.
pub(crate) struct Test {
    pub(crate) name: String,
    /// Whether it needs a compiler at run time.
    pub(crate) compiles: bool,
    /// Whether it needs CUDA's own functions, or those of the mock.
    pub(crate) calls_cuda: bool,
    pub(crate) run: Box<Run>,
}

impl Test {
    pub(crate) fn new(
        name: impl Into<String>,
        run: impl Fn(&Rig) -> Result<(), Failed> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), compiles: false, calls_cuda: false, run: Box::new(run) }
    }

    /// Restricts the test to devices with a compiler at run time.
    pub(crate) fn that_compiles(self) -> Self {
        Self { compiles: true, ..self }
    }

    /// Restricts the test to devices with CUDA's own functions.
    pub(crate) fn that_calls_cuda(self) -> Self {
        Self { calls_cuda: true, ..self }
    }
}

/// Returns the message of a failure, prefixed with a place.
pub(crate) fn at(place: impl std::fmt::Display, failed: &Failed) -> Failed {
    format!("{place}: {}", failed.message().unwrap_or("no message")).into()
}

/// Returns all tests that need one device and nothing else.
pub(crate) fn tests() -> Vec<Test> {
    let families = [
        plans::tests(),
        found::tests(),
        graphs::tests(),
        timeline::tests(),
        stalls::tests(),
        counts::tests(),
        row_norms::tests(),
        computed_norms::tests(),
        bits::tests(),
        specialized::tests(),
        native::tests(),
        streams::tests(),
        worlds::tests(),
    ];
    families.into_iter().flatten().collect()
}

/// Returns the tests on a real device; ignored if there is none.
pub(crate) fn on_device(device: &Result<Device, CudaUnavailable>, seed: u64) -> Vec<Trial> {
    let small = std::env::var_os("MSCCLPP_SMALL").is_some();
    let no_compiler = device.as_ref().is_ok_and(|device| device.compiler().is_err());
    let on_device = tests().into_iter().map(|test| {
        let (device, ignored) = (device.clone(), device.is_err() || test.compiles && no_compiler);
        Trial::test(format!("cuda::{}", test.name), move || {
            // Kernels under a tool take a multiple of the time.
            let stall_timeout = if small { Duration::from_secs(10) } else { STALL_TIMEOUT };
            (test.run)(&Rig { device: device.map_err(|reason| reason.to_string())?, small, stall_timeout, seed })
        })
        .with_ignored_flag(ignored)
    });
    on_device.collect()
}
