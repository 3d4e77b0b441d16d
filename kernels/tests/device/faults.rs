//! Driver's calls that fail, one after the other: an error that names the call, and nothing is left behind.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{self, Device, Unavailable, World};
use mscclpp_exec::{DataType, Error, Message, algorithms};
use mscclpp_kernels::{Options, machine, simulator};

use super::bits::shipped;
use super::{at, mock};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("faults::every_call_fails_once", every_call_fails_once),
        Trial::test("faults::every_call_fails_once_on_two_devices", every_call_fails_once_on_two_devices),
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
            if text.contains(
                "has 256 thread blocks of 1024 threads on device 0 (simulated device), which runs 132 of them at once",
            ) {
                Ok(())
            } else {
                Err(text.into())
            }
        }
        other => Err(format!("{other:?}").into()),
    }
}

/// All that a program does with a world of two ranks, with port channels.
fn program(world: &World) -> Result<(), Error> {
    let plan = shipped("allreduce_ring_ports", 2).map_err(|failed| Error::Internal(format!("{failed:?}")))?;
    let mut run = world.prepare(&plan, Message::new(DataType::F32, 40).any_size())?;
    let (mut buffers, stream, other) = (run.buffers()?, world.stream()?, world.stream()?);
    buffers.write_input(0, &[0; 160])?;
    run.launch_buffers(&mut buffers, &other)?;
    run.launch_buffers(&mut buffers, &stream)?;
    let graph = stream.capture(|stream| run.launch_buffers(&mut buffers, stream))?;
    // SAFETY: run and buffers are there until the end.
    unsafe { graph.launch(&stream)? };
    run.synchronize(&stream)?;
    buffers.read_output(1, &mut [0; 160])
}

/// Calls whose failure the program hears of.
const HEARD: [&str; 22] = [
    "cuMemAlloc",
    "cuMemHostAlloc",
    "cuMemsetD8",
    "cuMemcpyHtoD",
    "cuMemcpyDtoH",
    "cuMemcpyAsync",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuLaunchKernel",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamIsCapturing",
    "cuStreamBeginCapture",
    "cuStreamEndCapture",
    "cuStreamWaitEvent",
    "cuStreamWriteValue64",
    "cuGraphLaunch",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuThreadExchangeStreamCaptureMode",
];

/// Calls that give something back, of whose failure nobody can make anything.
const UNHEARD: [&str; 6] =
    ["cuMemFree", "cuMemFreeHost", "cuModuleUnload", "cuStreamDestroy", "cuGraphExecDestroy", "cuEventDestroy"];

/// Calls of CUDA's own that the executor needs besides.
const HEARD_OF_CUDA: [&str; 10] = [
    "cuDeviceGetUuid",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceTotalMem",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemHostGetDevicePointer",
    "cuGraphInstantiate",
];

/// Calls that only several devices need.
const HEARD_OF_SEVERAL: [&str; 2] = ["cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess"];

fn every_call_fails_once() -> Result<(), Failed> {
    each_fails(&HEARD, &UNHEARD, |options| Ok(program(&World::new(&Device::with_driver(simulator(options)?), 2))))
}

fn every_call_fails_once_on_two_devices() -> Result<(), Failed> {
    let heard: Vec<&str> = HEARD.into_iter().chain(HEARD_OF_SEVERAL).collect();
    // That devices are waited for before memory goes back.
    let unheard: Vec<&str> = UNHEARD.into_iter().chain(["cuCtxSynchronize"]).collect();
    each_fails(&heard, &unheard, |options| {
        let devices: Vec<_> = machine(options, 2)?.into_iter().map(Device::with_driver).collect();
        Ok(World::across(&devices, cuda::Options::default()).and_then(|world| program(&world)))
    })
}

/// Memory that is made to be shared.
fn shared_memory(world: &World) -> Result<(), Error> {
    let mut memory = world.alloc(0, 100)?;
    memory.write(&[1; 100])?;
    memory.read(&mut [0; 100])
}

/// Calls that it needs.
const HEARD_OF_SHARED: [&str; 6] = [
    "cuMemGetAllocationGranularity",
    "cuMemCreate",
    "cuMemAddressReserve",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemRelease",
];

/// The same behind CUDA's functions.
pub(crate) fn on_mock(mock: &Result<&'static mock::Driver, String>) -> [Trial; 3] {
    let (one, two, shared) = (mock.clone(), mock.clone(), mock.clone());
    let heard: Vec<&str> = HEARD.into_iter().chain(HEARD_OF_CUDA).collect();
    let heard_of_two: Vec<&str> = heard.iter().copied().chain(HEARD_OF_SEVERAL).collect();
    [
        Trial::test("mock::faults::every_call_fails_once", move || {
            let mock = one?;
            each_fails(&heard, &UNHEARD, |options| match mock.devices(options, 1) {
                Ok(rig) => Ok(program(&World::new(&rig.devices[0], 2))),
                Err(reason) => Ok(Err(reason.into())),
            })
        }),
        Trial::test("mock::faults::every_call_of_shared_memory_fails_once", move || {
            let mock = shared?;
            each_fails(&HEARD_OF_SHARED, &["cuMemUnmap", "cuMemAddressFree"], |options| {
                match mock.devices(options, 1) {
                    Ok(rig) => Ok(shared_memory(&World::new(&rig.devices[0], 1))),
                    Err(reason) => Ok(Err(reason.into())),
                }
            })
        }),
        Trial::test("mock::faults::every_call_fails_once_on_two_devices", move || {
            let mock = two?;
            each_fails(&heard_of_two, &UNHEARD, |options| match mock.devices(options, 2) {
                Ok(rig) => {
                    let world = World::across(&rig.devices, cuda::Options::default());
                    Ok(world.and_then(|world| program(&world)))
                }
                Err(reason) => Ok(Err(reason.into())),
            })
        }),
    ]
}

/// That nothing is left behind is seen to by the simulator when it is dropped.
fn each_fails(
    heard: &[&'static str],
    unheard: &[&'static str],
    run: impl Fn(Options) -> Result<Result<(), Error>, Failed>,
) -> Result<(), Failed> {
    let heard = heard.iter().map(|call| (*call, true));
    for (call, is_heard) in heard.chain(unheard.iter().map(|call| (*call, false))) {
        for nth in 1..=40 {
            let (failing, patience) = (Some((call, nth)), Duration::from_secs(1));
            let place = format!("call {nth} of {call}");
            match run(Options { failing, patience, ..Options::default() })? {
                Err(Error::NoDevice(Unavailable::Driver(error))) if error.call == call => {}
                Err(Error::Driver(error)) => {
                    assert_eq!(Error::from((*error).clone()).code(), Code::DriverFailed);
                    if error.call != call {
                        return Err(at(place, &error.to_string().into()));
                    }
                }
                // There are not so many of them.
                Ok(()) if nth > 1 || !is_heard => break,
                Ok(()) => return Err(at(place, &"nobody heard of it".into())),
                Err(other) => return Err(at(place, &other.to_string().into())),
            }
        }
    }
    Ok(())
}
