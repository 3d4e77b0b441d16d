//! Failures: ranks that are killed, suspended, stalled or aborted, invalid calls, and calls of the driver that fail.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_dev::Options;
use mscclpp_exec::cuda::{self, Executor};
use mscclpp_exec::error::{BlockedThreadBlock, WaitsFor};
use mscclpp_exec::{DataType, Error, Message};

use super::super::processes::{Job, Player, Work};
use super::super::stalls;
use super::shipped;

/// Launches until one fails, which must name rank 1; prints `ready` after some.
pub(super) fn launches_until_an_error(world: &Executor, rank: u32) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring_ports", world.num_ranks(), 2)?;
    let mut run = world.prepare(&plan, Message::new(DataType::F32, 400).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    for launch in 0.. {
        let launched = run.launch_buffers(&mut buffers, &stream).and_then(|()| run.synchronize(&stream));
        match launched {
            Ok(()) if launch == 3 => println!("ready"),
            Ok(()) => {}
            Err(error) if error.to_string().contains("rank 1 (pid") => break,
            Err(error) => return Err(format!("rank {rank}: {error:?}").into()),
        }
    }
    match run.launch_buffers(&mut buffers, &stream) {
        Err(Error::Bootstrap(_)) => Ok(()),
        other => Err(format!("after an error: {other:?}").into()),
    }
}

/// The other ranks receive the failure, each from the rank that it waits for, and the killed rank is named.
pub(super) fn killed_rank_is_named(seed: u64) -> Result<(), Failed> {
    without_first(seed, "killed", Job::kill)
}

/// A stopped process makes no progress, and is reported as lost.
pub(super) fn stopped_rank_is_named(seed: u64) -> Result<(), Failed> {
    without_first(seed, "stopped", Job::stop)
}

/// Runs launches, and checks the other ranks after an event that happens to rank 1 in the middle of them.
fn without_first(seed: u64, role: &str, happens: fn(&mut Job, usize) -> Result<(), Failed>) -> Result<(), Failed> {
    let mut job = Job::start(role, "simulator", seed, 4, 2)?;
    (0..4).try_for_each(|rank| job.wait_for_line(rank, "ready\n"))?;
    happens(&mut job, 1)?;
    match job.wait_without(Some(1))?.into_iter().find(|(succeeded, _)| !succeeded) {
        Some((_, text)) => Err(text.into()),
        None => Ok(()),
    }
}

/// All ranks reject a plan that accesses memory across nodes other than by port channels, with the operation and a fix;
/// the next plan runs.
pub(super) fn cross_node_access_is_rejected(world: &Executor, rank: u32) -> Result<(), Failed> {
    let message = Message::new(DataType::F32, 400).any_size();
    for name in ["allreduce_all_pairs", "allreduce_packets", "allreduce_switch"] {
        match world.prepare(&shipped(name, 4, 4)?, message) {
            Err(error @ Error::CrossNodeAccess { node: 0, peer_node: 1, .. }) => {
                let text = error.diagnostic().to_string();
                let says = |words: &str| text.contains(words);
                if !says("on node 0 accesses the memory of rank") || !says("use a port channel") || !says("operation") {
                    return Err(text.into());
                }
            }
            other => return Err(format!("{name}: {other:?}").into()),
        }
    }
    Ok(Work::new(shipped("allreduce_ring_ports", 4, 2)?, message, 1)?.run(world, rank)?)
}

/// Ranks that prepare different sizes get an error on both nodes.
pub(super) fn different_sizes_are_reported(world: &Executor, rank: u32) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring_ports", 4, 2)?;
    let message = Message::new(DataType::F32, 400 + 4 * u64::from(rank / 2)).any_size();
    match world.prepare(&plan, message) {
        Err(error) if error.code() == Code::CallMismatch => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// Rank 1 omits a signal that rank 2 waits for: all ranks abort eventually, and report the cause.
pub(super) fn stalled(world: &Executor, player: &Player) -> Result<(), Failed> {
    let tree = stalls::without("allreduce_ring_ports", 4, 1, OpKind::PutWithSignal)?;
    let mut run = world.prepare(&Plan::new(&tree), Message::new(DataType::F32, 400).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    // Some ranks have all data that they need the first time.
    let mut launches = 0;
    let error = loop {
        launches += 1;
        match run.launch_buffers(&mut buffers, &stream).and_then(|()| run.synchronize(&stream)) {
            Ok(()) if launches < 10 => {}
            Ok(()) => return Err("no launch failed".into()),
            Err(error) => break error,
        }
    };
    let is_second = player.group.rank() == 2;
    let is_for_first = |blocked: &BlockedThreadBlock| matches!(blocked.waits_for, WaitsFor::Signal { peer: 1, .. });
    match error {
        Error::Stalled(stall) if !is_second || stall.blocked.iter().any(is_for_first) => {}
        Error::Interrupted(interrupted) if interrupted.cause.root_cause().is_some() => {}
        other => return Err(format!("{other:?}").into()),
    }
    match run.launch_buffers(&mut buffers, &stream) {
        Err(Error::Bootstrap(_)) => Ok(()),
        other => Err(format!("after a stall: {other:?}").into()),
    }
}

/// A launch that one rank's caller aborts ends on the other rank too, long before its timeout: the same one, or the one before, whose
/// last messages may be on their way.
pub(super) fn aborted(world: &Executor, rank: u32) -> Result<(), Failed> {
    let mut run =
        world.prepare(&shipped("allreduce_ring_ports", 2, 1)?, Message::new(DataType::F32, 400).any_size())?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    // A launch that completes before it observes the request is not aborted, and rank 0 may have received all by then.
    for launch in 0..50 {
        if launch >= 2 && rank == 1 {
            run.abort();
        }
        let launched = run.launch_buffers(&mut buffers, &stream).and_then(|()| run.synchronize(&stream));
        match (launch, rank, launched) {
            (_, _, Ok(())) => {}
            (2.., _, Err(error)) | (1, 0, Err(error)) if error.root_cause().is_some_and(|cause| cause.rank == 1) => {
                return Ok(());
            }
            (.., other) => return Err(format!("launch {launch}: {other:?}").into()),
        }
    }
    Err("no launch has ended with an error".into())
}

/// Returns the numbers of this process' threads and sockets. It waits until they are down to those of `before`: a
/// joined thread may still be exiting.
fn threads_and_sockets(before: Option<[usize; 2]>) -> Result<[usize; 2], Failed> {
    let begun = Instant::now();
    loop {
        let threads = std::fs::read_dir("/proc/self/task")?.count();
        let files = std::fs::read_dir("/proc/self/fd")?.flatten();
        let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        let found = [threads, names.filter(|name| name.to_string_lossy().starts_with("socket:")).count()];
        if before.is_none_or(|before| before == found) || begun.elapsed() > Duration::from_secs(30) {
            return Ok(found);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Calls that fail on rank 1, for each of the first calls of a function: rank 1 names the call, the other rank receives
/// the error, and the simulator detects no leak.
pub(super) fn every_call_fails_once(player: &Player, options: Options) -> Result<(), Failed> {
    let (plan, rank) = (shipped("allreduce_ring_ports", 2, 1)?, player.group.rank());
    let calls = [
        "cuMemHostAlloc",
        "cuStreamCreate",
        "cuThreadExchangeStreamCaptureMode",
        "cuMemcpyAsync",
        "cuStreamWriteValue64",
        "cuEventCreate",
        "cuEventRecord",
        "cuEventQuery",
    ];
    let before = threads_and_sockets(None)?;
    for call in calls {
        let mut has_failed = false;
        for nth in 1..=12 {
            let failing = (rank == 1).then_some((call, nth));
            let run = |patience: Duration, timeout: Duration| -> Result<(), Error> {
                let options = Options { failing, patience, late: false, ..options };
                let (device, _rig) = player.device(options).map_err(|failed| Error::Internal(format!("{failed:?}")))?;
                // The failure ends this part, and the next run has another one.
                let part = player.group.split(Some(0), rank)?.map(Arc::new);
                let part = part.ok_or_else(|| Error::Internal("a rank with a color has a communicator".into()))?;
                let world = Executor::connect(&part, &device, cuda::Options::default().timeout(timeout))?;
                let mut run = world.prepare(&plan, Message::new(DataType::F32, 40).any_size())?;
                let (mut buffers, stream) = (run.buffers()?, world.stream()?);
                run.launch_buffers(&mut buffers, &stream)?;
                run.synchronize(&stream)
            };
            let (mut result, mut said) = (Ok(()), Vec::new());
            // On a busy machine rank 0 may be late: then the test is repeated with a longer timeout.
            for (patience, timeout) in [(2_000, 50), (30_000, 30_000)] {
                result = run(Duration::from_millis(patience), Duration::from_millis(timeout));
                let after = threads_and_sockets(Some(before))?;
                if after != before {
                    return Err(format!(
                        "after call {nth} of {call}: {after:?} threads and sockets, before {before:?}"
                    )
                    .into());
                }
                said = player.group.all_gather(format!("{result:?}").as_bytes())?;
                if !["Err(Stalled", "Err(Interrupted", "Err(Lost"]
                    .iter()
                    .any(|late| said[1].starts_with(late.as_bytes()))
                {
                    break;
                }
            }
            match (rank, &result) {
                (1, Err(Error::Driver(error))) if error.call == call => {}
                (
                    0,
                    Err(
                        Error::RankLost { peer: 1, .. }
                        | Error::Bootstrap(_)
                        | Error::Interrupted(_)
                        | Error::Stalled(_),
                    ),
                ) => {}
                (_, Ok(())) => {}
                _ => return Err(format!("call {nth} of {call}: {result:?}").into()),
            }
            let is_ok = said.iter().all(|said| said == b"Ok(())");
            match (is_ok, has_failed) {
                (true, true) => break,
                // A rank continues without the event that follows its launch.
                (true, false) if nth > 1 => return Err(format!("{call} was never called").into()),
                _ => has_failed |= !is_ok,
            }
        }
    }
    Ok(())
}
