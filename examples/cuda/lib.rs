//! Functions that the examples on CUDA devices share: the device of a rank, two ranks that exchange data.

mod pair;

pub use examples::on_ranks;
pub use pair::{Pair, sizes, time_in_graph};

use mscclpp::prelude::*;
use mscclpp::runtime::cuda::Device;
use mscclpp::runtime::cuda::channels::{ChannelOptions, DeviceMemoryChannel};
use mscclpp::runtime::cuda::jit::Source;

/// Returns the device of a rank, where custom kernels can be compiled; otherwise prints the reason.
pub fn device_with_compiler(comm: &Communicator) -> Option<Device> {
    let device = comm.device().map_err(|error| error.to_string());
    let compiles = |device: Device| device.compiler().map(drop).map_err(|error| error.to_string()).map(|()| device);
    device.and_then(compiles).map_err(|reason| println!("{reason}")).ok()
}

/// As in `ping_pong.cu`.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct PingPong {
    peer: DeviceMemoryChannel,
    shared: u64,
    rounds: u32,
    reserved: u32,
}

/// Lets kernels of ranks 0 and 1 pass a number to each other; prints how long a round takes. Other ranks only connect.
///
/// # Errors
/// Those of the driver; ranks that are lost; kernels that wait longer than the timeout.
///
/// # Panics
/// If a rank has received another number than the peer has sent.
pub fn ping_pong(comm: &Communicator, device: &Device) -> mscclpp::Result<()> {
    const ROUNDS: usize = 10;
    let (rank, stream) = (comm.rank(), device.stream()?);
    let module = device.module(&Source::new("ping_pong.cu", include_str!("ping_pong.cu")))?;
    // Channels are over memory of each rank, which is zero at first.
    let memory = comm.on(&stream).alloc::<u64>(2 + 2 * ROUNDS)?;
    let channels = comm.on(&stream).channels(memory, ChannelOptions::default())?;
    let shared = channels.local().as_slice().address;
    if rank < 2 && comm.num_ranks() > 1 {
        let peer = channels.memory(1 - rank, 0)?;
        let arguments = PingPong { peer, shared, rounds: ROUNDS as u32, reserved: 0 };
        let kernel = module.function(if rank == 0 { "answer" } else { "ask" })?;
        // SAFETY: the kernels take such a struct, and use the shared memory of both ranks, which exists until both have synchronized the
        // stream.
        unsafe { kernel.launch(&stream, 1, 32, &arguments)? };
    }
    channels.synchronize(&stream)?;
    if rank == 1 {
        let words = channels.local().to_vec()?;
        let rounds: Vec<&[u64]> = words[2..].chunks(2).collect();
        let numbers: Vec<u64> = rounds.iter().map(|round| round[0]).collect();
        let expected: Vec<u64> = (1..=ROUNDS as u64).map(|round| 2 * round).collect();
        assert_eq!(numbers, expected, "each rank increments the number once per round");
        let mean = rounds.iter().map(|round| round[1] as f64).sum::<f64>() / ROUNDS as f64;
        println!("ranks 0 and 1 have passed a number {} times, {:.1} us for a round", 2 * ROUNDS, mean / 1e3);
    }
    // No rank frees memory that another one may still access.
    Ok(comm.barrier()?)
}
