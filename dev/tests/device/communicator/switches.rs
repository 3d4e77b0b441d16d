//! Calls on devices with multicast: which algorithm serves them, whether the switch sums, and in which order.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use half::f16;
use libtest_mimic::Failed;
use mscclpp_communicator::{Communicator, OnStream};
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::{MulticastCounts, Options};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::{Device, DeviceVec};
use mscclpp_select::OrderPolicy;

use super::{each_on, group_options};
use crate::processes::machine_options;

/// Makes a call on every rank, and returns its algorithm, and whether switches have loaded and stored.
fn served(
    comm: &Communicator,
    on: &OnStream<'_>,
    counts: &MulticastCounts,
    call: impl FnOnce() -> Result<(), Error>,
) -> Result<(String, bool, bool), Failed> {
    call()?;
    on.synchronize()?;
    comm.barrier()?;
    let taken = [&counts.loads, &counts.stores].map(|count| count.load(Relaxed) > 0);
    comm.barrier()?;
    if comm.rank() == 0 {
        counts.loads.store(0, Relaxed);
        counts.stores.store(0, Relaxed);
    }
    comm.barrier()?;
    let last = on.last_call()?.and_then(|last| last.algorithm).ok_or("no algorithm")?;
    Ok((last, taken[0], taken[1]))
}

/// A value of a rank's element whose sums round.
fn value(rank: u32, at: usize) -> f32 {
    [1.0e7, 0.123_456_7, -1.0e7, 7.123_457, 5.0e-3][(at + 3 * rank as usize) % 5] * (1 + at % 11) as f32
}

pub(super) fn switches_serve_what_the_order_allows(seed: u64) -> Result<(), Failed> {
    let counts: &'static MulticastCounts =
        Box::leak(Box::new(MulticastCounts { loads: AtomicU64::new(0), stores: AtomicU64::new(0) }));
    let options = Options { multicast: u32::MAX, counts: Some(counts), ..machine_options(seed, 0, false) };
    let run = |comm: &Communicator, device: &Device| -> Result<(), Failed> {
        let stream = device.stream()?;
        let on = comm.on(&stream);
        let long = 48 << 10;
        assert_eq!(comm.order_policy(), OrderPolicy::InSwitch);
        let mut integers = on.alloc::<i32>(long)?;
        integers.write(&vec![1 + comm.rank() as i32; long])?;
        let found = served(comm, &on, counts, || on.all_reduce_in_place(&mut integers, ReduceOp::Sum))?;
        assert_eq!(found, ("allreduce_switch".to_owned(), true, true));
        assert_eq!(integers.to_vec()?, vec![6; long]);

        let mut copy = on.alloc::<i32>(long)?;
        let found = served(comm, &on, counts, || on.all_reduce(&integers, &mut copy, ReduceOp::Sum))?;
        assert_eq!(found, ("allreduce_switch".to_owned(), true, true));
        assert_eq!(copy.to_vec()?, vec![18; long]);
        let found = served(comm, &on, counts, || on.reduce_scatter_in_place(&mut copy, ReduceOp::Sum))?;
        assert_eq!(found, ("reducescatter_packets".to_owned(), false, false));
        let mine = comm.rank() as usize * long / 3..(comm.rank() as usize + 1) * long / 3;
        assert_eq!(copy.to_vec()?[mine], vec![54; long / 3]);

        let mut part = on.alloc::<i32>(long / 3)?;
        let found = served(comm, &on, counts, || on.reduce_scatter(&integers, &mut part, ReduceOp::Max))?;
        assert_eq!(found, ("reducescatter_packets".to_owned(), false, false));
        assert_eq!(part.to_vec()?, vec![6; long / 3]);
        let found = served(comm, &on, counts, || on.all_gather(&part, &mut integers))?;
        assert_eq!(found, ("allgather_packets".to_owned(), false, false));

        // Minima and maxima of short floats: in switches unless the bits of NaN matter.
        let halves = |rank: u32, at: usize| f16::from_f32(((at as u32 * 7 + rank * 13) % 41) as f32 - 20.0);
        let own: Vec<f16> = (0..long).map(|at| halves(comm.rank(), at)).collect();
        for (policy, expected) in
            [(None, ("allreduce_switch", true)), (Some(OrderPolicy::SameOnAllRanks), ("allreduce_packets", false))]
        {
            comm.set_order_policy(policy.unwrap_or_default());
            let mut memory = on.alloc::<f16>(2 * long)?;
            memory.write(&[&own[..], &own[..]].concat())?;
            let (name, loads, _) = served(comm, &on, counts, || on.all_reduce_in_place(&mut memory, ReduceOp::Max))?;
            assert_eq!((name.as_str(), loads), expected, "{policy:?}");
            let most = |at: usize| (0..3).map(|rank| halves(rank, at % long)).fold(f16::NEG_INFINITY, f16::max);
            let found = memory.to_vec()?;
            assert!((0..2 * long).all(|at| found[at].to_bits() == most(at).to_bits()), "{policy:?}");
        }

        let floats: Vec<f32> = (0..long).map(|at| value(comm.rank(), at)).collect();
        let ordered = |at: usize| (1..3).fold(value(0, at), |sum, rank| sum + value(rank, at)).to_bits();
        for registered in [true, false] {
            for (policy, len, expected) in [
                (OrderPolicy::SameOnAllRanks, 1 << 10, ("allreduce_switch_packets", false)),
                (OrderPolicy::SameOnAllRanks, long, ("allreduce_packets", false)),
                (OrderPolicy::InSwitch, 1 << 10, ("allreduce_switch_packets", false)),
                (OrderPolicy::InSwitch, long, ("allreduce_switch", true)),
                (OrderPolicy::RankOrder, 1 << 10, ("allreduce_switch_packets", false)),
                (OrderPolicy::RankOrder, long, ("allreduce_rank_order", false)),
            ] {
                comm.set_order_policy(policy);
                let mut memory = if registered { on.alloc::<f32>(len)? } else { DeviceVec::new(device, len)? };
                memory.write(&floats[..len])?;
                let (name, loads, _) =
                    served(comm, &on, counts, || on.all_reduce_in_place(&mut memory, ReduceOp::Sum))?;
                assert_eq!((name.as_str(), loads), expected, "{policy}, {len} elements, registered: {registered}");
                let sums = memory.to_vec()?;
                let close = |at: usize| (sums[at] - f32::from_bits(ordered(at))).abs() <= 8.0 * (1 + at % 11) as f32;
                assert!((0..len).all(close), "{policy}, {len} elements");
                if policy == OrderPolicy::RankOrder {
                    assert!((0..len).all(|at| sums[at].to_bits() == ordered(at)), "{policy}, {len} elements");
                }
            }
        }
        Ok(())
    };
    each_on(options, 3, 3, group_options(120), run).into_iter().collect()
}
