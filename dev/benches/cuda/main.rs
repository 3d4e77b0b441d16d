//! Collectives on one CUDA device. Without a device it reports that and does nothing.
//!
//! | `cargo bench -p mscclpp-dev -- …` | measures |
//! |---|---|
//! | `rows` | all targets for one device, and reports for each whether it is reached |
//! | `b1` … `b14` | some of these targets, in one run and in this order |
//! | `… only:NAME,NAME` | rows with these algorithms alone where there is a choice |
//! | `… at-most:BYTES` | rows without larger messages, but for rows whose messages are all larger |
//! | `collectives` | time of a launch in a graph, eager and on the host, and bytes per second |
//! | `compare` | the interpreter and the specialized kernel, compared with a hand-written one |
//! | `calls` | host time of calls: the first one, one of another size, one that repeats the last |
//! | `PLAN RANKS BYTES` | one collective |
//! | `rehearse …` | the same on tiny messages: tests that it runs, not how fast |
//!
//! Without arguments, all rows. Those of small messages end with stamps of the device's clock (`stamps`).

mod baselines;
mod bench;
mod calls;
mod compare;
mod hand_written;
mod measure;
mod norm_kernels;
mod rows;
mod stamps;

use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{Device, Executor};
use mscclpp_exec::{DataType, Error, Message};

use bench::Bench;
use measure::{Outcome, microseconds};
use rows::ROWS;

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
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let fresh = || Ok(Device::new(0)?);
    let mut bench = Bench::new(&device, &fresh);
    bench.rehearsal = arguments.first() == Some(&"rehearse");
    if bench.rehearsal {
        arguments.remove(0);
    }
    if let Some(bytes) = arguments.last().and_then(|last| last.strip_prefix("at-most:")) {
        bench.at_most = bytes.parse()?;
        arguments.pop();
    }
    if let Some(names) = arguments.last().and_then(|last| last.strip_prefix("only:")) {
        bench.only = names.split(',').map(str::to_owned).collect();
        arguments.pop();
    }
    let is_row = |name: &&str| ROWS.iter().any(|(row, ..)| row == name);
    match arguments[..] {
        ["collectives"] => collectives(&bench),
        ["compare"] => compare::run(&bench),
        ["calls"] => calls::run(&bench),
        [] | ["rows"] => rows::run(&bench, &ROWS.map(|(row, ..)| row)).map(drop),
        ref some if some.iter().all(is_row) => rows::run(&bench, some).map(drop),
        [plan, ranks, bytes] => line(&bench, plan, ranks.parse()?, bytes.parse()?),
        _ => {
            Err("expected `rows`, `b1` to `b14`, `collectives`, `compare`, `calls`, or a plan, ranks and bytes".into())
        }
    }
}

fn collectives(bench: &Bench<'_>) -> Outcome<()> {
    println!(
        "{:<36} {:>5} {:>12} {:>10} {:>10} {:>9} {:>9}",
        "plan", "ranks", "bytes", "graph us", "eager us", "host us", "algbw GB/s"
    );
    for &bytes in bench.sizes(&[1 << 10, 8 << 10, 64 << 10, 256 << 10]) {
        for plan in ["allreduce_packets", "allreduce_one_shot_packets", "allreduce_all_pairs"] {
            line(bench, plan, 8, bytes)?;
        }
    }
    for &bytes in bench.sizes(&[1 << 20, 16 << 20, 64 << 20, 1 << 30]) {
        for plan in ["allreduce_all_pairs", "allreduce_switch"] {
            line(bench, plan, 8, bytes)?;
        }
    }
    for plan in ["allgather_all_pairs", "reducescatter_all_pairs", "alltoall_direct"] {
        for ranks in [4, 8] {
            line(bench, plan, ranks, bench.sizes(&[256 << 20])[0])?;
        }
    }
    Ok(())
}

fn line(bench: &Bench<'_>, name: &str, ranks: u32, bytes: u64) -> Outcome<()> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(ranks, ranks), &algorithm.arguments([])?)?);
    let world = Executor::new(bench.device, ranks);
    let message = Message::new(DataType::F32, bytes / 4).any_size();
    let mut run = match world.prepare(&plan, message) {
        Err(Error::NotCoResident { blocks, fit, .. }) => {
            println!("{name:<36} {ranks:>5} {bytes:>12} {blocks} thread blocks, {fit} fit");
            return Ok(());
        }
        run => run?,
    };
    let (mut buffers, blocks) = (run.buffers()?, run.num_blocks());
    let run = std::cell::RefCell::new(&mut run);
    let launch = |stream: &_| run.borrow_mut().launch_buffers(&mut buffers, stream);
    let times = bench.times(launch, |stream| run.borrow().synchronize(stream))?;
    let [graph, eager, host] = [times.graph, times.eager, times.host].map(microseconds);
    let rate = bytes as f64 / graph / 1e3;
    println!(
        "{:<36} {ranks:>5} {bytes:>12} {:>10.2} {:>10.2} {:>9.2} {rate:>9.1}   {} blocks",
        name, graph, eager, host, blocks
    );
    Ok(())
}
