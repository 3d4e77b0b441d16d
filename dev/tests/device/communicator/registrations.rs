//! Memory of callers that is registered with a communicator.

use libtest_mimic::Failed;
use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::{Options, simulator};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceVec, Registered};
use mscclpp_exec::error::ErrorKind;

use super::{failure, group_options, in_threads, on_devices};
use crate::processes::machine_options;

/// Elements whose bytes are too many for packets.
const LEN: usize = 140_000;

fn new(device: &Device, value: u32) -> Result<DeviceVec<u32>, Error> {
    DeviceVec::from_slice(device, &vec![value; LEN])
}

/// Registers memory, uses it and parts of it, and frees it.
fn work(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    let stream = device.stream()?;
    let (on, rank) = (comm.on(&stream), comm.rank());
    for round in 0..3 {
        let mut input: Registered<_> = on.register(new(device, round + rank)?)?;
        let mut output = on.register(new(device, 0)?)?;
        on.all_reduce(&input, &mut output, ReduceOp::Sum)?;
        assert!(on.last_call()?.is_some_and(|last| last.request.registered && last.bytes_copied == 0));
        on.synchronize()?;
        assert_eq!(output.to_vec()?, vec![2 * round + 1; LEN]);
        let part = input.slice(10..LEN - 1).ok_or("no part")?;
        on.all_reduce(&part, &mut output.slice_mut(11..LEN).ok_or("no part")?, ReduceOp::Max)?;
        assert!(on.last_call()?.is_some_and(|last| last.request.registered && last.bytes_copied == 0));
        on.synchronize()?;
        assert_eq!(output.to_vec()?, [vec![2 * round + 1; 11], vec![round + 1; LEN - 11]].concat());
        assert!(input.slice::<u32>(0..LEN + 1).is_none() && input.slice_mut::<u32>(LEN + 1..LEN + 1).is_none());
        // Another communicator copies it.
        let other = comm.split(Some(0), rank)?.ok_or("no communicator")?;
        other.on(&stream).all_reduce_in_place(&mut input, ReduceOp::Sum)?;
        let last = other.on(&stream).last_call()?;
        assert!(last.is_some_and(|last| !last.request.registered && last.bytes_copied > 0));
        other.on(&stream).synchronize()?;
    }
    Ok(on.synchronize()?)
}

pub(super) fn memory_of_callers_is_used_in_place(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, work)?;
    // Mapped by handles.
    let device = |rank| Ok(Device::with_driver(simulator(machine_options(seed, rank, false))?));
    in_threads(2, group_options(120), device, work).into_iter().collect()
}

/// Every call that shares or maps memory fails once on rank 1.
pub(super) fn memory_that_cannot_be_shared_is_reported(seed: u64) -> Result<(), Failed> {
    for call in ["cuMemGetAddressRange", "cuIpcGetMemHandle", "cuIpcOpenMemHandle"] {
        let device = |rank| {
            let failing = (rank == 1).then_some((call, 1));
            // Internal memory is sent as files.
            Ok(Device::with_driver(simulator(Options { failing, ..machine_options(seed, rank, false) })?))
        };
        let run = |comm: &Communicator, device: &Device| -> Result<(), Failed> {
            let stream = device.stream()?;
            let on = comm.on(&stream);
            let not_registered = on.register(new(device, 1)?).err().ok_or("it was registered")?;
            let (mut memory, error) = (not_registered.memory, not_registered.error);
            let told = (error.kind(), error.root_cause().map(|cause| cause.rank));
            assert_eq!(told, (ErrorKind::Unsupported, Some(1)), "{error}");
            assert!(error.to_string().contains(call), "{error}");
            // The memory and the communicator are as before.
            on.all_reduce_in_place(&mut memory, ReduceOp::Sum)?;
            let mut memory = on.register(memory)?;
            on.all_reduce_in_place(&mut memory, ReduceOp::Sum)?;
            on.synchronize()?;
            assert_eq!(memory.to_vec()?, vec![4; LEN]);
            Ok(())
        };
        let results: Result<(), Failed> = in_threads(2, group_options(120), device, run).into_iter().collect();
        results.map_err(|failed| crate::at(call, &failed))?;
    }
    Ok(())
}

pub(super) fn different_registrations_are_reported(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let memory = DeviceVec::<u32>::new(device, 10 + comm.rank() as usize)?;
        let error = failure(comm.on(&stream).register(memory).map_err(Error::from))?;
        let text = error.to_string();
        let names_both = ["registration of 40 bytes", "registration of 44 bytes", "registrations.rs:"];
        assert!(names_both.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        Ok(())
    })
}
