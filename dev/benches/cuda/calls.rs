//! Host time of calls: the first one, one of another size, and one that repeats the last.

use std::cell::RefCell;
use std::fmt;
use std::time::Instant;

use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::Executor;
use mscclpp_exec::{DataType, Message};

use crate::bench::Bench;
use crate::measure::{Outcome, median, microseconds};

const RANKS: u32 = 8;

/// Plans that are called.
pub(crate) const NAMES: [&str; 3] = ["allreduce_one_shot_packets", "allreduce_packets", "allreduce_all_pairs"];

/// Host times in microseconds.
pub(crate) struct Calls {
    pub(crate) first: f64,
    pub(crate) change: f64,
    pub(crate) eager: f64,
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, change, eager } = self;
        write!(f, "{first:>14.2} {change:>14.2} {eager:>14.2}")
    }
}

pub(crate) fn run(bench: &Bench<'_>) -> Outcome<()> {
    bench.say(format_args!("\n{RANKS} ranks, f32, microseconds on the host; medians"));
    bench.say(format_args!("{:<28} {:>14} {:>14} {:>14}", "plan", "first call", "size change", "eager call"));
    for name in NAMES {
        bench.say(format_args!("{name:<28} {}", measure(bench, name)?));
    }
    Ok(())
}

pub(crate) fn measure(bench: &Bench<'_>, name: &str) -> Outcome<Calls> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(RANKS, RANKS), &algorithm.arguments([])?)?);
    // The plan for which buffers are allocated, since buffers belong to an executor, and the executor must not have
    // prepared the measured plan.
    let other = algorithms::find("allreduce_ring").ok_or("no such algorithm")?;
    let mut spec = other.spec(RANKS, RANKS);
    spec.collective.in_place = algorithm.spec(RANKS, RANKS).collective.in_place;
    let other = Plan::new(&other.compile_tree(spec, &other.arguments([])?)?);
    let stream = bench.device.stream()?;
    let (most, rounds) = if bench.rehearsal { (1 << 10, 2) } else { (1 << 16, 25) };
    let message = |count: u64| Message::new(DataType::F32, count).any_size();
    // The kernels of the type are loaded, as they are after the first call of any plan, and memory is allocated.
    let mut largest = Executor::new(bench.device, RANKS).prepare(&plan, message(most))?;
    let mut memory = largest.buffers()?;
    largest.launch_buffers(&mut memory, &stream)?;
    largest.synchronize(&stream)?;
    let (mut first, mut change) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // An executor that has not prepared the plan.
        let world = Executor::new(bench.device, RANKS);
        let mut buffers = world.prepare(&other, message(most))?.buffers()?;
        let clock = Instant::now();
        let mut run = world.prepare(&plan, message(most))?;
        run.launch_buffers(&mut buffers, &stream)?;
        first.push(clock.elapsed().as_secs_f64() * 1e6);
        run.synchronize(&stream)?;
        let changed = message(most / 2 + 64 * round);
        let mut buffers = world.prepare(&plan, changed)?.buffers()?;
        let clock = Instant::now();
        let mut run = world.prepare(&plan, changed)?;
        run.launch_buffers(&mut buffers, &stream)?;
        change.push(clock.elapsed().as_secs_f64() * 1e6);
        run.synchronize(&stream)?;
    }
    let run = RefCell::new(&mut largest);
    let launch = |stream: &_| run.borrow_mut().launch_buffers(&mut memory, stream);
    let times = bench.times(launch, |stream| run.borrow().synchronize(stream))?;
    Ok(Calls { first: median(&mut first), change: median(&mut change), eager: microseconds(times.host) })
}
