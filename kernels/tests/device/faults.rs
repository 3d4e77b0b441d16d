//! Driver's calls that fail, one after the other: an error that names the call, and nothing is left behind.

use libtest_mimic::{Failed, Trial};
use mscclpp_exec::cuda::{Device, World};
use mscclpp_exec::{DataType, Error, Message};
use mscclpp_kernels::{Options, simulator};

use super::at;
use super::bits::shipped;

pub(crate) fn tests() -> Vec<Trial> {
    vec![Trial::test("faults::every_call_fails_once", every_call_fails_once)]
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
    let mut named = std::collections::BTreeSet::new();
    for failing_call in 1.. {
        let device = Device::with_driver(simulator(Options { failing_call, ..Options::default() })?);
        let place = format!("call {failing_call}");
        match program(&device) {
            Err(Error::Driver(error)) => drop(named.insert(error.call)),
            // Giving something back failed, of which nobody can make anything; or there are no so many calls.
            Ok(()) if named.len() > 10 && failing_call > 400 => break,
            Ok(()) => {}
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
