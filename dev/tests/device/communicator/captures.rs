//! Several streams and communicators, and captures of calls that were made before.

use std::sync::Barrier;

use libtest_mimic::Failed;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::DeviceVec;

use super::on_devices;

pub(super) fn three_communicators_on_interleaved_streams(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let reversed = comm.split(Some(0), 9 - comm.rank())?.ok_or("no communicator")?;
        let third = comm.subgroup(&[0, 1])?.ok_or("no communicator")?;
        let streams = [device.stream()?, device.stream()?];
        let all = [comm, &reversed, &third];
        let mut memory = Vec::new();
        for (number, comm) in all.iter().enumerate() {
            let on = comm.on(&streams[number % 2]);
            memory.push((on.alloc::<u32>(30)?, DeviceVec::<u32>::new(device, 30)?));
        }
        for round in 0..6_u32 {
            for (number, (comm, (registered, own))) in all.iter().zip(&mut memory).enumerate() {
                registered.write(&[round + comm.rank(); 30])?;
                own.write(&[round + number as u32; 30])?;
            }
            for (number, (comm, (registered, own))) in all.iter().zip(&mut memory).enumerate() {
                // Each communicator alternates between the streams.
                let on = comm.on(&streams[(number + round as usize) % 2]);
                on.all_reduce_in_place(registered, ReduceOp::Sum)?;
                let on = comm.on(&streams[(number + round as usize + 1) % 2]);
                on.all_reduce_in_place(own, ReduceOp::Sum)?;
            }
            for (comm, stream) in all.iter().flat_map(|comm| streams.iter().map(move |stream| (comm, stream))) {
                comm.on(stream).synchronize()?;
            }
            for (number, (registered, own)) in (0_u32..).zip(&memory) {
                assert_eq!(registered.to_vec()?, [2 * round + 1; 30]);
                assert_eq!(own.to_vec()?, [2 * (round + number); 30]);
            }
        }
        Ok(())
    })
}

pub(super) fn captured_calls_replay_between_eager_ones(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let on = comm.on(&stream);
        let mut registered = on.alloc::<u32>(33)?;
        let (mut own, mut sum) = (DeviceVec::<u32>::new(device, 70)?, DeviceVec::<u32>::new(device, 70)?);
        let mut gathered = DeviceVec::<u32>::new(device, 66)?;
        on.all_reduce_in_place(&mut registered, ReduceOp::Sum)?;
        on.all_reduce(&own, &mut sum, ReduceOp::Sum)?;
        on.synchronize()?;
        let graph = stream.capture(|stream| {
            let on = comm.on(stream);
            on.all_reduce_in_place(&mut registered, ReduceOp::Sum)?;
            on.all_reduce(&own, &mut sum, ReduceOp::Sum)
        })?;
        for round in 0..20 {
            registered.write(&[round + rank; 33])?;
            own.write(&[round * rank; 70])?;
            // SAFETY: memory and communicator exist until the stream is synchronized.
            unsafe { graph.launch(&stream)? };
            if round % 3 == 0 {
                on.all_gather(&registered, &mut gathered)?;
                on.all_reduce_in_place(&mut registered, ReduceOp::Sum)?;
            }
            on.synchronize()?;
            assert_eq!(sum.to_vec()?, [round; 70]);
            let once = 2 * round + 1;
            assert_eq!(registered.to_vec()?, [if round % 3 == 0 { 2 * once } else { once }; 33]);
            if round % 3 == 0 {
                assert_eq!(gathered.to_vec()?, [once; 66]);
            }
        }
        Ok(())
    })
}

/// Its launch is complete, and that of the other rank waits for its next one.
pub(super) fn rank_that_synchronizes_is_not_held_by_later_launches(seed: u64) -> Result<(), Failed> {
    let turn = Barrier::new(2);
    on_devices(seed, 2, 2, move |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let mut memory = on.alloc::<u32>(20)?;
        memory.write(&[1; 20])?;
        on.all_reduce_in_place(&mut memory, ReduceOp::Sum)?;
        if comm.rank() == 0 {
            turn.wait();
            on.synchronize()?;
            on.all_reduce_in_place(&mut memory, ReduceOp::Sum)?;
            turn.wait();
        } else {
            on.all_reduce_in_place(&mut memory, ReduceOp::Sum)?;
            turn.wait();
            turn.wait();
        }
        on.synchronize()?;
        assert_eq!(memory.to_vec()?, [4; 20]);
        Ok(())
    })
}

/// Eager calls on other streams follow one another, whatever is captured between them.
pub(super) fn eager_calls_around_a_capture_keep_their_order(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let streams = [device.stream()?, device.stream()?, device.stream()?];
        let mut memory = DeviceVec::<u32>::from_slice(device, &[1; 300])?;
        let (mut captured, mut last) = (DeviceVec::<u32>::new(device, 30)?, DeviceVec::<u32>::new(device, 300)?);
        comm.on(&streams[0]).all_reduce_in_place(&mut memory, ReduceOp::Sum)?;
        let _graph = streams[1].capture(|stream| comm.on(stream).all_reduce_in_place(&mut captured, ReduceOp::Sum))?;
        comm.on(&streams[2]).all_reduce(&memory, &mut last, ReduceOp::Sum)?;
        comm.on(&streams[2]).synchronize()?;
        assert_eq!(last.to_vec()?, [4; 300]);
        Ok(())
    })
}

/// Replays of transfers that move the data on, so that one too many or too few shows.
pub(super) fn graphs_are_replayed_10_000_times(seed: u64) -> Result<(), Failed> {
    const REPLAYS: u32 = 10_001;
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let on = comm.on(&stream);
        let mut moved = on.alloc::<u32>(16)?;
        let mut exchanged = DeviceVec::<u32>::from_slice(device, &[2 * rank, 2 * rank + 1])?;
        moved.write(&[rank; 16])?;
        let graph = stream.capture(|stream| {
            let on = comm.on(stream);
            on.send_recv_in_place(&mut moved)?;
            on.all_to_all_in_place(&mut exchanged)
        })?;
        for replay in 1..=REPLAYS {
            // SAFETY: memory and communicator exist until the stream is synchronized.
            unsafe { graph.launch(&stream)? };
            if replay % 1000 == 0 {
                on.synchronize()?;
            }
        }
        on.synchronize()?;
        assert_eq!((moved.to_vec()?, exchanged.to_vec()?), (vec![1 - rank; 16], vec![rank, 2 + rank]));
        Ok(())
    })
}

pub(super) fn three_communicators_on_64_streams(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let reversed = comm.split(Some(0), 9 - comm.rank())?.ok_or("no communicator")?;
        let third = comm.subgroup(&[0, 1])?.ok_or("no communicator")?;
        let streams = (0..64).map(|_| device.stream()).collect::<Result<Vec<_>, _>>()?;
        let mut memory = Vec::new();
        for comm in [comm, &reversed, &third] {
            memory.push((comm, DeviceVec::<u32>::from_slice(device, &[1; 20])?));
        }
        for (number, stream) in streams.iter().enumerate() {
            for (comm, memory) in &mut memory {
                // The sums of many calls wrap.
                let op = if number < 20 { ReduceOp::Sum } else { ReduceOp::Max };
                comm.on(stream).all_reduce_in_place(memory, op)?;
            }
        }
        for (comm, memory) in &memory {
            streams.iter().try_for_each(|stream| comm.on(stream).synchronize())?;
            assert_eq!(memory.to_vec()?, [1 << 20; 20]);
        }
        Ok(())
    })
}
