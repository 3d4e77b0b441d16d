//! The interpreter and the kernel that is written for the plan beside one that was written by hand.

use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{Device, Prepare, World};
use mscclpp_exec::{DataType, Error, Message, algorithms};

use super::Outcome;
use super::hand_written::HandWritten;
use super::measure::{measure, microseconds};

const RANKS: u32 = 8;

/// Hand-written kernel, its algorithm in the library, and the sizes that it is for.
const ALGORITHMS: [(&str, &str, &[u64]); 2] = [
    ("one_shot", "allreduce_one_shot_packets", &[1 << 10, 4 << 10, 16 << 10, 64 << 10]),
    (
        "all_pairs",
        "allreduce_all_pairs",
        &[64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30],
    ),
];

pub(crate) fn run(device: &Device) -> Outcome<()> {
    if let Err(reason) = device.compiler() {
        println!("hand-written and specialised kernels: skipped: {reason}");
        return Ok(());
    }
    println!(
        "\n{RANKS} ranks, f32 sums in place, microseconds in a graph; shares are of the hand-written kernel's time"
    );
    println!(
        "{:<28} {:>11} {:>6} {:>8} {:>9} {:>12} {:>6} {:>12} {:>6} {:>10}",
        "plan", "bytes", "blocks", "threads", "by hand", "interpreted", "", "specialised", "", "of interp."
    );
    let mut shares = [Vec::new(), Vec::new()];
    for (kernel, name, sizes) in ALGORITHMS {
        let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
        let plan = Plan::new(&algorithm.compile(algorithm.spec(RANKS, RANKS), &algorithm.arguments([])?)?);
        for &bytes in sizes {
            line(device, kernel, &plan, bytes, &mut shares)?;
        }
    }
    for (what, shares) in ["interpreted", "specialised"].iter().zip(&shares).filter(|(_, shares)| !shares.is_empty()) {
        let mean = (shares.iter().map(|share: &f64| share.ln()).sum::<f64>() / shares.len() as f64).exp();
        let worst = shares.iter().copied().fold(0.0, f64::max);
        println!("{what}: {:+.1} % on average, {:+.1} % at worst", 100.0 * (mean - 1.0), 100.0 * (worst - 1.0));
    }
    Ok(())
}

fn line(device: &Device, kernel: &str, plan: &Plan, bytes: u64, shares: &mut [Vec<f64>; 2]) -> Outcome<()> {
    let world = World::new(device, RANKS);
    let message = Message::new(DataType::F32, bytes / 4).any_size();
    let mut times = Vec::new();
    let mut blocks = 0;
    for specialise in [false, true] {
        let mut run = match world.prepare_with(plan, message, Prepare { specialise }) {
            Err(Error::NotResident { blocks, fit, .. }) => {
                println!("{:<28} {bytes:>11} {blocks} thread blocks, {fit} fit", plan.name());
                return Ok(());
            }
            run => run?,
        };
        if let (true, Err(reason)) = (specialise, run.specialised()) {
            println!("{}: not specialised: {reason}", plan.name());
            return Ok(());
        }
        blocks = run.num_blocks();
        let mut buffers = run.buffers()?;
        let run = std::cell::RefCell::new(&mut run);
        let launch = |stream: &_| run.borrow_mut().launch_buffers(&mut buffers, stream);
        times.push(microseconds(measure(device, launch, |stream| run.borrow().synchronize(stream))?.graph));
    }
    let threads = plan.threads_per_block();
    let mut by_hand = HandWritten::new(device, kernel, RANKS, bytes, blocks, threads)?;
    by_hand.check(device, 0)?;
    let by_hand = microseconds(measure(device, |stream| by_hand.launch(stream), |stream| stream.synchronize())?.graph);
    for (shares, time) in shares.iter_mut().zip(&times) {
        shares.push(time / by_hand);
    }
    println!(
        "{:<28} {bytes:>11} {blocks:>6} {threads:>8} {by_hand:>9.2} {:>12.2} {:>6.2} {:>12.2} {:>6.2} {:>10.2}",
        plan.name(),
        times[0],
        times[0] / by_hand,
        times[1],
        times[1] / by_hand,
        times[0] / times[1]
    );
    Ok(())
}
