//! Collectives on one CUDA device: time of a launch in a graph and eager, and what share of the memory's rate that is.
//!
//! `cargo bench -p mscclpp-exec --bench cuda -- [PLAN RANKS BYTES]`. Without a device it says so and does nothing.

use std::time::Instant;

use mscclpp_core::plan::Plan;
use mscclpp_exec::algorithms;
use mscclpp_exec::cuda::{Device, Run, World};
use mscclpp_exec::{DataType, Error, Message};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let device = match Device::new(0) {
        Ok(device) => device,
        Err(reason) => {
            println!("skipped: {reason}");
            return Ok(());
        }
    };
    println!("on {}", device.properties());
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let [plan, ranks, bytes] = &arguments[..] {
        return line(&device, plan, ranks.parse()?, bytes.parse()?, &[]);
    }
    println!(
        "{:<36} {:>5} {:>12} {:>10} {:>10} {:>9} {:>9}",
        "plan", "ranks", "bytes", "graph us", "eager us", "host us", "algbw GB/s"
    );
    for bytes in [1 << 10, 8 << 10, 64 << 10, 256 << 10] {
        for plan in ["allreduce_packets", "allreduce_one_shot_packets", "allreduce_all_pairs"] {
            line(&device, plan, 8, bytes, &[])?;
        }
    }
    for bytes in [1 << 20, 16 << 20, 64 << 20, 1 << 30] {
        for plan in ["allreduce_all_pairs", "allreduce_switch"] {
            line(&device, plan, 8, bytes, &[])?;
        }
    }
    for plan in ["allgather_all_pairs", "reducescatter_all_pairs", "alltoall_direct"] {
        for ranks in [4, 8] {
            line(&device, plan, ranks, 256 << 20, &[])?;
        }
    }
    Ok(())
}

fn line(device: &Device, name: &str, ranks: u32, bytes: u64, given: &[(&str, usize)]) -> Outcome<()> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let arguments = algorithm.arguments(given.iter().copied())?;
    let plan = Plan::new(&algorithm.compile(algorithm.spec(ranks, ranks), &arguments)?);
    let world = World::new(device, ranks);
    let message = Message::new(DataType::F32, bytes / 4).any_size();
    let mut run = match world.prepare(&plan, message) {
        Err(Error::NotResident { blocks, fit, .. }) => {
            println!("{name:<36} {ranks:>5} {bytes:>12} {blocks} thread blocks, {fit} fit");
            return Ok(());
        }
        run => run?,
    };
    let times = measure(device, &mut run)?;
    let rate = bytes as f64 / times[0] / 1e3;
    println!(
        "{:<36} {ranks:>5} {bytes:>12} {:>10.2} {:>10.2} {:>9.2} {rate:>9.1}   {} blocks",
        name,
        times[0],
        times[1],
        times[2],
        run.num_blocks()
    );
    Ok(())
}

/// Microseconds of a launch: replayed in a graph, eager, and on the host alone. Medians of several rounds.
fn measure(device: &Device, run: &mut Run) -> Outcome<[f64; 3]> {
    const ROUNDS: usize = 9;
    let (mut buffers, stream) = (run.buffers()?, device.stream()?);
    let graph = stream.capture(|stream| (0..10).try_for_each(|_| run.launch_buffers(&mut buffers, stream)))?;
    // SAFETY: run and buffers outlive the graph's last launch, which `synchronize` waits for.
    let replay = || unsafe { graph.launch(&stream) };
    replay()?;
    run.synchronize(&stream)?;
    let start = stream.event()?;
    replay()?;
    let end = stream.event()?;
    run.synchronize(&stream)?;
    let once = end.microseconds_since(&start)?;
    let replays = (20_000.0 / once).clamp(1.0, 100.0) as usize;
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let start = stream.event()?;
        (0..replays).try_for_each(|_| replay())?;
        let end = stream.event()?;
        run.synchronize(&stream)?;
        times[0].push(end.microseconds_since(&start)? / (10 * replays) as f64);
        let (start, clock) = (stream.event()?, Instant::now());
        for _ in 0..10 * replays.min(10) {
            run.launch_buffers(&mut buffers, &stream)?;
        }
        let host = clock.elapsed();
        let end = stream.event()?;
        run.synchronize(&stream)?;
        let count = (10 * replays.min(10)) as f64;
        times[1].push(end.microseconds_since(&start)? / count);
        times[2].push(host.as_secs_f64() * 1e6 / count);
    }
    Ok(times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}
