//! Driver's calls that fail, one after the other: an error that names the call, and nothing is left behind.

use libtest_mimic::{Failed, Trial};
use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{Device, World};
use mscclpp_exec::{DataType, Error, Message, algorithms};
use mscclpp_kernels::{Options, simulator};

use super::at;
use super::bits::shipped;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("faults::every_call_fails_once", every_call_fails_once),
        Trial::test("faults::what_does_not_fit_is_refused", what_does_not_fit_is_refused),
        Trial::test("faults::a_device_that_is_not_there_is_refused", a_device_that_is_not_there_is_refused),
    ]
}

fn a_device_that_is_not_there_is_refused() -> Result<(), Failed> {
    let Err(reason) = Device::new(u32::MAX) else { return Err("there is such a device".into()) };
    match Error::from(reason) {
        error if error.code() == Code::NoDevice => Ok(()),
        other => Err(other.to_string().into()),
    }
}

fn what_does_not_fit_is_refused() -> Result<(), Failed> {
    let device = Device::with_driver(simulator(Options::default())?);
    let algorithm = algorithms::find("allreduce_ring").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(16, 16);
    spec.instances = 16;
    let plan = Plan::new(&algorithm.compile(spec, &[])?);
    match World::new(&device, 16).prepare(&plan, Message::new(DataType::F32, 1600)) {
        Err(error @ Error::NotResident { .. }) if error.code() == Code::NotResident => {
            let text = error.to_string();
            if text.contains("has 256 thread blocks of 1024 threads, the device runs 132 of them at once") {
                Ok(())
            } else {
                Err(text.into())
            }
        }
        other => Err(format!("{other:?}").into()),
    }
}

/// All that a program does with a device, with port channels.
fn program(device: &Device) -> Result<(), Error> {
    let plan = shipped("allreduce_ring_ports", 2).map_err(|failed| Error::Internal(format!("{failed:?}")))?;
    let world = World::new(device, 2);
    let mut run = world.prepare(&plan, Message::new(DataType::F32, 40).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, device.stream()?);
    buffers.write_input(0, &[0; 160])?;
    run.launch_buffers(&mut buffers, &stream)?;
    let graph = stream.capture(|stream| run.launch_buffers(&mut buffers, stream))?;
    // SAFETY: run and buffers are there until the end.
    unsafe { graph.launch(&stream)? };
    run.synchronize(&stream)?;
    buffers.read_output(1, &mut [0; 160])
}

fn every_call_fails_once() -> Result<(), Failed> {
    // Calls in a row that nobody heard of: releases at the end, then none at all.
    const UNHEARD: u32 = 60;
    let mut named = std::collections::BTreeSet::new();
    let mut unheard = 0;
    for failing_call in 1.. {
        if unheard == UNHEARD {
            break;
        }
        let device = Device::with_driver(simulator(Options { failing_call, ..Options::default() })?);
        let place = format!("call {failing_call}");
        match program(&device) {
            Err(Error::Driver(error)) => {
                assert_eq!(Error::from((*error).clone()).code(), Code::DriverFailed);
                named.insert(error.call);
                unheard = 0;
            }
            // Giving something back failed, of which nobody can make anything; or there are not so many calls.
            Ok(()) => unheard += 1,
            Err(other) => return Err(at(place, &other.to_string().into())),
        }
    }
    for call in
        ["cuMemAlloc", "cuMemHostAlloc", "cuMemcpyHtoD", "cuModuleLoadData", "cuLaunchKernel", "cuStreamEndCapture"]
    {
        if !named.contains(call) {
            return Err(format!("{call} is not among {named:?}").into());
        }
    }
    Ok(())
}
