//! Tutorial 4: two ranks exchange data in both directions by a port channel: a thread of the host, the proxy, copies at the request of a
//! kernel (`port_channel.cu`).
//!
//! ```console
//! mscclpp launch -n 2 -- target/release/examples/port_channel 1024 1048576 134217728
//! scripts/simulated-cuda.sh -n 2 -- target/release/examples/port_channel
//! ```
//!
//! The arguments are sizes in bytes, multiples of 16. Every element that a rank receives is compared. Rank 0 prints the time of a launch in
//! a graph and the rate in one direction, which mean nothing on a simulated device. Ranks 2 and 3 are a pair as well, and so on. Without a
//! device, or without NVRTC, it prints the reason.

use mscclpp::prelude::*;
use mscclpp::runtime::cuda::channels::{ChannelOptions, DevicePortChannel};
use mscclpp::runtime::cuda::jit::Source;

/// As in `port_channel.cu`.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Exchange {
    peer: DevicePortChannel,
    bytes: u64,
    side: u32,
    reserved: u32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sizes = examples_cuda::sizes(&[1024, 16384])?;
    examples_cuda::on_ranks(2, |comm: &Communicator| {
        let Some(device) = examples_cuda::device_with_compiler(comm) else { return Ok(()) };
        let kernel = device.module(&Source::new("port_channel.cu", include_str!("port_channel.cu")))?;
        let kernel = kernel.function("exchange")?;
        let stream = device.stream()?;
        let pair = examples_cuda::Pair::new(comm);
        for &bytes in &sizes {
            let count = bytes as usize / size_of::<u32>();
            let memory = comm.on(&stream).alloc::<u32>(2 * count)?;
            // With a port channel, the channels have a proxy.
            let options = ChannelOptions::default().num_memory(0).num_port(1);
            let mut channels = comm.on(&stream).channels(memory, options)?;
            pair.write_own(channels.local_mut(), count)?;
            let exchange = Exchange { peer: channels.port(pair.peer, 0)?, bytes, side: pair.side, reserved: 0 };
            // No rank writes to memory that its owner is still initializing.
            comm.barrier()?;
            let launch = |stream: &_| {
                // SAFETY: the kernel takes such a struct, and uses the shared memory of both ranks, which exists until both have
                // synchronized the stream.
                unsafe { kernel.launch(stream, 1, 32, &exchange) }
            };
            let time = examples_cuda::time_in_graph(&stream, pair.is_whole, launch)?;
            channels.synchronize(&stream)?;
            pair.check(channels.local(), count, "put with signal")?;
            pair.print("put with signal", bytes, time);
            channels.stop_proxy()?;
            // No rank frees memory that another one may still access.
            comm.barrier()?;
        }
        Ok(())
    })?;
    Ok(())
}
