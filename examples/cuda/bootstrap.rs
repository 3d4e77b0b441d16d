//! Tutorial 2: one process per device, which find each other. The same kernels as in `ping_pong` then signal each other between the
//! processes.
//!
//! ```console
//! cargo run --release --example bootstrap                  # starts a second process, which joins by the id of this one
//! mscclpp launch -n 2 -- target/release/examples/bootstrap # joins by the variables of the launcher
//! scripts/simulated-cuda.sh -- target/release/examples/bootstrap
//! scripts/simulated-cuda.sh -n 2 -- target/release/examples/bootstrap
//! ```
//!
//! Before any device is used, the processes exchange messages by the bootstrap: an all-gather, a message to one rank, a barrier. Without a
//! device, or without NVRTC, it prints the reason.

use std::process::Command;

use mscclpp::ErrorKind;
use mscclpp::bootstrap::{Options, RootListener, UniqueId};
use mscclpp::prelude::*;
use mscclpp::raw::bootstrap::Bootstrap;

/// The job of a process that starts the others itself.
const RANKS: u32 = 2;

/// Tag of the message from rank to rank.
const GREETING: u64 = 7;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    // The second process, started below: the id is its argument.
    if let Some(id) = std::env::args().nth(1) {
        let id: UniqueId = id.parse()?;
        return work(id.join(1, RANKS, Options::default())?);
    }
    match Bootstrap::from_env() {
        Ok(bootstrap) => work(bootstrap),
        Err(error) if error.kind() == ErrorKind::NotLaunched => start_job(),
        Err(error) => Err(error.into()),
    }
}

/// Starts a job of two processes, of which this one is rank 0.
fn start_job() -> Result<()> {
    let listener = RootListener::new()?;
    // Any means may carry the id to the other processes. It contains the job's secret.
    let mut second = Command::new(std::env::current_exe()?).arg(listener.unique_id().to_string()).spawn()?;
    let worked = listener.connect(RANKS, Options::default()).map_err(Into::into).and_then(work);
    let status = second.wait()?;
    worked?;
    if status.success() { Ok(()) } else { Err(format!("rank 1 has failed: {status}").into()) }
}

/// What each process does once the ranks are connected.
fn work(bootstrap: Bootstrap) -> Result<()> {
    let (rank, ranks) = (bootstrap.rank(), bootstrap.num_ranks());
    // Messages of the host, without a device.
    let processes = bootstrap.all_gather(&std::process::id().to_le_bytes())?;
    assert_eq!(processes.len(), ranks as usize);
    let [next, previous] = [(rank + 1) % ranks, (rank + ranks - 1) % ranks];
    bootstrap.send(next, GREETING, format!("from {rank} to {next}").as_bytes())?;
    let greeting = bootstrap.recv(previous, GREETING)?;
    assert_eq!(greeting, format!("from {previous} to {rank}").into_bytes());
    bootstrap.barrier()?;
    if rank == 0 {
        println!("{ranks} processes are connected");
    }

    // A communicator is made from a bootstrap, whatever way the ranks have found each other.
    let comm = Communicator::from(bootstrap);
    if let Some(device) = examples_cuda::device_with_compiler(&comm) {
        examples_cuda::ping_pong(&comm, &device)?;
    }
    // Rank 0 forwards the last messages of the other ranks, so no rank exits before the barrier.
    Ok(comm.barrier()?)
}
