//! What calls cost the host: the first one, one of another size, and one like the last.

use std::time::Instant;

use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{Device, World};
use mscclpp_exec::{DataType, Message, algorithms};

use super::Outcome;
use super::hand_written::HandWritten;
use super::measure::{measure, median, microseconds};

const RANKS: u32 = 8;
const ROUNDS: u64 = 25;

pub(crate) fn run(device: &Device) -> Outcome<()> {
    println!("\n{RANKS} ranks, f32, microseconds on the host; medians of {ROUNDS}");
    println!("{:<28} {:>14} {:>14} {:>14}", "plan", "first call", "size change", "eager call");
    for name in ["allreduce_one_shot_packets", "allreduce_packets", "allreduce_all_pairs"] {
        line(device, name)?;
    }
    match HandWritten::new(device, "nothing", RANKS, 16, 64, 1024) {
        Ok(nothing) => {
            let times = measure(device, |stream| nothing.launch(stream), |stream| stream.synchronize())?;
            println!("{:<28} {:>14} {:>14} {:>14.2}", "an empty kernel", "", "", microseconds(times.host));
        }
        Err(reason) => println!("an empty kernel: skipped: {reason}"),
    }
    Ok(())
}

fn line(device: &Device, name: &str) -> Outcome<()> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let plan = Plan::new(&algorithm.compile(algorithm.spec(RANKS, RANKS), &algorithm.arguments([])?)?);
    let stream = device.stream()?;
    let message = |count: u64| Message::new(DataType::F32, count).any_size();
    // The kernels of the type are loaded, as they are after the first call of any plan; memory is at hand.
    let mut largest = World::new(device, RANKS).prepare(&plan, message(1 << 16))?;
    let mut memory = largest.buffers()?;
    largest.launch_buffers(&mut memory, &stream)?;
    largest.synchronize(&stream)?;
    let (mut first, mut change) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // A world that has not seen the plan.
        let world = World::new(device, RANKS);
        let mut buffers = largest.buffers()?;
        let clock = Instant::now();
        let mut run = world.prepare(&plan, message(1 << 16))?;
        run.launch_buffers(&mut buffers, &stream)?;
        first.push(clock.elapsed().as_secs_f64() * 1e6);
        run.synchronize(&stream)?;
        let other = message((1 << 15) + 64 * round);
        let mut buffers = world.prepare(&plan, other)?.buffers()?;
        let clock = Instant::now();
        let mut run = world.prepare(&plan, other)?;
        run.launch_buffers(&mut buffers, &stream)?;
        change.push(clock.elapsed().as_secs_f64() * 1e6);
        run.synchronize(&stream)?;
    }
    let run = std::cell::RefCell::new(&mut largest);
    let launch = |stream: &_| run.borrow_mut().launch_buffers(&mut memory, stream);
    let times = measure(device, launch, |stream| run.borrow().synchronize(stream))?;
    println!(
        "{name:<28} {:>14.2} {:>14.2} {:>14.2}",
        median(&mut first),
        median(&mut change),
        microseconds(times.host)
    );
    Ok(())
}
