//! Memory that is freed while kernels of other ranks are pending on the same device.

use std::sync::Barrier;

use libtest_mimic::Failed;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::DeviceVec;

use super::on_devices;

/// Elements whose bytes are too many for packets.
const LEN: usize = 140_000;

/// Rank 0's kernel waits for the next call of rank 1, which frees memory, prepared plans and a communicator before it.
pub(super) fn rank_frees_while_another_waits(seed: u64) -> Result<(), Failed> {
    let barrier = Barrier::new(2);
    on_devices(seed, 2, 1, |comm, device| {
        let (stream, other) = (device.stream()?, device.stream()?);
        let mut kept = DeviceVec::<u32>::from_slice(device, &[1; LEN])?;
        comm.on(&stream).all_reduce_in_place(&mut kept, ReduceOp::Sum)?;
        for len in [30, LEN] {
            let second = comm.split(Some(0), comm.rank())?.ok_or("no communicator")?;
            let mut registered = comm.on(&stream).alloc::<u32>(len)?;
            let mut own = DeviceVec::<u32>::from_slice(device, &vec![3; len])?;
            comm.on(&stream).all_reduce_in_place(&mut registered, ReduceOp::Sum)?;
            comm.on(&stream).all_reduce_in_place(&mut own, ReduceOp::Sum)?;
            comm.on(&stream).synchronize()?;
            second.on(&other).all_reduce_in_place(&mut own, ReduceOp::Sum)?;
            second.on(&other).synchronize()?;
            assert_eq!(own.to_vec()?, vec![12; len]);
            comm.on(&stream).all_reduce(&own, &mut registered, ReduceOp::Sum)?;
            if comm.rank() == 1 {
                barrier.wait();
                drop((own, registered, second, other.synchronize()?));
                comm.on(&stream).all_reduce_in_place(&mut kept, ReduceOp::Sum)?;
            } else {
                comm.on(&stream).all_reduce_in_place(&mut kept, ReduceOp::Sum)?;
                barrier.wait();
            }
        }
        comm.on(&stream).synchronize()?;
        assert_eq!(kept.to_vec()?, [8; LEN]);
        Ok(())
    })
}
