//! Kinds of memory: registered, copied in one piece or several, of cudarc, of other libraries, of other devices.

use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::{CudaContext, CudaSlice};
use libtest_mimic::Failed;
use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::types::{BlockSync, ReduceOp};
use mscclpp_dev::{Options, machine, simulator};
use mscclpp_exec::cuda::dlpack;
use mscclpp_exec::cuda::dlpack::{ManagedTensor, Tensor};
use mscclpp_exec::cuda::{Device, DeviceBuffer, DeviceVec, Stream};
use mscclpp_exec::{DataType, Error};
use mscclpp_macros::collective;
use mscclpp_select::{Algorithm, Choice, LaunchLimits, Registry};

use super::{each_on, errors, failure, group_options, in_threads, on_devices};
use crate::mock;
use crate::processes::machine_options;

/// Elements whose gathered bytes are too many for packets.
const LEN: usize = 40_000;

/// Elements of an all-reduce that are too many for packets.
const LONG: usize = 140_000;

/// The first copy on a stream fails, so calls that succeed make none.
pub(super) fn registered_call_copies_nothing(seed: u64) -> Result<(), Failed> {
    let options = Options { failing: Some(("cuMemcpyAsync", 1)), ..machine_options(seed, 0, false) };
    let results = each_on(options, 2, 2, group_options(120), |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (mut input, mut output) = (on.alloc::<f32>(LEN)?, on.alloc::<f32>(2 * LEN)?);
        input.write(&[1.0; LEN])?;
        for _ in 0..3 {
            on.all_gather(&input, &mut output)?;
            on.all_reduce_in_place(&mut output, ReduceOp::Sum)?;
        }
        on.barrier()?;
        on.synchronize()?;
        assert_eq!(output.to_vec()?, [2.0; 2 * LEN]);
        let mut other = DeviceVec::<f32>::new(device, 2 * LEN)?;
        // Packets go to scratch, whatever the memory.
        let part = input.slice(0..8).ok_or("no part")?;
        on.all_gather::<f32>(&part, &mut other.slice_mut(0..16).ok_or("no part")?)?;
        on.synchronize()?;
        assert_eq!(other.to_vec()?[..17], [&[1.0; 16][..], &[0.0]].concat());
        // Of a call with one registered buffer both are copied.
        on.all_gather(&input, &mut other)?;
        on.synchronize()?;
        Ok(())
    });
    let found = errors(&results);
    let failed = found.iter().filter(|text| text.contains("cuMemcpyAsync failed")).count();
    if failed > 0 && results.iter().all(Result::is_err) { Ok(()) } else { Err(format!("{found:?}").into()) }
}

/// A broadcast whose receiver uses its input as scratch.
#[collective(Broadcast, ranks = [2], allow(clobbered_input), crate = mscclpp_core)]
fn broadcast_through_input(p: &Program) {
    let (root, other) = (p.rank(0), p.rank(1));
    let (to_other, to_root) = (root.memory_channel(other), other.memory_channel(root));
    to_root.signal(0);
    to_other.wait(0).sync(BlockSync::After);
    to_other.put(other.input().chunk(..), root.input().chunk(..), 0);
    to_other.signal(0).sync(BlockSync::Before);
    to_root.wait(0).sync(BlockSync::After);
    other.copy(other.output().chunk(..), other.input().chunk(..), 0);
    root.copy(root.output().chunk(..), root.input().chunk(..), 0);
}

pub(super) fn input_that_a_plan_overwrites_is_copied(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let mut registry = Registry::builtin();
        registry.add(Algorithm::on_demand(broadcast_through_input::algorithm()))?;
        comm.set_registry(registry)?;
        let choice = Choice::named("broadcast_through_input");
        comm.force_algorithm(Some((CollectiveKind::Broadcast, choice)))?;
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (mut input, mut output) = (on.alloc::<u32>(9)?, on.alloc::<u32>(9)?);
        let own = [7 + comm.rank(); 9];
        input.write(&own)?;
        on.broadcast(&input, &mut output, 0)?;
        let last = on.last_call()?.ok_or("no call")?;
        assert!(last.request.registered && last.bytes_copied > 0, "{last:?}");
        on.synchronize()?;
        assert_eq!((input.to_vec()?, output.to_vec()?), (own.to_vec(), vec![7; 9]));
        Ok(())
    })
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
        comm.set_device_staging_limit(1 << 16)?;
        // Packets of pieces need no copies.
        comm.force_algorithm(Some((CollectiveKind::AllReduce, Choice::named("allreduce_all_pairs"))))?;
        let input: Vec<u32> = (0..48_000).map(|at| at + comm.rank()).collect();
        let (own, mut sum) = (DeviceVec::from_slice(device, &input)?, DeviceVec::<u32>::new(device, 48_000)?);
        on.all_reduce(&own, &mut sum, ReduceOp::Sum)?;
        let last = on.last_call()?.ok_or("no call")?;
        assert_eq!((last.num_launches, last.bytes_copied), (3, 2 * 192_000));
        let mut all = DeviceVec::<u32>::new(device, 96_000)?;
        on.all_gather(&own, &mut all)?;
        let last = on.last_call()?.ok_or("no call")?;
        assert_eq!((last.num_launches, last.bytes_copied), (1, 3 * 192_000));
        on.synchronize()?;
        let expected: Vec<u32> = (0..48_000).map(|at| 2 * at + 1).collect();
        assert_eq!(sum.to_vec()?, expected);
        let counted: Vec<_> = comm.metrics().calls.iter().map(|calls| (calls.calls, calls.bytes)).collect();
        assert_eq!(counted, [(1, 192_000), (1, 384_000)]);
        let expected: Vec<u32> = (0..48_000).chain(1..48_001).collect();
        assert_eq!(all.to_vec()?, expected);
        Ok(())
    })
}

pub(super) fn launch_limits_hold(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let mut data = on.alloc::<u32>(1 << 14)?;
        let mut launch = || -> Result<_, Error> {
            data.write(&vec![1; 1 << 14])?;
            on.all_reduce_in_place(&mut data, ReduceOp::Sum)?;
            on.synchronize()?;
            assert_eq!(data.to_vec()?, vec![2; 1 << 14]);
            let call = on.last_call()?.ok_or(Error::Internal("no call".into()))?;
            Ok((call.num_blocks, call.threads_per_block))
        };
        let (blocks, threads) = launch()?;
        assert!(blocks > 6 && threads > 64, "{blocks} blocks of {threads} threads");
        let limits = LaunchLimits { max_blocks: Some(3), max_threads: Some(64) };
        comm.configure(|registry| registry.set_launch_limits(limits))?;
        assert_eq!(launch()?, (6, 64));
        let limits = LaunchLimits { max_blocks: Some(8 + comm.rank()), max_threads: None };
        let error = failure(comm.configure(|registry| registry.set_launch_limits(limits)))?.to_string();
        let [of_0, of_1] = ["8 blocks", "9 blocks"].map(|limit| error.contains(limit));
        assert!(error.contains("launch limit") && of_0 && of_1, "{error}");
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
            assert!(error.to_string().contains("memory or ranks of the call"), "{error}");
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
            // Packets are made from the memory itself.
            for (len, copied) in [(30, 0), (LONG, 8 * LONG as u64), (30, 0), (LONG, 8 * LONG as u64)] {
                let input: CudaSlice<f32> = theirs.clone_htod(&vec![1.0 + round as f32; len + 30])?;
                let mut output: CudaSlice<f32> = theirs.alloc_zeros(len + 10)?;
                let on = comm.on(stream);
                on.all_reduce(&input.slice(7..len + 7), &mut output.slice_mut(10..len + 10), ReduceOp::Sum)?;
                assert!(on.last_call()?.is_some_and(|last| last.bytes_copied == copied));
                // Freed in the order of its stream, which follows the call.
                drop(input);
                let found = theirs.clone_dtoh(&output)?;
                theirs.synchronize()?;
                let expected = [vec![0.0; 10], vec![2.0 + 2.0 * round as f32; len]].concat();
                assert_eq!(found, expected);
            }
        }
        Ok(comm.on(&device.stream()?).synchronize()?)
    };
    in_threads(2, group_options(120), device, run).into_iter().collect()
}
