//! Functions that the examples share: running a plan at several sizes, verified, with a table; running as one rank of a
//! job, or as several; two ranks that exchange data.

mod pair;

pub use pair::{Pair, sizes, time_in_graph};

use std::time::Instant;

use mscclpp::ErrorKind;
use mscclpp::prelude::*;
use mscclpp::runtime::cuda::Device;
use mscclpp::runtime::cuda::channels::{ChannelOptions, DeviceMemoryChannel};
use mscclpp::runtime::cuda::jit::Source;
use mscclpp::runtime::verify::Verifier;

/// Launches per size; the fastest one is shown.
const LAUNCHES: u32 = 10;

/// Runs a plan on the CPU with f32 sums at several message sizes in bytes, compares every element of every rank with a naive
/// result in f64, and prints a row for each size.
///
/// # Errors
/// A plan that cannot run at one of the sizes.
///
/// # Panics
/// If an element is wrong.
pub fn demonstrate(plan: &Plan, sizes: &[u64]) -> mscclpp::Result<()> {
    let ranks = plan.num_ranks();
    let place = if plan.collective().in_place { "in place" } else { "out of place" };
    println!(
        "plan `{}`: {} of {ranks} ranks, {place}, {} bytes",
        plan.name(),
        plan.collective().kind.name(),
        plan.image().len()
    );
    println!("{:>12} {:>12} {:>12} {:>8}", "bytes", "time us", "GB/s", "wrong");
    let world = Executor::new(ranks);
    for &bytes in sizes {
        let mut run = world.prepare(plan, Message::new(DataType::F32, bytes / 4))?;
        let mut buffers = run.buffers()?;
        let verifier = Verifier::new(&run, 1);
        let mut best = f64::INFINITY;
        let mut wrong = 0;
        for _ in 0..LAUNCHES {
            verifier.fill(&mut buffers);
            let start = Instant::now();
            run.launch_buffers(&mut buffers)?;
            best = best.min(start.elapsed().as_secs_f64());
            let report = verifier.check(&buffers);
            assert!(!report.is_unverified(), "a collective with a known result");
            wrong += report.wrong;
        }
        println!("{bytes:>12} {:>12.1} {:>12.2} {wrong:>8}", best * 1e6, bytes as f64 / best / 1e9);
        assert_eq!(wrong, 0, "`{}` at {bytes} bytes", plan.name());
    }
    println!();
    Ok(())
}

/// Returns the device of a rank, where custom kernels can be compiled; otherwise prints the reason.
pub fn device_with_compiler(comm: &Communicator) -> Option<Device> {
    let device = comm.device().map_err(|error| error.to_string());
    let compiles = |device: Device| device.compiler().map(drop).map_err(|error| error.to_string()).map(|()| device);
    device.and_then(compiles).map_err(|reason| println!("{reason}")).ok()
}

/// Runs `body` on the rank that the launcher's environment describes; without a launcher, on `ranks` ranks of this
/// process, each on a thread.
///
/// # Errors
/// Ranks that fail to connect, and the error of `body` on the first rank that failed.
pub fn on_ranks(ranks: u32, body: impl Fn(&Communicator) -> mscclpp::Result<()> + Sync) -> mscclpp::Result<()> {
    match Communicator::from_env() {
        Ok(comm) => {
            body(&comm)?;
            // Rank 0 forwards the last messages of the other ranks, so no rank exits before the barrier.
            Ok(comm.barrier()?)
        }
        Err(error) if error.kind() == ErrorKind::NotLaunched => std::thread::scope(|scope| {
            let body = &body;
            let start = |comm| scope.spawn(move || body(&comm));
            let threads: Vec<_> = Communicator::local(ranks)?.into_iter().map(start).collect();
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect();
            results.into_iter().collect()
        }),
        Err(error) => Err(error.into()),
    }
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
