//! Captured calls that were never made before: the capture connects the ranks, allocates, prepares plans and binds memory.

use std::sync::{Barrier, OnceLock};
use std::time::Duration;

use libtest_mimic::Failed;
use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::{Options, machine};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceVec, Stream};
use mscclpp_select::{Choice, Config};

use super::{each_on, failure, group_options, in_threads, on_devices};
use crate::mock;
use crate::processes::machine_options;

/// The first calls of a communicator, of several kinds, in one capture; its replays between eager calls.
pub(super) fn replayed(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    let (stream, rank, ranks) = (device.stream()?, comm.rank(), comm.num_ranks());
    let on = comm.on(&stream);
    let len = 24 * ranks as usize;
    let (mut own, mut sum) = (DeviceVec::<u32>::new(device, 70)?, DeviceVec::<u32>::new(device, 70)?);
    let mut long = DeviceVec::<u32>::new(device, 1300)?;
    let mut part = DeviceVec::<u32>::new(device, 24)?;
    let memory = OnceLock::new();
    let graph = stream.capture(|stream| {
        let on = comm.on(stream);
        let (mut registered, mut gathered) = (on.alloc::<u32>(33)?, on.alloc::<u32>(len)?);
        on.all_reduce_in_place(&mut registered, ReduceOp::Sum)?;
        on.all_reduce(&own, &mut sum, ReduceOp::Sum)?;
        on.barrier()?;
        on.all_reduce_in_place(&mut long, ReduceOp::Max)?;
        on.all_gather(&part, &mut gathered)?;
        on.reduce_scatter_in_place(&mut gathered, ReduceOp::Sum)?;
        drop(memory.set((registered, gathered)));
        Ok(())
    })?;
    let (mut registered, gathered) = memory.into_inner().ok_or("no memory")?;
    for round in 0..20 {
        registered.write(&[round + rank; 33])?;
        own.write(&[round * (rank + 1); 70])?;
        long.write(&[round + 7 * rank; 1300])?;
        part.write(&[round; 24])?;
        // SAFETY: memory and communicator exist until the stream is synchronized.
        unsafe { graph.launch(&stream)? };
        if round % 3 == 0 {
            // The same calls, made eagerly.
            on.all_reduce_in_place(&mut registered, ReduceOp::Sum)?;
            on.all_reduce_in_place(&mut long, ReduceOp::Max)?;
            on.barrier()?;
        }
        on.synchronize()?;
        let once = ranks * round + ranks * (ranks - 1) / 2;
        assert_eq!(registered.to_vec()?, [if round % 3 == 0 { ranks * once } else { once }; 33]);
        assert_eq!(sum.to_vec()?, [round * ranks * (ranks + 1) / 2; 70]);
        assert_eq!(long.to_vec()?, [round + 7 * (ranks - 1); 1300]);
        let own_part = rank as usize * 24..(rank as usize + 1) * 24;
        assert_eq!(gathered.to_vec()?[own_part], [ranks * round; 24]);
    }
    Ok(())
}

pub(super) fn first_calls_are_captured(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, replayed)?;
    on_devices(seed, 2, 1, replayed)?;
    on_devices(seed, 4, 2, replayed)?;
    on_devices(seed, 1, 1, replayed)?;
    // In CUDA's global mode the calls of all threads count.
    let global = Options { global_captures: true, ..machine_options(seed, 0, false) };
    let first_call = |comm: &Communicator, device: &Device| -> Result<(), Failed> {
        let (stream, mut own) = (device.stream()?, DeviceVec::<u32>::from_slice(device, &[2; 50])?);
        ready(comm)?;
        let graph = stream.capture(|stream| comm.on(stream).all_reduce_in_place(&mut own, ReduceOp::Sum));
        ready(comm)?;
        // SAFETY: memory and communicator exist until the stream is synchronized.
        unsafe { graph?.launch(&stream)? };
        comm.on(&stream).synchronize()?;
        assert_eq!(own.to_vec()?, [4; 50]);
        Ok(())
    };
    each_on(global, 2, 2, group_options(120), first_call).into_iter().collect()
}

/// Waits for the other ranks on the host: unsafe calls of one would invalidate the captures of the others.
fn ready(comm: &Communicator) -> Result<(), Error> {
    comm.barrier()
}

/// Set-up that forgot to change the mode of its thread is detected.
pub(super) fn set_up_in_an_unsafe_mode_is_detected(seed: u64) -> Result<(), Failed> {
    let options = Options { bug: Some("lost_modes"), ..machine_options(seed, 0, false) };
    let first_call = |comm: &Communicator, device: &Device| -> Result<(), Failed> {
        let (stream, mut own) = (device.stream()?, DeviceVec::<u32>::new(device, 50)?);
        let captured = stream.capture(|stream| comm.on(stream).all_reduce_in_place(&mut own, ReduceOp::Sum));
        let error = failure(captured)?;
        assert!(error.to_string().contains("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"), "{error}");
        Ok(())
    };
    each_on(options, 1, 1, group_options(120), |comm, device| {
        let captured = device.stream()?.capture(|stream| comm.on(stream).alloc::<u32>(50).map(drop));
        let error = failure(captured)?;
        assert!(error.to_string().contains("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"), "{error}");
        Ok(())
    })
    .into_iter()
    .collect::<Result<(), Failed>>()?;
    // Of two ranks at least one reports it as its own.
    let results = each_on(options, 2, 2, group_options(120), first_call);
    if results.iter().any(Result::is_ok) { Ok(()) } else { Err(format!("{results:?}").into()) }
}

/// Rank 0 captures what the others call eagerly. Its first replay belongs to their calls.
pub(super) fn one_rank_captures_what_others_call(seed: u64) -> Result<(), Failed> {
    for devices in [2, 1] {
        on_devices(seed, 2, devices, |comm, device| {
            let (stream, rank) = (device.stream()?, comm.rank());
            let on = comm.on(&stream);
            let mut own = DeviceVec::<u32>::from_slice(device, &[rank + 1; 90])?;
            let (mut sum, memory) = (DeviceVec::<u32>::new(device, 90)?, OnceLock::new());
            let mut call = |stream: &mscclpp_exec::cuda::Stream| {
                let on = comm.on(stream);
                let mut registered = on.alloc::<u32>(40)?;
                on.all_reduce(&own, &mut sum, ReduceOp::Sum)?;
                on.barrier()?;
                on.all_reduce_in_place(&mut registered, ReduceOp::Max)?;
                drop(memory.set(registered));
                Ok(())
            };
            let graph = match rank {
                0 => Some(stream.capture(call)?),
                _ => call(&stream).map(|()| None)?,
            };
            if let Some(graph) = &graph {
                // SAFETY: memory and communicator exist until the stream is synchronized.
                unsafe { graph.launch(&stream)? };
            }
            on.synchronize()?;
            assert_eq!(sum.to_vec()?, [3; 90]);
            // All of it is prepared on both, and nothing is out of step.
            for round in 0..6 {
                own.write(&[round + rank; 90])?;
                on.all_reduce(&own, &mut sum, ReduceOp::Sum)?;
                on.synchronize()?;
                assert_eq!(sum.to_vec()?, [2 * round + 1; 90]);
            }
            let _ = memory;
            Ok(())
        })?;
    }
    Ok(())
}

/// Transfers between two ranks, whose connections the capture makes too.
pub(super) fn first_transfers_are_captured(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 3, 3, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let (mut sent, mut received) = (DeviceVec::<u32>::new(device, 40)?, DeviceVec::<u32>::new(device, 40)?);
        let graph = stream.capture(|stream| {
            let on = comm.on(stream);
            match rank {
                0 => on.send(&sent, 2),
                2 => on.recv(&mut received, 0),
                _ => Ok(()),
            }
        })?;
        for round in 0..6 {
            sent.write(&[round + rank; 40])?;
            // SAFETY: memory and communicator exist until the stream is synchronized.
            unsafe { graph.launch(&stream)? };
            comm.on(&stream).synchronize()?;
            assert_eq!(received.to_vec()?, [if rank == 2 { round } else { 0 }; 40]);
        }
        Ok(())
    })
}

/// Replays of a captured send follow the sends before it and precede those after it, whether the receiver has called or not.
pub(super) fn captured_sends_keep_their_order(seed: u64) -> Result<(), Failed> {
    const LEN: usize = 3_000;
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let on = comm.on(&stream);
        let (mut captured, mut eager) = (DeviceVec::<u32>::new(device, LEN)?, DeviceVec::<u32>::new(device, LEN)?);
        let make = |memory: &mut DeviceVec<u32>, stream: &Stream| match rank {
            0 => comm.on(stream).send(memory, 1),
            _ => comm.on(stream).recv(memory, 0),
        };
        // Buffered, as the other rank calls later.
        if rank == 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
        eager.write(&[7; LEN])?;
        make(&mut eager, &stream)?;
        make(&mut eager, &stream)?;
        let graph = stream.capture(|stream| make(&mut captured, stream))?;
        for round in 0..6 {
            on.synchronize()?;
            captured.write(&[if rank == 0 { 2 * round } else { 99 }; LEN])?;
            eager.write(&[if rank == 0 { 2 * round + 1 } else { 99 }; LEN])?;
            if rank == 1 {
                std::thread::sleep(Duration::from_millis(u64::from(round)));
            }
            make(&mut eager, &stream)?;
            // SAFETY: memory and communicator exist until the stream is synchronized.
            unsafe { graph.launch(&stream)? };
            on.synchronize()?;
            assert_eq!((captured.to_vec()?, eager.to_vec()?), (vec![2 * round; LEN], vec![2 * round + 1; LEN]));
        }
        Ok(())
    })
}

/// Internal buffers and scratch grow in later captures, and calls after them; earlier graphs keep theirs.
pub(super) fn buffers_grow_in_later_captures(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let on = comm.on(&stream);
        // The internal buffers have at least 64 KiB, scratch has more elements with each call.
        let lens = [20, 300, 2_000, 17_000, 33_000];
        let mut all = Vec::new();
        for (number, len) in (0_u32..).zip(lens) {
            // Set up while the launches of the last round are pending.
            let mut memory = DeviceVec::<u32>::new(device, len)?;
            let graph = match number % 3 {
                1 => None,
                _ => Some(stream.capture(|stream| comm.on(stream).all_reduce_in_place(&mut memory, ReduceOp::Sum))?),
            };
            on.synchronize()?;
            for (at, (_, memory)) in all.iter().enumerate() {
                let memory: &DeviceVec<u32> = memory;
                assert_eq!(memory.to_vec()?, vec![2 * number - 1; lens[at]], "{at} before {number}");
            }
            all.push((graph, memory));
            for (at, (graph, memory)) in all.iter_mut().enumerate() {
                memory.write(&vec![number + rank; lens[at]])?;
                match graph {
                    // SAFETY: memory and communicator exist until the stream is synchronized.
                    Some(graph) => unsafe { graph.launch(&stream)? },
                    None => on.all_reduce_in_place(memory, ReduceOp::Sum)?,
                }
            }
        }
        Ok(on.synchronize()?)
    })
}

/// With the functions of CUDA, in processes of their own.
pub(super) fn on_mock(seed: u64) -> Result<(), Failed> {
    let mock = mock::driver()?.devices(machine_options(seed, 0, false), 2)?;
    let device = |rank: u32| Ok(mock.devices[rank as usize].clone());
    in_threads(2, group_options(120), device, replayed).into_iter().collect()
}

/// A wait in a capture is rejected, and the call is one of the next capture.
pub(super) fn wait_in_capture_is_rejected(seed: u64) -> Result<(), Failed> {
    let turn = Barrier::new(2);
    on_devices(seed, 2, 2, move |comm, device| {
        let (stream, mut own) = (device.stream()?, DeviceVec::<u32>::from_slice(device, &[1; 20])?);
        let rejected = stream.capture(|stream| {
            comm.on(stream).all_reduce_in_place(&mut own, ReduceOp::Sum)?;
            comm.on(stream).synchronize()
        });
        let error = failure(rejected)?;
        assert!(matches!(error, Error::Capturing { .. }), "{error}");
        turn.wait();
        let graph = stream.capture(|stream| comm.on(stream).all_reduce_in_place(&mut own, ReduceOp::Sum))?;
        // SAFETY: memory and communicator exist until the stream is synchronized.
        unsafe { graph.launch(&stream)? };
        comm.on(&stream).synchronize()?;
        assert_eq!(own.to_vec()?, [2; 20]);
        Ok(())
    })
}

/// Algorithms and their configurations are set before each call, of which captured ones need no preparation or all of it:
/// what earlier calls have prepared is not freed in a capture.
pub(super) fn algorithms_are_set_in_captures(seed: u64) -> Result<(), Failed> {
    let drivers = machine(machine_options(seed, 0, false), 2)?;
    let device = |rank: u32| Ok(Device::with_driver(drivers[rank as usize].clone()));
    let run = |comm: &Communicator, device: &Device| -> Result<(), Failed> {
        let stream = device.stream()?;
        let make = |name: &str, blocks: Option<u32>, memory: &mut DeviceVec<u32>| -> Result<(), Error> {
            let choice = Choice { config: Config { blocks, threads: None }, ..Choice::named(name) };
            comm.force_algorithm(Some((CollectiveKind::AllReduce, choice)))?;
            comm.on(&stream).all_reduce_in_place(memory, ReduceOp::Sum)
        };
        let (mut short, mut long) = (DeviceVec::<u32>::new(device, 40)?, DeviceVec::<u32>::new(device, 3_000)?);
        make("allreduce_all_pairs", None, &mut short)?;
        make("allreduce_ring", None, &mut long)?;
        comm.on(&stream).synchronize()?;
        let before = stream.untimed_event()?;
        let graph = stream.capture(|_| {
            make("allreduce_all_pairs", None, &mut short)?;
            make("allreduce_ring", Some(2), &mut long)?;
            // What was prepared so far is forgotten.
            comm.configure(|_| ())?;
            make("allreduce_all_pairs", None, &mut short)?;
            assert!(before.is_complete()?);
            Ok(())
        })?;
        for round in 1..5 {
            short.write(&[round + comm.rank(); 40])?;
            long.write(&[round; 3_000])?;
            // SAFETY: memory and communicator exist until the stream is synchronized.
            unsafe { graph.launch(&stream)? };
            make("allreduce_ring", None, &mut short)?;
            comm.on(&stream).synchronize()?;
            assert_eq!((short.to_vec()?, long.to_vec()?), (vec![8 * round + 4; 40], vec![2 * round; 3_000]));
        }
        Ok(())
    };
    in_threads(2, group_options(120), device, run).into_iter().collect()
}
