//! Tutorial 3: two ranks exchange data in both directions by a memory channel: by puts, by gets, and by packets (`memory_channel.cu`).
//!
//! ```console
//! mscclpp launch -n 2 -- target/release/examples/memory_channel 1024 1048576 134217728
//! scripts/simulated-cuda.sh -n 2 -- target/release/examples/memory_channel
//! ```
//!
//! The arguments are sizes in bytes, multiples of 16. Every element that a rank receives is compared. Rank 0 prints the time of a launch in
//! a graph and the rate in one direction, which mean nothing on a simulated device. Ranks 2 and 3 are a pair as well, and so on. Without a
//! device, or without NVRTC, it prints the reason.

use mscclpp::prelude::*;
use mscclpp::runtime::cuda::channels::{ChannelOptions, DeviceBarrier, DeviceMemoryChannel};
use mscclpp::runtime::cuda::jit::Source;

/// Thread blocks of a launch; the barrier needs them to be co-resident.
const BLOCKS: u32 = 4;
const THREADS: u32 = 256;

/// As in `memory_channel.cu`.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Exchange {
    peer: DeviceMemoryChannel,
    blocks: DeviceBarrier,
    bytes: u64,
    packets: u64,
    side: u32,
    flag: u32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sizes = examples_cuda::sizes(&[1024, 16384])?;
    examples_cuda::on_ranks(2, |comm: &Communicator| {
        let Some(device) = examples_cuda::device_with_compiler(comm) else { return Ok(()) };
        let module = device.module(&Source::new("memory_channel.cu", include_str!("memory_channel.cu")))?;
        let stream = device.stream()?;
        let pair = examples_cuda::Pair::new(comm);
        for &bytes in &sizes {
            let count = bytes as usize / size_of::<u32>();
            // The parts of both ranks of the pair, then packets for one part, which take twice the bytes.
            let memory = comm.on(&stream).alloc::<u32>(4 * count)?;
            let mut channels = comm.on(&stream).channels(memory, ChannelOptions::default().num_barriers(1))?;
            let mut flag = 0;
            for kernel in ["by_put", "by_get", "by_packets"] {
                comm.barrier()?;
                pair.write_own(channels.local_mut(), count)?;
                comm.barrier()?;
                let mut exchange = Exchange {
                    peer: channels.memory(pair.peer, 0)?,
                    blocks: channels.barrier(0)?,
                    bytes,
                    packets: 2 * bytes,
                    side: pair.side,
                    flag,
                };
                let function = module.function(kernel)?;
                let launch = |stream: &_| {
                    // Packets of an earlier launch are still there: they have another flag.
                    exchange.flag += 1;
                    // SAFETY: the kernels take such a struct, and use the shared memory of both ranks, which exists until both have
                    // synchronized the stream.
                    unsafe { function.launch(stream, BLOCKS, THREADS, &exchange) }
                };
                let time = examples_cuda::time_in_graph(&stream, pair.is_whole, launch)?;
                flag = exchange.flag;
                channels.synchronize(&stream)?;
                pair.check(channels.local(), count, kernel)?;
                pair.print(kernel, bytes, time);
            }
            // No rank frees memory that another one may still access.
            comm.barrier()?;
        }
        Ok(())
    })?;
    Ok(())
}
