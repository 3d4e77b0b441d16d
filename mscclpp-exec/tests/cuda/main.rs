//! The CUDA executor on a device: its results are those of the CPU executor, bit for bit. Without a device all of it is
//! ignored, and the reason printed.

mod bits;
mod graphs;
mod plans;
mod stalls;

use libtest_mimic::{Arguments, Failed, Trial};
use mscclpp_exec::cuda::Device;

/// A test on a device.
type Test = fn(&Device) -> Result<(), Failed>;

fn main() {
    let arguments = Arguments::from_args();
    let device = Device::new(0);
    match &device {
        Ok(device) => println!("on {}", device.properties()),
        Err(reason) => println!("ignored: {reason}"),
    }
    let tests = plans::tests().into_iter().chain(graphs::tests()).chain(stalls::tests()).chain(bits::tests());
    let trials = tests
        .map(|(name, test)| {
            let device = device.clone();
            let ignored = device.is_err();
            Trial::test(name, move || test(&device.map_err(|reason| reason.to_string())?)).with_ignored_flag(ignored)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit();
}

/// Tests by name.
type Tests = Vec<(String, Box<dyn FnOnce(&Device) -> Result<(), Failed> + Send>)>;

/// Tests that are functions.
fn functions(tests: &[(&str, Test)]) -> Tests {
    tests.iter().map(|&(name, test)| (name.to_owned(), Box::new(test) as Box<_>)).collect()
}
