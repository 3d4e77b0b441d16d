//! Plans that stall: the stall is reported, and the next launch is correct.

use std::time::Duration;

use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_core::plan::{
    Plan,
    raw::{OpKind, PlanTree},
};
use mscclpp_exec::cuda::{Executor, Options};
use mscclpp_exec::error::{Stall, WaitsFor};
use mscclpp_exec::{DataType, Error, Message, cpu};

use super::bits::{Pair, shipped};
use super::{Rig, Test, at};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("stalls::missing_signal_is_reported", missing_signal_is_reported),
        Test::new("stalls::missing_packets_are_reported", missing_packets_are_reported),
        Test::new("stalls::reports_equal_those_of_the_cpu", reports_equal_those_of_the_cpu),
        Test::new("stalls::launch_after_abort_is_correct", launch_after_abort_is_correct),
    ]
}

/// Returns the plan of an algorithm without the first operation of a kind on a rank.
pub(crate) fn without(name: &str, ranks: u32, rank: usize, kind: OpKind) -> Result<PlanTree, Failed> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let mut tree = algorithm.compile_tree(algorithm.spec(ranks, ranks), &algorithm.arguments([])?)?;
    for block in &mut tree.ranks[rank].blocks {
        let bodies: Vec<usize> = (0..block.ops.len()).filter(|&at| block.ops[at].body.is_some()).collect();
        if let Some(at) = block.ops.iter().position(|op| op.kind == kind) {
            block.ops.remove(at);
            return Ok(tree);
        }
        for body in bodies {
            let Some(body) = &mut block.ops[body].body else { continue };
            if let Some(at) = body.ops.iter().position(|op| op.kind == kind) {
                body.ops.remove(at);
                return Ok(tree);
            }
        }
    }
    Err("no such operation".into())
}

/// Returns the plan of an algorithm in which rank 0 omits its first signal.
pub(crate) fn without_first_signal(name: &str, ranks: u32) -> Result<PlanTree, Failed> {
    without(name, ranks, 0, OpKind::Signal)
}

/// Returns options by which incorrect plans stall soon.
pub(crate) fn short_timeout(rig: &Rig) -> Options {
    Options::default().timeout(rig.stall_timeout)
}

fn stalls(rig: &Rig, tree: &PlanTree, is_expected: impl Fn(&WaitsFor) -> bool) -> Result<(), Failed> {
    let world = Executor::with_options(&rig.device, tree.ranks.len() as u32, short_timeout(rig));
    in_world(&world, tree, is_expected)
}

/// Checks that an incorrect plan stalls as expected, repeatedly, and that a correct one is not disturbed.
pub(crate) fn in_world(
    world: &Executor,
    tree: &PlanTree,
    is_expected: impl Fn(&WaitsFor) -> bool,
) -> Result<(), Failed> {
    let ranks = tree.ranks.len() as u32;
    let message = Message::new(DataType::F32, 1000).any_size();
    let broken = Plan::new(tree);
    let mut run = world.prepare(&broken, message)?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    for _ in 0..2 {
        run.launch_buffers(&mut buffers, &stream)?;
        let Err(Error::Stalled(stall)) = run.synchronize(&stream) else {
            return Err("a launch that cannot finish did".into());
        };
        // After the first stall launches are counted from the beginning.
        if stall.launch != 1 {
            return Err(format!("launch {} stalled, not the first", stall.launch).into());
        }
        if !stall.blocked.iter().any(|blocked| is_expected(&blocked.waits_for)) {
            return Err(format!("not named: {stall}").into());
        }
    }
    // Another plan of the same executor is not disturbed.
    let right = shipped("allreduce_packets", ranks)?;
    Pair::new(world, &right, message)?.ok_or("too many thread blocks")?.check(3)
}

fn missing_signal_is_reported(rig: &Rig) -> Result<(), Failed> {
    let tree = without("allreduce_ring", 3, 1, OpKind::Signal)?;
    stalls(rig, &tree, |waits_for| matches!(waits_for, WaitsFor::Signal { .. }))
}

fn missing_packets_are_reported(rig: &Rig) -> Result<(), Failed> {
    let tree = without("allreduce_packets", 3, 1, OpKind::PutPackets)?;
    stalls(rig, &tree, |waits_for| matches!(waits_for, WaitsFor::Packet { expected: 1, .. }))
}

/// Rank, block, operation, its source line, the expected and the found value, and the operation that would have
/// released it.
fn reports_equal_those_of_the_cpu(rig: &Rig) -> Result<(), Failed> {
    let broken = [
        ("allreduce_ring", OpKind::Signal),
        ("allreduce_all_pairs", OpKind::Signal),
        ("allreduce_ring_ports", OpKind::PutWithSignal),
        ("allreduce_packets", OpKind::PutPackets),
        ("allreduce_switch_pipeline", OpKind::SemaphoreRelease),
    ];
    for (name, kind) in broken {
        let plan = Plan::new(&without(name, 3, 1, kind).map_err(|failed| at(name, &failed))?);
        let message = Message::new(DataType::F32, 300).any_size();
        let mut cpu = cpu::Executor::new(3).prepare(&plan, message)?;
        let mut buffers = cpu.buffers()?;
        let Err(Error::Stalled(expected)) = cpu.launch_buffers(&mut buffers) else {
            return Err(format!("{name}: a launch on the CPU that cannot finish did").into());
        };
        let world = Executor::with_options(&rig.device, 3, short_timeout(rig));
        let mut run = world.prepare(&plan, message)?;
        let (mut buffers, stream) = (run.buffers()?, world.stream()?);
        run.launch_buffers(&mut buffers, &stream)?;
        let Err(Error::Stalled(found)) = run.synchronize(&stream) else {
            return Err(format!("{name}: a launch that cannot finish did").into());
        };
        let all = |stall: &Stall| {
            let mut blocked = stall.blocked.clone();
            blocked.sort_by_key(|blocked| (blocked.rank, blocked.block));
            for blocked in &mut blocked {
                // Which of the packets is polled first is unspecified.
                if let WaitsFor::Packet { packet, .. } = &mut blocked.waits_for {
                    *packet = 0;
                }
            }
            blocked.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let (expected, found) = (all(&expected), all(&found));
        if !found.iter().all(|text| text.contains("mscclpp-algorithms/src/")) {
            return Err(format!("{name}: no source lines: {found:#?}").into());
        }
        if expected != found {
            return Err(format!("{name}: {found:#?}, expected {expected:#?}").into());
        }
    }
    Ok(())
}

/// An aborted launch ends long before its timeout, and the next ones are correct.
fn launch_after_abort_is_correct(rig: &Rig) -> Result<(), Failed> {
    let options = Options::default().timeout(Duration::from_secs(3600));
    let world = Executor::with_options(&rig.device, 3, options);
    let message = Message::new(DataType::F32, 1000).any_size();
    let mut run = world.prepare(&Plan::new(&without_first_signal("allreduce_ring", 3)?), message)?;
    let (mut buffers, stream) = (run.buffers()?, world.stream()?);
    for _ in 0..2 {
        // On a simulated device the launch is complete when the call returns; it observes the request even so.
        if rig.small {
            run.abort();
        }
        run.launch_buffers(&mut buffers, &stream)?;
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                if !rig.small {
                    run.abort();
                }
            });
            run.synchronize(&stream)
        });
        if !matches!(ended, Err(Error::Stalled(_))) {
            return Err(format!("{ended:?}").into());
        }
        Pair::new(&world, &shipped("allreduce_packets", 3)?, message)?.ok_or("too many thread blocks")?.check(2)?;
    }
    // The same for correct plans, which may complete before they observe the request.
    for name in ["allreduce_packets", "allreduce_ring", "allreduce_ring_ports"] {
        let mut pair = Pair::new(&world, &shipped(name, 3)?, message)?.ok_or("too many thread blocks")?;
        for _ in 0..5 {
            pair.run.abort();
            pair.launch()?;
            match pair.run.synchronize(pair.stream()) {
                Err(Error::Stalled(_)) | Ok(()) => {}
                other => return Err(format!("{name}: {other:?}").into()),
            }
            pair.check(3).map_err(|failed| at(name, &failed))?;
        }
    }
    Ok(())
}
