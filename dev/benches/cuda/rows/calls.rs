//! Host time of calls.

use std::time::Instant;

use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::Executor;
use mscclpp_exec::{DataType, Message};

use super::Verdict;
use crate::baselines::Baselines;
use crate::bench::Bench;
use crate::calls::{self, Calls, NAMES};
use crate::measure::{Outcome, median};

/// Returns the maximum host times of the calls of some plans, for each setting.
fn slowest(bench: &Bench<'_>) -> Outcome<Calls> {
    bench.say(format_args!("{:<28} {:>14} {:>14} {:>14}", "microseconds", "first call", "size change", "eager call"));
    let mut worst = Calls { first: 0.0, change: 0.0, eager: 0.0 };
    for name in NAMES {
        let calls = calls::measure(bench, name)?;
        bench.say(format_args!("{name:<28} {calls}"));
        worst.first = worst.first.max(calls.first);
        worst.change = worst.change.max(calls.change);
        worst.eager = worst.eager.max(calls.eager);
    }
    Ok(worst)
}

pub(super) fn b6(bench: &Bench<'_>, baselines: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let worst = slowest(bench)?.eager;
    let Some(Baselines { launch_us, .. }) = baselines else { return Ok(None) };
    Ok(Some(Verdict {
        row: "B6",
        measured: format!("{worst:.2} us"),
        must: (format!("at most L + 1 us = {:.2} us", launch_us + 1.0), worst <= launch_us + 1.0),
        bold: (format!("at most L + 0.3 us = {:.2} us", launch_us + 0.3), worst <= launch_us + 0.3),
    }))
}

pub(super) fn b7(bench: &Bench<'_>, _: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let Calls { first, change, .. } = slowest(bench)?;
    Ok(Some(Verdict {
        row: "B7",
        measured: format!("first call {first:.1} us, another size {change:.1} us"),
        must: ("at most 200 us and 20 us".into(), first <= 200.0 && change <= 20.0),
        bold: ("at most 50 us and 5 us".into(), first <= 50.0 && change <= 5.0),
    }))
}

/// Measures what is loaded once: the first plan on a device that has just been opened, less one on a device that has
/// its kernels.
pub(super) fn b8(bench: &Bench<'_>, _: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let algorithm = algorithms::find("allreduce_packets").ok_or("no such algorithm")?;
    let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(8, 8), &algorithm.arguments([])?)?);
    let mut times = Vec::new();
    for _ in 0..5 {
        let device = (bench.fresh)()?;
        let mut of = [0.0; 2];
        for time in &mut of {
            let clock = Instant::now();
            Executor::new(&device, 8).prepare(&plan, Message::new(DataType::F32, 1 << 10).any_size())?;
            *time = clock.elapsed().as_secs_f64() * 1e3;
        }
        times.push(of[0] - of[1]);
    }
    let time = median(&mut times);
    Ok(Some(Verdict {
        row: "B8",
        measured: format!("{time:.1} ms"),
        must: ("at most 300 ms".into(), time <= 300.0),
        bold: ("at most 30 ms".into(), time <= 30.0),
    }))
}
