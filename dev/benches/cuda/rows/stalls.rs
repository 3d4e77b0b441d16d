//! Waits that no operation releases.

use std::time::{Duration, Instant};

use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_exec::cuda::{Executor, Options};
use mscclpp_exec::error::WaitsFor;
use mscclpp_exec::{DataType, Error, Message};

use super::Verdict;
use crate::baselines::Baselines;
use crate::bench::Bench;
use crate::measure::{Outcome, median};

/// Timeout of an operation's wait.
const TIMEOUT: Duration = Duration::from_millis(5);

/// Measures an all-reduce in which rank 1 omits its first signal: the time from the launch until the report is
/// available.
pub(super) fn b11(bench: &Bench<'_>, _: Option<&Baselines>) -> Outcome<Option<Verdict>> {
    let algorithm = algorithms::find("allreduce_all_pairs").ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(8, 8), &algorithm.arguments([])?)?;
    for block in &mut tree.ranks[1].blocks {
        if let Some(at) = block.ops.iter().position(|op| op.kind == OpKind::Signal) {
            block.ops.remove(at);
        }
    }
    let world = Executor::with_options(bench.device, 8, Options::default().timeout(TIMEOUT));
    let mut run = world.prepare(&Plan::new(&tree), Message::new(DataType::F32, 256).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    let mut times = Vec::new();
    for turn in 0..9 {
        let clock = Instant::now();
        run.launch_buffers(&mut buffers, &stream)?;
        let stall = match run.synchronize(&stream) {
            Err(Error::Stalled(stall)) => stall,
            other => return Err(format!("a launch that cannot finish: {other:?}").into()),
        };
        times.push(clock.elapsed().as_secs_f64() * 1e3);
        if turn == 0 {
            bench.say(format_args!("{stall}"));
        }
        let is_named = |waits_for: &WaitsFor| matches!(waits_for, WaitsFor::Signal { peer: 1, .. });
        if !stall.blocked.iter().any(|blocked| is_named(&blocked.waits_for)) {
            return Err("the report does not say that rank 1 is waited for".into());
        }
    }
    let time = median(&mut times);
    Ok(Some(Verdict {
        row: "B11",
        measured: format!(
            "{time:.2} ms with a timeout of {} ms; what waits cost is in B4 at 1 KiB",
            TIMEOUT.as_millis()
        ),
        must: ("at most 1 s, with rank, block, operation and peer".into(), time <= 1000.0),
        bold: ("at most 10 ms".into(), time <= 10.0),
    }))
}
