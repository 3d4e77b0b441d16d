//! Tutorial 1: the kernels of two devices of one process pass a number to each other by a memory channel (`ping_pong.cu`).
//!
//! ```console
//! cargo run --release --example ping_pong
//! scripts/simulated-cuda.sh -- target/release/examples/ping_pong
//! ```
//!
//! Each rank increments the number; rank 1 compares what it has received, and prints how long a round takes, which means nothing on a
//! simulated device. Without a device, or without NVRTC, it prints the reason.

use mscclpp::prelude::*;

fn main() -> mscclpp::Result<()> {
    // The ranks are threads. Under a launcher they are processes instead, and nothing else changes.
    examples_cuda::on_ranks(2, |comm: &Communicator| {
        let Some(device) = examples_cuda::device_with_compiler(comm) else { return Ok(()) };
        examples_cuda::ping_pong(comm, &device)
    })
}
