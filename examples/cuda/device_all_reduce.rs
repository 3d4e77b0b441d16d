//! Collective calls on device memory: one rank in this process, or one per process of a launcher, each with a device.
//!
//! ```console
//! cargo run --release --example device_all_reduce
//! mscclpp launch -n 8 -- target/release/examples/device_all_reduce
//! ```
//!
//! Without a device it prints the reason.

use mscclpp::prelude::*;
use mscclpp::runtime::cuda::DeviceVec;

const COUNT: usize = 10_003;

fn main() -> mscclpp::Result<()> {
    examples_cuda::on_ranks(1, |comm| {
        let (rank, size) = (comm.rank(), comm.num_ranks());
        let device = match comm.device() {
            Ok(device) => device,
            Err(reason) => {
                println!("{reason}");
                return Ok(());
            }
        };
        let stream = device.stream()?;
        let on = comm.on(&stream);

        // Registered memory: the ranks access it in place. The call is enqueued, and returns at once.
        let mut gradients = on.alloc::<f32>(COUNT)?;
        gradients.write(&vec![rank as f32; COUNT])?;
        on.all_reduce_in_place(&mut gradients, ReduceOp::Avg)?;
        on.synchronize()?;
        let mean = (size - 1) as f32 / 2.0;
        assert!(gradients.to_vec()?.iter().all(|gradient| *gradient == mean), "rank {rank}");
        report(comm, on.last_call()?);

        // Any other memory of the device is copied through internal buffers.
        let own = DeviceVec::from_slice(&device, &[rank; 1000])?;
        let mut all = DeviceVec::<u32>::new(&device, 1000 * size as usize)?;
        on.all_gather(&own, &mut all)?;
        on.synchronize()?;
        let is_right = |(at, found): (usize, &u32)| *found == (at / 1000) as u32;
        assert!(all.to_vec()?.iter().enumerate().all(is_right), "rank {rank}");
        report(comm, on.last_call()?);
        Ok(())
    })
}

fn report(comm: &Communicator, call: Option<mscclpp::LaunchedCall>) {
    if let Some(call) = call.filter(|_| comm.rank() == 0) {
        let algorithm = call.algorithm.as_deref().unwrap_or("no launch");
        println!("{}: {algorithm}, {} bytes copied", call.request, call.bytes_copied);
    }
}
