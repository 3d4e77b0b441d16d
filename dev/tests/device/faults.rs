//! Driver calls that fail, one after the other: the error names the call, and no resource is leaked.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use cudarc::driver::CudaContext;
use cudarc::driver::result::ctx::get_current as current;
use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_dev::{CallCounts, Options, machine, simulator};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{self, CudaUnavailable, Device, DeviceSlice, DriverError, Executor};
use mscclpp_exec::{DataType, Error, Message};

use super::bits::{Pair, shipped};
use super::{CACHE, at, mock, processes, switches};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("faults::every_call_fails_once", every_call_fails_once),
        Trial::test("faults::every_call_fails_once_on_two_devices", every_call_fails_once_on_two_devices),
        Trial::test("faults::call_lists_are_complete", call_lists_are_complete),
        Trial::test("faults::plan_beyond_device_limits_is_rejected", plan_beyond_device_limits_is_rejected),
        Trial::test("faults::illegal_address_fails_all_later_calls", illegal_address_fails_all_later_calls),
        Trial::test("faults::old_driver_runs_kernels_compiled_for_it", old_driver_runs_kernels_compiled_for_it),
        Trial::test("faults::missing_device_is_rejected", missing_device_is_rejected),
        Trial::test("faults::launches_run_though_no_thread_waits", launches_run_though_no_thread_waits),
    ]
}

fn missing_device_is_rejected() -> Result<(), Failed> {
    let Err(reason) = Device::new(u32::MAX) else { return Err("there is such a device".into()) };
    match Error::from(reason) {
        error if error.code() == Code::NoDevice => Ok(()),
        other => Err(other.to_string().into()),
    }
}

fn plan_beyond_device_limits_is_rejected() -> Result<(), Failed> {
    let calls: &'static CallCounts = Box::leak(Box::default());
    let device = Device::with_driver(simulator(Options { calls: Some(calls), ..Options::default() })?);
    let algorithm = algorithms::find("allreduce_ring").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(16, 16);
    spec.instances = 16;
    let plan = Plan::new(&algorithm.compile_tree(spec, &[])?);
    let world = Executor::new(&device, 16);
    let prepared = world.prepare(&plan, Message::new(DataType::F32, 1600));
    let calls = calls.take();
    assert!(calls["cuMemAlloc"] > 0 && calls["cuMemAlloc"] == calls["cuMemFree"], "the plan keeps memory: {calls:?}");
    match prepared {
        Err(error @ Error::NotCoResident { .. }) if error.code() == Code::NotResident => {
            let text = error.to_string();
            if text.contains(
                "has 256 thread blocks of 1024 threads on device 0 (simulated device), where at most 132 of them are \
                 co-resident",
            ) {
                Ok(())
            } else {
                Err(text.into())
            }
        }
        other => Err(format!("{other:?}").into()),
    }
}

/// A driver that rejects kernels of a later toolkit runs kernels that are compiled for it; without a compiler the
/// reason is reported.
fn old_driver_runs_kernels_compiled_for_it() -> Result<(), Failed> {
    let driver = simulator(Options { old: true, ..Options::default() })?;
    let device = Device::with_cache(driver, Cache::at(CACHE));
    let plan = shipped("allreduce_ring", 2)?;
    let message = Message::new(DataType::F32, 64).any_size();
    Pair::new(&Executor::new(&device, 2), &plan, message)?.ok_or("too many thread blocks")?.check(2)?;
    let refused = DriverError {
        call: "cuModuleLoadData",
        code: 209,
        name: "CUDA_ERROR_NO_BINARY_FOR_GPU".into(),
        text: "no kernel image is available for execution on the device".into(),
    };
    assert!(refused.is_image_error());
    for (refused, reason) in [
        (
            Some(Box::new(refused)),
            ": cuModuleLoadData failed: CUDA_ERROR_NO_BINARY_FOR_GPU (209): no kernel image is available for execution on the \
             device",
        ),
        (None, ""),
    ] {
        let error = Error::from(CudaUnavailable::Kernels {
            device: "device 0 (NVIDIA H200)".into(),
            kernels: "f8e4m3_f32",
            driver: 12_080,
            refused,
            none: "no run-time compiler".into(),
        });
        assert_eq!(error.code(), Code::NoDevice);
        let expected = format!(
            "device 0 (NVIDIA H200) cannot load the kernels `f8e4m3_f32` of this library{reason}; the driver supports CUDA 12.8: \
             install one for CUDA 13.0 or later, or a version of NVRTC that matches the driver and can compile them (no run-time \
             compiler)"
        );
        assert_eq!(error.to_string(), expected);
    }
    Ok(())
}

/// Where kernels start at their launch, one that is launched while the run before it ends starts as well.
fn launches_run_though_no_thread_waits() -> Result<(), Failed> {
    let devices = machine(Options { starts_at_launch: true, ..Options::default() }, 2)?;
    let device = Device::with_driver(devices.into_iter().next().ok_or("no device")?);
    let algorithm = algorithms::find("allreduce_packets").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(2, 2);
    spec.collective.in_place = false;
    let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
    let world = Executor::new(&device, 2);
    let mut run = world.prepare(&plan, Message::new(DataType::I32, 2).any_size())?;
    let stream = world.stream()?;
    let memory = [world.alloc(0, 8)?, world.alloc(0, 8)?, world.alloc(1, 8)?, world.alloc(1, 8)?];
    let slices: Vec<_> = memory.iter().map(|memory| memory.as_slice()).collect();
    // SAFETY: memory of a simulated device is memory of this process, and exists until the end.
    let first = |slice: &DeviceSlice| unsafe { &*(slice.address as *const AtomicI32) };
    // Ten times each of the different times, and many more with several seeds.
    let rounds = if std::env::var_os("MSCCLPP_NUM_SEEDS").is_some() { 20_000 } else { 1_280 };
    for round in 1..=rounds {
        // At a different time after the end of the launch before it.
        (0..round % 128 * 32).for_each(|_| std::hint::spin_loop());
        // No launch is pending that reads the inputs.
        [0, 2].into_iter().for_each(|input| first(&slices[input]).store(round, Relaxed));
        // SAFETY: the memory exists until the end.
        unsafe { run.launch(slices.chunks_exact(2).map(|rank| [rank[0], rank[1]]), &stream)? };
        let begin = Instant::now();
        while [1, 3].into_iter().any(|output| first(&slices[output]).load(Relaxed) != 2 * round) {
            if begin.elapsed() > Duration::from_secs(20) {
                return Err(format!("launch {round} has not run").into());
            }
            std::thread::yield_now();
        }
    }
    Ok(run.synchronize(&stream)?)
}

/// All calls that a program makes with an executor of two ranks, with port channels.
fn program(world: &Executor) -> Result<(), Error> {
    let plan = shipped("allreduce_ring_ports", 2).map_err(|failed| Error::Internal(format!("{failed:?}")))?;
    let mut run = world.prepare(&plan, Message::new(DataType::F32, 41).any_size())?;
    let (mut buffers, stream, other) = (run.buffers()?, world.stream()?, world.stream()?);
    buffers.write_input(0, &[0; 164])?;
    let counter = world.alloc(0, 8)?;
    let address = counter.as_slice().address;
    // SAFETY: the memory exists until the stream is synchronized, and nothing else accesses it.
    unsafe { stream.write_value(address, 1).and_then(|()| stream.wait_value(address, 1))? };
    let begin = stream.event()?;
    run.launch_buffers(&mut buffers, &other)?;
    run.launch_buffers(&mut buffers, &stream)?;
    let graph = stream.capture(|stream| run.launch_buffers(&mut buffers, stream));
    // If a launch aborted before it, a capture reports only that; the next call reports the cause.
    let graph = match graph {
        Err(error @ Error::Capturing { .. }) => run.synchronize(&stream).and(Err(error)),
        graph => graph,
    }?;
    // SAFETY: prepared plan and buffers exist until the end.
    unsafe { graph.launch(&stream)? };
    let end = stream.event()?;
    stream.is_idle()?;
    run.synchronize(&stream)?;
    assert!(end.microseconds_since(&begin)? > 0.0, "the time of two launches");
    buffers.read_output(1, &mut [0; 164])
}

/// Calls whose failure is reported to the program.
const REPORTED: [&str; 28] = [
    "cuMemAlloc",
    "cuMemHostAlloc",
    "cuMemcpyHtoDAsync",
    "cuMemcpyDtoHAsync",
    "cuMemcpyAsync",
    "cuMemsetD8Async",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuLaunchKernel",
    "cuStreamCreate",
    "cuStreamCreateWithPriority",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamIsCapturing",
    "cuStreamGetCaptureInfo",
    "cuStreamBeginCapture",
    "cuStreamEndCapture",
    "cuStreamWaitEvent",
    "cuStreamWaitValue64",
    "cuStreamWriteValue64",
    "cuGraphLaunch",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventRecordWithFlags",
    "cuEventQuery",
    "cuEventElapsedTime",
    "cuThreadExchangeStreamCaptureMode",
];

/// Calls that release resources, whose failure is not reported.
const UNREPORTED: [&str; 7] = [
    // The wait before memory is freed.
    "cuCtxSynchronize",
    "cuMemFree",
    "cuMemFreeHost",
    "cuModuleUnload",
    "cuStreamDestroy",
    "cuGraphExecDestroy",
    "cuEventDestroy",
];

/// Additional calls of CUDA's driver that the executor needs.
const REPORTED_WITH_CUDA: [&str; 16] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGetUuid",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceTotalMem",
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuCtxGetStreamPriorityRange",
    "cuCtxSetCurrent",
    "cuFuncLoad",
    "cuMemHostGetDevicePointer",
    "cuGraphInstantiate",
];

/// Calls that only several devices need.
const REPORTED_WITH_SEVERAL_DEVICES: [&str; 2] = ["cuDeviceCanAccessPeer", "cuCtxEnablePeerAccess"];

/// Calls of CUDA's driver that several devices need in addition; a failure to release the last contexts is not
/// reported.
const REPORTED_WITH_SEVERAL_CUDA_DEVICES: [&str; 1] = ["cuDevicePrimaryCtxRelease"];

/// The lists here and in other tests contain every call that the executor names.
fn call_lists_are_complete() -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mscclpp-cuda/src/libcuda");
    let lists = [
        &REPORTED[..],
        &UNREPORTED,
        &REPORTED_WITH_CUDA,
        &REPORTED_WITH_SEVERAL_DEVICES,
        &REPORTED_WITH_SEVERAL_CUDA_DEVICES,
    ];
    let lists = [&REPORTED_FOR_SHARED[..], &UNREPORTED_FOR_SHARED].into_iter().chain(lists).flatten().copied();
    let others = processes::CALLS.iter().map(|(call, _)| *call).chain(switches::calls());
    let tried: BTreeSet<&str> = lists.chain(others).collect();
    let mut named = 0;
    for file in std::fs::read_dir(folder)? {
        let file = file?.path();
        let text = std::fs::read_to_string(&file)?;
        for (at, _) in text.match_indices("named(") {
            let call = text[at..].trim_start_matches("named(").trim_start().strip_prefix('"');
            let Some(call) = call.and_then(|call| call.split('"').next()) else { continue };
            if !tried.contains(call) {
                return Err(format!("{}: {call} never fails in a test", file.display()).into());
            }
            named += 1;
        }
    }
    if named > 60 { Ok(()) } else { Err(format!("only {named} calls found").into()) }
}

fn every_call_fails_once() -> Result<(), Failed> {
    each_fails(&REPORTED, &UNREPORTED, |options| {
        Ok(program(&Executor::new(&Device::with_driver(simulator(options)?), 2)))
    })
}

fn every_call_fails_once_on_two_devices() -> Result<(), Failed> {
    let heard: Vec<&str> = REPORTED.into_iter().chain(REPORTED_WITH_SEVERAL_DEVICES).collect();
    each_fails(&heard, &UNREPORTED, |options| {
        let devices: Vec<_> = machine(options, 2)?.into_iter().map(Device::with_driver).collect();
        Ok(Executor::with_devices(&devices, cuda::Options::default()).and_then(|world| program(&world)))
    })
}

/// After an illegal address a driver rejects all calls: that is reported, no wait is endless, and no destructor panics.
fn illegal_address_fails_all_later_calls() -> Result<(), Failed> {
    for call in REPORTED {
        for nth in 1..=40 {
            let options = Options { failing: Some((call, nth)), sticky: true, ..Options::default() };
            match program(&Executor::new(&Device::with_driver(simulator(options)?), 2)) {
                Err(Error::Driver(error)) if error.code == 700 => {}
                Ok(()) if nth > 1 => break,
                other => return Err(at(format!("call {nth} of {call}"), &format!("{other:?}").into())),
            }
        }
    }
    Ok(())
}

/// Memory that is allocated to be shared.
fn shared_memory(world: &Executor) -> Result<(), Error> {
    let mut memory = world.alloc(0, 100)?;
    memory.write(&[1; 100])?;
    memory.read(&mut [0; 100])
}

/// Calls that allocate it.
const REPORTED_FOR_SHARED: [&str; 6] = [
    "cuMemGetAllocationGranularity",
    "cuMemCreate",
    "cuMemAddressReserve",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemRelease",
];

/// Calls that release it.
const UNREPORTED_FOR_SHARED: [&str; 2] = ["cuMemUnmap", "cuMemAddressFree"];

/// A thread's current context of another library is unchanged after calls to an executor on other devices.
fn context_of_caller_is_unchanged(mock: &'static mock::Driver) -> Result<(), Failed> {
    let rig = mock.devices(Options::default(), 3)?;
    let theirs = CudaContext::new(rig.devices[0].ordinal() as usize)?;
    theirs.bind_to_thread()?;
    let before = current()?;
    assert!(before.is_some());
    program(&Executor::with_devices(&rig.devices[1..], cuda::Options::default())?)?;
    assert_eq!(current()?, before);
    Ok(())
}

/// Asks for the current device of the thread.
fn current_device() -> Result<(), Error> {
    Ok(cuda::current_device().map(drop)?)
}

/// Fault injection with CUDA's functions of the mock driver.
pub(crate) fn on_mock(mock: &Result<&'static mock::Driver, String>) -> [Trial; 4] {
    let (one, two, shared, current) = (mock.clone(), mock.clone(), mock.clone(), mock.clone());
    let heard: Vec<&str> = REPORTED.into_iter().chain(REPORTED_WITH_CUDA).collect();
    let heard_of_two: Vec<&str> =
        heard.iter().copied().chain(REPORTED_WITH_SEVERAL_DEVICES).chain(REPORTED_WITH_SEVERAL_CUDA_DEVICES).collect();
    [
        Trial::test("mock::context_of_caller_is_unchanged", move || context_of_caller_is_unchanged(current?)),
        Trial::test("mock::faults::every_call_fails_once", move || {
            let mock = one?;
            each_fails(&heard, &UNREPORTED, |options| match mock.devices(options, 1) {
                Ok(rig) => Ok(current_device().and_then(|()| program(&Executor::new(&rig.devices[0], 2)))),
                Err(reason) => Ok(Err(reason.into())),
            })
        }),
        Trial::test("mock::faults::every_call_of_shared_memory_fails_once", move || {
            let mock = shared?;
            each_fails(&REPORTED_FOR_SHARED, &UNREPORTED_FOR_SHARED, |options| match mock.devices(options, 1) {
                Ok(rig) => Ok(shared_memory(&Executor::new(&rig.devices[0], 1))),
                Err(reason) => Ok(Err(reason.into())),
            })
        }),
        Trial::test("mock::faults::every_call_fails_once_on_two_devices", move || {
            let mock = two?;
            each_fails(&heard_of_two, &UNREPORTED, |options| match mock.devices(options, 2) {
                Ok(rig) => {
                    let world = Executor::with_devices(&rig.devices, cuda::Options::default());
                    Ok(world.and_then(|world| current_device().and_then(|()| program(&world))))
                }
                Err(reason) => Ok(Err(reason.into())),
            })
        }),
    ]
}

/// The simulator checks for leaks when it is dropped.
fn each_fails(
    heard: &[&'static str],
    unheard: &[&'static str],
    run: impl Fn(Options) -> Result<Result<(), Error>, Failed>,
) -> Result<(), Failed> {
    let heard = heard.iter().map(|call| (*call, true));
    for (call, is_reported) in heard.chain(unheard.iter().map(|call| (*call, false))) {
        for nth in 1..=40 {
            let place = format!("call {nth} of {call}");
            // A thread of the host may be late on a busy machine: then the test is repeated with a longer timeout.
            let mut result = Ok(());
            for seconds in [1, 30] {
                let (failing, patience) = (Some((call, nth)), Duration::from_secs(seconds));
                result = run(Options { failing, patience, ..Options::default() })?;
                if !matches!(result, Err(Error::Stalled(_))) {
                    break;
                }
            }
            match result {
                Err(Error::NoDevice(CudaUnavailable::Driver(error))) if error.call == call => {}
                Err(Error::Driver(error)) => {
                    assert_eq!(Error::from((*error).clone()).code(), Code::DriverFailed);
                    if error.call != call {
                        return Err(at(place, &error.to_string().into()));
                    }
                }
                // The call is made fewer times than this.
                Ok(()) if nth > 1 || !is_reported => break,
                Ok(()) => return Err(at(place, &"nobody heard of it".into())),
                Err(other) => return Err(at(place, &other.to_string().into())),
            }
        }
    }
    Ok(())
}
