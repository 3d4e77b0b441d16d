//! Custom kernels that communicate: memory, port and switch channels between the kernels of all ranks (`channels.cu`).
//!
//! ```console
//! mscclpp launch -n 2 -- target/release/examples/channels
//! scripts/simulated-cuda.sh -n 4 --multicast 8 -- target/release/examples/channels
//! ```
//!
//! Each rank sends a vector to the next one: through a memory channel, as packets, and through the host's proxy. Then rank 0 adds the
//! vectors of all ranks through the switch channel. It prints a line for each kernel, and whether a multicast object is used. Without a
//! device, or without NVRTC, it prints the reason.

use mscclpp::runtime::cuda::channels::{ChannelOptions, DeviceMemoryChannel, DevicePortChannel, DeviceSwitchChannel};
use mscclpp::runtime::cuda::jit::Source;

/// Elements of a vector: whole vectors of 16 bytes.
const COUNT: usize = 1024;

/// As in `channels.cu`.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Ring {
    next: DeviceMemoryChannel,
    previous: DeviceMemoryChannel,
    port_next: DevicePortChannel,
    port_previous: DevicePortChannel,
    all: DeviceSwitchChannel,
    bytes: u64,
    rank: u32,
    ranks: u32,
    flag: u32,
    reserved: u32,
}

fn main() -> mscclpp::Result<()> {
    examples_cuda::on_ranks(1, |comm| {
        let Some(device) = examples_cuda::device_with_compiler(comm) else { return Ok(()) };
        let (rank, ranks) = (comm.rank(), comm.num_ranks());
        let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let module = device.module(&Source::new("channels.cu", include_str!("channels.cu")))?;
        let stream = device.stream()?;

        // Memory of each rank that the kernels of all ranks access: a vector of each rank, then packets of one.
        let len = COUNT * (ranks as usize + 2);
        let shared = comm.on(&stream).alloc::<f32>(len)?;
        let options = ChannelOptions::default().num_port(1).multicast(true);
        let mut channels = comm.on(&stream).channels(shared, options)?;
        if rank == 0 {
            match channels.multicast() {
                Ok(()) => println!("the switch channel uses a multicast object"),
                Err(reason) => println!("the switch channel uses no multicast object: {reason}"),
            }
        }

        for (flag, kernel) in (1..).zip(["by_memory", "by_packets", "by_port", "by_switch"]) {
            let mut own = vec![0.0_f32; len];
            let at = if kernel == "by_switch" { 0 } else { rank as usize * COUNT };
            own[at..at + COUNT].copy_from_slice(&vector(rank));
            comm.barrier()?;
            channels.local_mut().write(&own)?;
            comm.barrier()?;
            let ring = Ring {
                next: channels.memory(next, 0)?,
                previous: channels.memory(previous, 0)?,
                port_next: channels.port(next, 0)?,
                port_previous: channels.port(previous, 0)?,
                all: channels.switch()?,
                bytes: (COUNT * size_of::<f32>()) as u64,
                rank,
                ranks,
                flag,
                reserved: 0,
            };
            // SAFETY: the kernels take such a struct, and use the shared memory of all ranks, which exists until all of them have
            // synchronized the stream.
            unsafe { module.function(kernel)?.launch(&stream, 1, 256, &ring)? };
            channels.synchronize(&stream)?;
            let found = channels.local().to_vec()?;
            let (at, expected) = match kernel {
                "by_switch" => (0, (0..COUNT).map(|at| (0..ranks).map(|rank| vector(rank)[at]).sum()).collect()),
                _ => (previous as usize * COUNT, vector(previous)),
            };
            assert_eq!(found[at..at + COUNT], expected, "{kernel} of rank {rank}");
            if rank == 0 {
                println!("{kernel}: {ranks} ranks have what they expect");
            }
        }
        channels.stop_proxy()?;
        // No rank frees memory that another one may still access.
        Ok(comm.barrier()?)
    })
}

/// Returns the vector of a rank: small integers, so that sums are exact.
fn vector(rank: u32) -> Vec<f32> {
    (0..COUNT).map(|at| ((at * 7 + rank as usize * 13) % 101) as f32).collect()
}
