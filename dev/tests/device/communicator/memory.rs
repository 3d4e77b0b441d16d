//! Kinds of memory: registered, copied in one piece or several, of cudarc, of other libraries, of other devices.

use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::{CudaContext, CudaSlice};
use libtest_mimic::Failed;
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::{Options, machine, simulator};
use mscclpp_exec::cuda::dlpack::{self, ManagedTensor, Tensor};
use mscclpp_exec::cuda::{Device, DeviceBuffer, DeviceVec, Stream};
use mscclpp_exec::{Communicator, DataType, Error};

use super::{each_on, errors, failure, group_options, in_threads, on_devices};
use crate::mock;
use crate::processes::machine_options;

/// The first copy on a stream fails, so calls that succeed make none.
pub(super) fn registered_call_copies_nothing(seed: u64) -> Result<(), Failed> {
    let options = Options { failing: Some(("cuMemcpyAsync", 1)), ..machine_options(seed, 0, false) };
    let results = each_on(options, 2, 2, group_options(120), |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (mut input, mut output) = (on.alloc::<f32>(40)?, on.alloc::<f32>(80)?);
        input.write(&[1.0; 40])?;
        for _ in 0..3 {
            on.all_gather(&input, &mut output)?;
            on.all_reduce_in_place(&mut output, ReduceOp::Sum)?;
        }
        on.barrier()?;
        on.synchronize()?;
        assert_eq!(output.to_vec()?, [2.0; 80]);
        // Of a call with one registered buffer both are copied.
        let mut other = DeviceVec::<f32>::new(device, 80)?;
        on.all_gather(&input, &mut other)?;
        on.synchronize()?;
        Ok(())
    });
    let found = errors(&results);
    let failed = found.iter().filter(|text| text.contains("cuMemcpyAsync failed")).count();
    if failed > 0 && results.iter().all(Result::is_err) { Ok(()) } else { Err(format!("{found:?}").into()) }
}

pub(super) fn registered_memory_is_freed(seed: u64) -> Result<(), Failed> {
    let drivers = machine(machine_options(seed, 0, false), 2)?;
    let device = |rank: u32| Ok(Device::with_driver(drivers[rank as usize].clone()));
    let run = |comm: &Communicator, device: &Device| -> Result<(), Failed> {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let exists = |address: u64| drivers[comm.rank() as usize].allocation(address).is_ok();
        let mut first = on.alloc::<f32>(16)?;
        let address = first.as_slice().address;
        on.all_reduce_in_place(&mut first, ReduceOp::Sum)?;
        // Rank 1 may still launch on it.
        let kept = (comm.rank() == 1).then_some(first);
        let second = on.alloc::<f32>(16)?;
        assert!(exists(address) && exists(second.as_slice().address));
        drop(kept);
        let third = on.alloc::<f32>(16)?;
        assert!(!exists(address) && exists(second.as_slice().address) && exists(third.as_slice().address));
        Ok(on.synchronize()?)
    };
    in_threads(2, group_options(120), device, run).into_iter().collect()
}

pub(super) fn long_call_is_made_in_pieces(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        comm.set_device_staging_limit(4096)?;
        let input: Vec<u32> = (0..3000).map(|at| at + comm.rank()).collect();
        let (own, mut sum) = (DeviceVec::from_slice(device, &input)?, DeviceVec::<u32>::new(device, 3000)?);
        on.all_reduce(&own, &mut sum, ReduceOp::Sum)?;
        let last = on.last_call()?.ok_or("no call")?;
        assert_eq!((last.num_launches, last.bytes_copied), (3, 24_000));
        let mut all = DeviceVec::<u32>::new(device, 6000)?;
        on.all_gather(&own, &mut all)?;
        assert_eq!(on.last_call()?.ok_or("no call")?.num_launches, 1);
        on.synchronize()?;
        let expected: Vec<u32> = (0..3000).map(|at| 2 * at + 1).collect();
        assert_eq!(sum.to_vec()?, expected);
        let counted: Vec<_> = comm.metrics().calls.iter().map(|calls| (calls.calls, calls.bytes)).collect();
        assert_eq!(counted, [(1, 12_000), (1, 24_000)]);
        let expected: Vec<u32> = (0..3000).chain(1..3001).collect();
        assert_eq!(all.to_vec()?, expected);
        Ok(())
    })
}

pub(super) fn another_device_is_rejected(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let mut own = on.alloc::<f32>(8)?;
        let other = Device::with_driver(simulator(Options::default())?);
        let (foreign, mut memory) = (other.stream()?, DeviceVec::<f32>::new(&other, 8)?);
        for error in [
            failure(comm.on(&foreign).barrier())?,
            failure(comm.on(&foreign).all_reduce_in_place(&mut memory, ReduceOp::Sum))?,
            failure(on.all_reduce(&memory, &mut own, ReduceOp::Sum))?,
        ] {
            assert!(matches!(error, Error::StreamDeviceMismatch { .. }), "{error}");
        }
        on.all_reduce_in_place(&mut own, ReduceOp::Sum)?;
        Ok(on.synchronize()?)
    })
}

pub(super) fn invalid_arguments_are_rejected(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (mut five, mut four) = (DeviceVec::<f32>::new(device, 5)?, DeviceVec::<f32>::new(device, 4)?);
        let length = |error: Error, expected: &str| match error {
            Error::Length { call, .. } if call == expected => Ok(()),
            other => Err(Failed::from(format!("{expected}: {other}"))),
        };
        length(failure(on.all_reduce(&five, &mut four, ReduceOp::Sum))?, "all_reduce")?;
        length(failure(on.all_gather(&five, &mut four))?, "all_gather")?;
        length(failure(on.all_to_all_in_place(&mut five))?, "all_to_all_in_place")?;
        let error = failure(on.broadcast_in_place(&mut four, 2))?;
        assert!(matches!(error, Error::Root { call: "broadcast_in_place", root: 2, .. }), "{error}");
        assert!(five.slice(2..6).is_none() && five.split_at_mut(6).is_none() && five.slice_mut(6..6).is_none());
        on.broadcast_in_place(&mut four, 1)?;
        Ok(on.synchronize()?)
    })
}

/// Number of tensors that were freed.
static FREED: AtomicU32 = AtomicU32::new(0);

/// A tensor that was lent is given back when its calls are complete: its result is there when its deleter is called.
pub(super) fn tensor_is_freed_after_its_calls(seed: u64) -> Result<(), Failed> {
    unsafe extern "C" fn free(tensor: *mut ManagedTensor) {
        FREED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: of `dlpack::export`, whose deleter the context's first word is below.
        unsafe {
            let inner = (*tensor).context.cast::<ManagedTensor>();
            if let Some(delete) = (*inner).deleter {
                delete(inner);
            }
            drop(Box::from_raw(tensor));
        }
    }
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let mut buffer = DeviceBuffer::new(device, 4 * 50)?;
        buffer.write(bytemuck::cast_slice(&[1.0_f32; 50]))?;
        let exported = dlpack::export(buffer, DataType::F32, &[5, 10])?.as_ptr();
        // SAFETY: a valid tensor; the copy refers to the memory of the original, which its context keeps.
        let wrapped = unsafe {
            let tensor = std::ptr::addr_of!((*exported).tensor).read();
            Box::into_raw(Box::new(ManagedTensor { tensor, context: exported.cast(), deleter: Some(free) }))
        };
        // SAFETY: a valid tensor that nothing else owns.
        let tensor = unsafe { Tensor::import(wrapped, device)? };
        let mut sum = DeviceVec::<f32>::new(device, 50)?;
        on.all_reduce(&tensor, &mut sum, ReduceOp::Sum)?;
        // SAFETY: as below; its deleter frees nothing, and it is not used.
        let shifted = unsafe {
            let mut tensor = std::ptr::addr_of!((*exported).tensor).read();
            (tensor.byte_offset, tensor.ndim) = (2, 0);
            let managed = Box::leak(Box::new(ManagedTensor { tensor, context: std::ptr::null_mut(), deleter: None }));
            Tensor::import(managed, device)?
        };
        let wrong = failure(on.broadcast_in_place::<f32>(&mut { shifted }, 0))?;
        assert!(matches!(wrong, Error::Tensor { .. }), "{wrong}");
        let wrong = failure(on.all_reduce::<i32>(&tensor, &mut DeviceVec::new(device, 50)?, ReduceOp::Sum))?;
        assert!(matches!(wrong, Error::ElementType { .. }), "{wrong}");
        // The launch is pending: the simulator reports a copy from memory that was freed.
        drop(tensor);
        on.synchronize()?;
        assert_eq!(sum.to_vec()?, [2.0; 50]);
        assert!(FREED.load(Ordering::Relaxed) > 0);
        Ok(())
    })
}

/// Memory and streams of cudarc, whose order needs no synchronization on the host.
pub(super) fn memory_of_cudarc(seed: u64) -> Result<(), Failed> {
    let mock = mock::driver()?.devices(machine_options(seed, 0, false), 2)?;
    let device = |rank: u32| Ok(mock.devices[rank as usize].clone());
    let run = |comm: &Communicator, device: &Device| -> Result<(), Failed> {
        let context = CudaContext::new(device.ordinal() as usize)?;
        let theirs = context.new_stream()?;
        // SAFETY: a stream of the primary context, which exists until the end.
        let same = unsafe { Stream::from_raw(device, theirs.cu_stream() as usize) };
        for (round, stream) in [same, device.stream()?].iter().enumerate() {
            for _ in 0..2 {
                let input: CudaSlice<f32> = theirs.clone_htod(&[1.0 + round as f32; 60])?;
                let mut output: CudaSlice<f32> = theirs.alloc_zeros(40)?;
                let on = comm.on(stream);
                on.all_reduce(&input.slice(7..37), &mut output.slice_mut(10..40), ReduceOp::Sum)?;
                assert!(on.last_call()?.is_some_and(|last| last.bytes_copied == 240));
                // Freed in the order of its stream, which follows the call.
                drop(input);
                let found = theirs.clone_dtoh(&output)?;
                theirs.synchronize()?;
                let expected = [[0.0; 10].as_slice(), &[2.0 + 2.0 * round as f32; 30]].concat();
                assert_eq!(found, expected);
            }
        }
        Ok(comm.on(&device.stream()?).synchronize()?)
    };
    in_threads(2, group_options(120), device, run).into_iter().collect()
}
