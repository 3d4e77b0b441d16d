//! What is tested on every kind of device: on real ones, here and as `cargo test -p mscclpp-exec --features gpu-tests`, on the simulator,
//! and behind the mock.

use libtest_mimic::{Failed, Trial};
use mscclpp_exec::cuda::{CudaUnavailable, Device};

use super::{bits, graphs, native, plans, specialised, stalls, streams, worlds};

/// A device to test on.
pub(crate) struct Rig {
    pub(crate) device: Device,
    /// Small messages are enough, and all that there is time for: of the simulator, and under tools that slow a device down.
    pub(crate) small: bool,
    /// Of the simulator: another one, another type and reduction.
    pub(crate) seed: u64,
}

/// What a test does.
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

    /// The same, where there is a compiler at run time.
    pub(crate) fn that_compiles(self) -> Self {
        Self { compiles: true, ..self }
    }

    /// The same, where there are CUDA's own functions.
    pub(crate) fn that_calls_cuda(self) -> Self {
        Self { calls_cuda: true, ..self }
    }
}

/// The message of a failure, behind a place.
pub(crate) fn at(place: impl std::fmt::Display, failed: &Failed) -> Failed {
    format!("{place}: {}", failed.message().unwrap_or("no message")).into()
}

/// All tests that need one device and nothing else.
pub(crate) fn tests() -> Vec<Test> {
    let families = [
        plans::tests(),
        graphs::tests(),
        stalls::tests(),
        bits::tests(),
        specialised::tests(),
        native::tests(),
        streams::tests(),
        worlds::tests(),
    ];
    families.into_iter().flatten().collect()
}

/// The tests on a real device; ignored if there is none.
pub(crate) fn on_device(device: &Result<Device, CudaUnavailable>, seed: u64) -> Vec<Trial> {
    let small = std::env::var_os("MSCCLPP_SMALL").is_some();
    let no_compiler = device.as_ref().is_ok_and(|device| device.compiler().is_err());
    let on_device = tests().into_iter().map(|test| {
        let (device, ignored) = (device.clone(), device.is_err() || test.compiles && no_compiler);
        Trial::test(format!("cuda::{}", test.name), move || {
            (test.run)(&Rig { device: device.map_err(|reason| reason.to_string())?, small, seed })
        })
        .with_ignored_flag(ignored)
    });
    on_device.collect()
}
