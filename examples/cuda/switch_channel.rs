//! Tutorial 5: an all-reduce by a switch channel: every rank reduces a part of the vectors of all, and stores the sums in the memory of all
//! (`switch_channel.cu`).
//!
//! ```console
//! mscclpp launch -n 8 -- target/release/examples/switch_channel
//! scripts/simulated-cuda.sh -n 4 --multicast 8 -- target/release/examples/switch_channel
//! ```
//!
//! With a multicast object (NVLink switches), one load returns the sum and one store reaches all ranks. Without one the channel does the
//! same member by member; rank 0 prints the reason. Without a device, or without NVRTC, it prints the reason.

use mscclpp::prelude::*;
use mscclpp::runtime::cuda::channels::{ChannelOptions, DeviceMemoryChannel, DeviceSwitchChannel};
use mscclpp::runtime::cuda::jit::Source;

/// As in `switch_channel.cu`.
const MAX_RANKS: usize = 8;

/// Elements of a vector: whole vectors of 16 bytes.
const COUNT: usize = 1024;

/// As in `switch_channel.cu`.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct AllReduce {
    peers: [DeviceMemoryChannel; MAX_RANKS],
    all: DeviceSwitchChannel,
    bytes: u64,
    rank: u32,
    ranks: u32,
}

fn main() -> mscclpp::Result<()> {
    examples_cuda::on_ranks(2, |comm: &Communicator| {
        let (rank, ranks) = (comm.rank(), comm.num_ranks());
        assert!(ranks as usize <= MAX_RANKS, "expected at most {MAX_RANKS} ranks, found {ranks}");
        let Some(device) = examples_cuda::device_with_compiler(comm) else { return Ok(()) };
        let module = device.module(&Source::new("switch_channel.cu", include_str!("switch_channel.cu")))?;
        let stream = device.stream()?;
        let memory = comm.on(&stream).alloc::<f32>(COUNT)?;
        let mut channels = comm.on(&stream).channels(memory, ChannelOptions::default().multicast(true))?;
        if rank == 0 {
            match channels.multicast() {
                Ok(()) => println!("by a multicast object"),
                Err(reason) => println!("member by member: {reason}"),
            }
        }
        channels.local_mut().write(&vector(rank))?;
        let mut peers: [DeviceMemoryChannel; MAX_RANKS] = bytemuck::Zeroable::zeroed();
        for (peer, channel) in (0..ranks).zip(&mut peers) {
            *channel = channels.memory(peer, 0)?;
        }
        let bytes = (COUNT * size_of::<f32>()) as u64;
        let arguments = AllReduce { peers, all: channels.switch()?, bytes, rank, ranks };
        // SAFETY: the kernel takes such a struct, and uses the shared memory of all ranks, which exists until all of them have
        // synchronized the stream.
        unsafe { module.function("all_reduce")?.launch(&stream, 1, 256, &arguments)? };
        channels.synchronize(&stream)?;
        let expected: Vec<f32> = (0..COUNT).map(|at| (0..ranks).map(|rank| vector(rank)[at]).sum()).collect();
        assert_eq!(channels.local().to_vec()?, expected, "rank {rank}");
        comm.barrier()?;
        if rank == 0 {
            println!("{ranks} ranks have the sums of {COUNT} elements");
        }
        Ok(())
    })
}

/// Returns the vector of a rank: small integers, so that sums are exact in any order.
fn vector(rank: u32) -> Vec<f32> {
    (0..COUNT).map(|at| ((at * 5 + rank as usize * 17) % 97) as f32).collect()
}
