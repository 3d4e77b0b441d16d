//! Transfers between two ranks on device memory, and the calls that are made of them.

use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, Group};
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::Options;
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceVec};
use mscclpp_exec::error::{CountLimit, CountOverflow, ErrorKind};

use super::{each_on, failure, group_options, on_devices};
use crate::processes::{Job, machine_options};

/// What rank `from` sends to rank `to`: odd numbers of elements, none to some.
fn part(from: u32, to: u32) -> Vec<u32> {
    let len = (from * 3 + to * 5) % 7 * 13;
    (0..len).map(|index| from * 10_000 + to * 1000 + index).collect()
}

/// All transfers of a rank, on registered and other memory.
pub(super) fn work(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    let (stream, rank, ranks) = (device.stream()?, comm.rank(), comm.num_ranks());
    let on = comm.on(&stream);
    for round in 0..2 {
        // Between all ranks at once, added in an order of each rank's own.
        let sent =
            (0..ranks).map(|to| DeviceVec::from_slice(device, &part(rank, to))).collect::<Result<Vec<_>, _>>()?;
        let new = |from| DeviceVec::<u32>::new(device, part(from, rank).len());
        let mut received = (0..ranks).map(new).collect::<Result<Vec<_>, _>>()?;
        let mut group = Group::new();
        for (from, memory) in (0..).zip(&mut received) {
            group.recv_on(on, memory, from);
        }
        for at in 0..ranks {
            let to = (at + rank + round) % ranks;
            group.send_on(on, &sent[to as usize], to);
        }
        group.run()?;
        // A collective call between transfers, on registered memory.
        let mut sum = on.alloc::<u32>(5)?;
        sum.write(&[rank; 5])?;
        on.all_reduce_in_place(&mut sum, ReduceOp::Sum)?;
        let root = round % ranks;
        let mut gathered = DeviceVec::<u32>::new(device, if rank == root { 5 * ranks as usize } else { 0 })?;
        on.gather(&sum, &mut gathered, root)?;
        let mut scattered = DeviceVec::<u32>::new(device, 5)?;
        on.scatter(&gathered, &mut scattered, root)?;
        on.synchronize()?;
        for (from, found) in (0..).zip(&received) {
            assert_eq!(found.to_vec()?, part(from, rank), "from rank {from}");
        }
        assert_eq!(scattered.to_vec()?, [ranks * (ranks - 1) / 2; 5]);

        let all = |parts: &dyn Fn(u32) -> Vec<u32>| (0..ranks).flat_map(parts).collect::<Vec<u32>>();
        let counts = |parts: &dyn Fn(u32) -> Vec<u32>| (0..ranks).map(|peer| parts(peer).len()).collect::<Vec<_>>();
        let (to, from) = (|to| part(rank, to), |from| part(from, rank));
        let input = DeviceVec::from_slice(device, &all(&to))?;
        let mut output = DeviceVec::<u32>::new(device, all(&from).len())?;
        on.all_to_all_v(&input, &counts(&to), &mut output, &counts(&from))?;
        on.synchronize()?;
        assert_eq!(output.to_vec()?, all(&from));

        // The receiver does not know the counts, and has room for more.
        let sent: Vec<i64> = counts(&to).into_iter().map(|count| count as i64).collect();
        let (sent, mut found) = (DeviceVec::from_slice(device, &sent)?, DeviceVec::new(device, ranks as usize)?);
        let mut output = DeviceVec::<u32>::from_slice(device, &vec![99; all(&from).len() + 3])?;
        on.all_to_all_v_counted::<u32, i64>(&input, &sent, &mut output, &mut found, 6 * 13)?;
        on.synchronize()?;
        let expected: Vec<i64> = counts(&from).into_iter().map(|count| count as i64).collect();
        assert_eq!(found.to_vec()?, expected);
        assert_eq!(output.to_vec()?, [all(&from), vec![99; 3]].concat());
    }
    Ok(comm.barrier()?)
}

/// A driver takes long to create an event, so that prepared transfers record those that exist.
pub(super) fn prepared_transfers_create_no_events(seed: u64) -> Result<(), Failed> {
    let options = Options { failing: Some(("cuEventCreate", 40)), ..machine_options(seed, 0, false) };
    let results = each_on(options, 2, 2, group_options(120), |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let (sent, mut received) = (DeviceVec::from_slice(device, &[rank; 9])?, DeviceVec::<u32>::new(device, 9)?);
        for round in 0..30 {
            let mut group = Group::new();
            group.send_on(comm.on(&stream), &sent, 1 - rank);
            group.recv_on(comm.on(&stream), &mut received, 1 - rank);
            group.run()?;
            // Threads make the first ones.
            while round == 0 && !comm.is_idle()? {
                std::thread::yield_now();
            }
        }
        comm.on(&stream).synchronize()?;
        assert_eq!(received.to_vec()?, [1 - rank; 9]);
        Ok(())
    });
    results.into_iter().collect()
}

/// Rank 1 sends more than rank 0 has room for, or a negative number: both ranks learn it, and make the next call.
pub(super) fn counts_without_room_are_reported_by_all_ranks(seed: u64) -> Result<(), Failed> {
    let too_much = CountOverflow { rank: 0, limit: CountLimit::Output, demand: 4, room: 3, peer: 1, part: 3 };
    let negative = CountOverflow { rank: 1, limit: CountLimit::Entry, demand: -1, room: 5, peer: 0, part: -1 };
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (input, mut output) = (DeviceVec::from_slice(device, &[1.5_f32; 7])?, DeviceVec::<f32>::new(device, 3)?);
        let mut received = DeviceVec::new(device, 2)?;
        for (counts, expected) in [([3, 2], Some(too_much)), ([-1, 4], Some(negative)), ([2, 2], None)] {
            let own = if comm.rank() == 1 { counts } else { [1, 1] };
            let sent = DeviceVec::<i32>::from_slice(device, &own)?;
            on.all_to_all_v_counted::<f32, i32>(&input, &sent, &mut output, &mut received, 5)?;
            let found = match on.synchronize() {
                Err(Error::CountOverflow(overflow)) => Some(overflow),
                other => other.map(|()| None)?,
            };
            assert_eq!(found, expected);
            assert_eq!(output.to_vec()?, [if expected.is_some() { 0.0 } else { 1.5 }; 3]);
        }
        assert_eq!(received.to_vec()?, [1, 2]);
        Ok(())
    })
}

/// A graph of a call with counts on the device, which other work on the stream writes before each launch. One rank is late.
pub(super) fn captured_calls_take_new_counts(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank() as i64);
        let on = comm.on(&stream);
        let input = DeviceVec::from_slice(device, &[10 + rank; 8])?;
        let (mut sent, mut received) = (DeviceVec::<i64>::new(device, 2)?, DeviceVec::<i64>::new(device, 2)?);
        let mut output = DeviceVec::<i64>::new(device, 8)?;
        let graph = stream.capture(|captured| {
            comm.on(captured).all_to_all_v_counted::<i64, i64>(&input, &sent, &mut output, &mut received, 4)
        })?;
        for turn in 0..6 {
            // What rank `of` has for rank `to`.
            let count = |of: i64, to: i64| (turn + 2 * of + 3 * to) % 5;
            let counts = DeviceVec::from_slice(device, &[count(rank, 0), count(rank, 1)])?;
            stream.copy(&counts, &mut sent)?;
            stream.copy(&DeviceVec::from_slice(device, &[-1_i64; 8])?, &mut output)?;
            // SAFETY: the communicator and the memory live longer than the graph's launches.
            unsafe { graph.launch(&stream)? };
            on.synchronize()?;
            let from = [count(0, rank), count(1, rank)];
            assert_eq!(received.to_vec()?, from);
            let parts = (0..).zip(from).flat_map(|(of, len)| std::iter::repeat_n(10 + of, len as usize));
            let expected: Vec<i64> = parts.chain(std::iter::repeat(-1)).take(8).collect();
            assert_eq!(output.to_vec()?, expected, "turn {turn}");
        }
        Ok(())
    })
}

/// Registered memory is used in place, by eager calls and in a graph, and longer than needed.
pub(super) fn counts_on_registered_memory(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 3, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank() as i64);
        let on = comm.on(&stream);
        let (mut input, mut output) = (on.alloc::<i64>(30)?, on.alloc::<i64>(40)?);
        let (mut sent, mut received) = (DeviceVec::<i64>::new(device, 3)?, DeviceVec::<i64>::new(device, 6)?);
        input.write(&[10 + rank; 30])?;
        on.all_to_all_v_counted::<i64, i64>(&input, &sent, &mut output, &mut received, 5)?;
        on.synchronize()?;
        let call = on.last_call()?.ok_or("no call")?;
        assert_eq!((call.algorithm.as_deref(), call.bytes_copied), (Some("alltoallv_direct"), 0));
        let graph = stream.capture(|captured| {
            let on = comm.on(captured);
            on.all_to_all_v_counted::<i64, i64>(&input, &sent, &mut output, &mut received, 5)
        })?;
        let replays = if std::env::var_os("MSCCLPP_ALL").is_some() { 1000 } else { 9 };
        for turn in 0..replays {
            let count = |from: i64, to: i64| (turn + 2 * from + 3 * to) % 6;
            sent.write(&[count(rank, 0), count(rank, 1), count(rank, 2)])?;
            output.write(&[-1; 40])?;
            if turn % 3 == 0 {
                on.all_to_all_v_counted::<i64, i64>(&input, &sent, &mut output, &mut received, 5)?;
            } else {
                // SAFETY: the communicator and the memory live longer than the graph's launches.
                unsafe { graph.launch(&stream)? };
            }
            on.synchronize()?;
            let from = [0, 1, 2].map(|of| count(of, rank));
            // Lengths, then places.
            let places = [0, from[0], from[0] + from[1]];
            assert_eq!(received.to_vec()?, [from, places].concat(), "turn {turn}");
            let parts = (10..).zip(from).flat_map(|(of, len)| std::iter::repeat_n(of, len as usize));
            let expected: Vec<i64> = parts.chain(std::iter::repeat(-1)).take(40).collect();
            assert_eq!(output.to_vec()?, expected, "turn {turn}");
        }
        Ok(comm.barrier()?)
    })
}

/// Ranks on several nodes: eager calls, and launches of a graph with new counts, of which some have no room.
pub(super) fn play_counts(comm: &Communicator, device: &Device, seed: u64) -> Result<(), Failed> {
    const MOST: i64 = 70;
    let (stream, rank, ranks) = (device.stream()?, comm.rank() as usize, comm.num_ranks() as usize);
    let on = comm.on(&stream);
    let element = |from: usize, to: usize, k: i64| (10_000 * from + 1000 * to) as i32 + k as i32;
    let len = ranks * MOST as usize;
    let (mut input, mut output) = (DeviceVec::<i32>::new(device, len)?, DeviceVec::<i32>::new(device, len)?);
    let (mut sent, mut received) = (DeviceVec::<i64>::new(device, ranks)?, DeviceVec::<i64>::new(device, ranks)?);
    on.all_to_all_v_counted::<i32, i64>(&input, &sent, &mut output, &mut received, MOST as usize)?;
    on.synchronize()?;
    let graph = stream.capture(|captured| {
        let on = comm.on(captured);
        on.all_to_all_v_counted::<i32, i64>(&input, &sent, &mut output, &mut received, MOST as usize)
    })?;
    let replays = if std::env::var_os("MSCCLPP_ALL").is_some() { 1000 } else { 12 };
    for turn in 0..replays {
        let count = |from: usize, to: usize| {
            let mixed = (seed + 1).wrapping_mul(turn + 7).wrapping_mul(1 + (31 * from + 7 * to) as u64);
            (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as i64 % (MOST + 1)
        };
        let is_wrong = turn % 5 == 3;
        let given = |to| if is_wrong && (rank, to) == (1, 0) { MOST + 1 } else { count(rank, to) };
        let parts = (0..ranks).flat_map(|to| (0..count(rank, to)).map(move |k| element(rank, to, k)));
        let values: Vec<i32> = parts.chain(std::iter::repeat(-1)).take(len).collect();
        input.write(&values)?;
        output.write(&vec![-7; len])?;
        sent.write(&(0..ranks).map(given).collect::<Vec<_>>())?;
        if turn % 3 == 0 {
            on.all_to_all_v_counted::<i32, i64>(&input, &sent, &mut output, &mut received, MOST as usize)?;
        } else {
            // SAFETY: the communicator and the memory live longer than the graph's launches.
            unsafe { graph.launch(&stream)? };
        }
        let found = match on.synchronize() {
            Err(Error::CountOverflow(overflow)) => Some(overflow),
            other => other.map(|()| None)?,
        };
        let room = MOST as u64;
        let (limit, demand) = (CountLimit::Entry, MOST + 1);
        let wrong = CountOverflow { rank: 1, limit, demand, room, peer: 0, part: demand };
        assert_eq!(found, is_wrong.then_some(wrong), "turn {turn}");
        let parts = (0..ranks).flat_map(|from| (0..count(from, rank)).map(move |k| element(from, rank, k)));
        let fill = std::iter::repeat(-7);
        let expected: Vec<i32> =
            if is_wrong { fill.take(len).collect() } else { parts.chain(fill).take(len).collect() };
        assert_eq!(output.to_vec()?, expected, "turn {turn}");
        if !is_wrong {
            assert_eq!(received.to_vec()?, (0..ranks).map(|from| count(from, rank)).collect::<Vec<_>>());
        }
    }
    Ok(comm.barrier()?)
}

/// A rank that does not make the call is named by the others.
pub(super) fn a_rank_that_does_not_come_is_named(seed: u64) -> Result<(), Failed> {
    let results = each_on(machine_options(seed, 0, false), 3, 3, group_options(2), |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let (input, sent) = (DeviceVec::<u8>::new(device, 9)?, DeviceVec::from_slice(device, &[3_i64; 3])?);
        let (mut output, mut received) = (DeviceVec::<u8>::new(device, 9)?, DeviceVec::<i64>::new(device, 3)?);
        let mut call = || on.all_to_all_v_counted::<u8, i64>(&input, &sent, &mut output, &mut received, 3);
        call()?;
        on.synchronize()?;
        if comm.rank() == 1 {
            // Until the others have reported it.
            while comm.check().is_ok() {
                std::thread::yield_now();
            }
            return Ok(());
        }
        let error = failure(call().and_then(|()| on.synchronize()))?;
        assert!(error.to_string().contains("rank 1"), "{error}");
        Ok(())
    });
    results.into_iter().collect()
}

pub(super) fn counts_are_exchanged_between_nodes(seed: u64) -> Result<(), Failed> {
    [(2, 1), (4, 2)].into_iter().try_for_each(|(ranks, per_node)| {
        Job::start("communicator_counts", "simulator", seed, ranks, per_node)?.succeed()
    })
}

pub(super) fn transfers_bring_what_was_sent(seed: u64) -> Result<(), Failed> {
    for (ranks, devices) in [(1, 1), (2, 2), (2, 1), (3, 2)] {
        on_devices(seed, ranks, devices, work)?;
    }
    Ok(())
}

/// Outside of a group: no send waits for its receiver, neither on the host nor on the stream, and what it sends may change afterwards.
pub(super) fn both_ranks_may_send_first(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let on = comm.on(&stream);
        let values = |of: u32, number: u32, len: usize| vec![1 + of * 100 + number; len];
        for (round, len) in [1, 1, 5_000, 100_000, 5_000, 100_000, 7].into_iter().enumerate() {
            let round = round as u32 * 10;
            let mut sent = DeviceVec::<u32>::new(device, len)?;
            let other = DeviceVec::<u32>::new(device, len)?;
            for number in [round, round + 1] {
                stream.copy(&DeviceVec::from_slice(device, &values(rank, number, len))?, &mut sent)?;
                on.send(&sent, 1 - rank)?;
                stream.copy(&other, &mut sent)?;
            }
            // Both ranks have sent before one of them receives.
            comm.barrier()?;
            for number in [round, round + 1] {
                let mut received = DeviceVec::<u32>::new(device, len)?;
                on.recv(&mut received, 1 - rank)?;
                on.synchronize()?;
                assert_eq!(received.to_vec()?, values(1 - rank, number, len), "{len} elements");
            }
        }
        Ok(())
    })
}

/// A receive does not wait for its sender on the host, and drops of its memory wait for it.
pub(super) fn receives_return_before_the_sender_calls(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let (stream, rank) = (device.stream()?, comm.rank());
        let on = comm.on(&stream);
        for len in [3, 3, 20_000] {
            let sent = DeviceVec::from_slice(device, &vec![7 + rank; len])?;
            let (mut received, mut copy) = (DeviceVec::<u32>::new(device, len)?, DeviceVec::<u32>::new(device, len)?);
            if rank == 0 {
                on.recv(&mut received, 1)?;
                stream.copy(&received, &mut copy)?;
            }
            comm.barrier()?;
            if rank == 1 {
                on.send(&sent, 0)?;
            } else {
                drop(received);
                on.synchronize()?;
                assert_eq!(copy.to_vec()?, vec![8; len]);
            }
        }
        Ok(on.synchronize()?)
    })
}

pub(super) fn different_lengths_are_reported_by_both_ranks(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 3, 2, |comm, device| {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let mut memory = DeviceVec::<f32>::new(device, 8 + comm.rank() as usize)?;
        let made = match comm.rank() {
            0 => on.send(&memory, 1),
            1 => on.recv(&mut memory, 0),
            _ => return Ok(()),
        };
        // A buffered send does not occupy the stream.
        while made.is_ok() && !comm.is_idle()? {
            std::thread::yield_now();
        }
        let error = failure(made.and_then(|()| on.synchronize()))?;
        assert!(matches!(error, Error::Transfer { .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Mismatch, "{error}");
        let text = error.to_string();
        assert!(
            text.contains("transfer of 8 f32") && text.contains("transfer of 9 f32") && text.contains(file!()),
            "{text}"
        );
        let error = failure(comm.check())?;
        assert!(matches!(error, Error::Transfer { .. }), "{error}");
        Ok(())
    })
}

pub(super) fn invalid_transfers_are_rejected(seed: u64) -> Result<(), Failed> {
    on_devices(seed, 2, 2, |comm, device| {
        let stream = device.stream()?;
        let (on, rank) = (comm.on(&stream), comm.rank());
        let mut memory = DeviceVec::<u8>::new(device, 6)?;
        let error = failure(on.send(&memory, rank))?;
        assert!(matches!(error, Error::Peer { peer, .. } if peer == rank), "{error}");
        let error = failure(on.recv(&mut memory, 2))?;
        assert!(matches!(error, Error::Peer { peer: 2, .. }), "{error}");
        let input = DeviceVec::<u8>::new(device, 6)?;
        let error = failure(on.all_to_all_v(&input, &[4, 1], &mut memory, &[3, 3]))?;
        assert_eq!(
            error.to_string(),
            format!("all_to_all_v of rank {rank}: the input has 6 elements, expected 5, the sum of the counts")
        );
        let error = failure(on.all_to_all_v(&input, &[6], &mut memory, &[3, 3]))?;
        assert_eq!(
            error.to_string(),
            format!("all_to_all_v of rank {rank}: the list of counts has 1 elements, expected 2, one per rank")
        );
        let error = failure(on.gather(&input, &mut memory, rank))?;
        assert!(matches!(error, Error::Length { .. }), "{error}");
        on.barrier()?;
        Ok(on.synchronize()?)
    })
}
