//! Plans that cannot go on: named, and the next launch is right.

use std::time::Duration;

use libtest_mimic::Failed;
use mscclpp_core::plan::{OpKind, Plan, PlanTree};
use mscclpp_exec::cuda::{Options, World};
use mscclpp_exec::error::WaitsFor;
use mscclpp_exec::{DataType, Error, Message, algorithms};

use super::bits::{Pair, shipped};
use super::{Rig, Test};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("stalls::a_missing_signal_is_named", a_missing_signal_is_named),
        Test::new("stalls::missing_packets_are_named", missing_packets_are_named),
    ]
}

/// The plan of an algorithm without the first operation of a kind on a rank.
pub(crate) fn without(name: &str, ranks: u32, rank: usize, kind: OpKind) -> Result<PlanTree, Failed> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let mut tree = algorithm.compile(algorithm.spec(ranks, ranks), &algorithm.arguments([])?)?;
    for block in &mut tree.ranks[rank].blocks {
        if let Some(at) = block.ops.iter().position(|op| op.kind == kind) {
            block.ops.remove(at);
            return Ok(tree);
        }
    }
    Err("no such operation".into())
}

/// The plan of an algorithm in which rank 0 leaves out its first signal.
pub(crate) fn without_first_signal(name: &str, ranks: u32) -> Result<PlanTree, Failed> {
    without(name, ranks, 0, OpKind::Signal)
}

fn stalls(rig: &Rig, tree: &PlanTree, is_expected: impl Fn(&WaitsFor) -> bool) -> Result<(), Failed> {
    let options = Options { timeout: Duration::from_millis(200), ..Options::default() };
    in_world(&World::with_options(&rig.device, tree.ranks.len() as u32, options), tree, is_expected)
}

/// That a broken plan stalls as expected, again and again, and that a right one is not disturbed.
pub(crate) fn in_world(world: &World, tree: &PlanTree, is_expected: impl Fn(&WaitsFor) -> bool) -> Result<(), Failed> {
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
        // After the first stall everything begins anew.
        if stall.launch != 1 {
            return Err(format!("launch {} stalled, not the first", stall.launch).into());
        }
        if !stall.blocked.iter().any(|blocked| is_expected(&blocked.waits_for)) {
            return Err(format!("not named: {stall}").into());
        }
    }
    // Another plan of the same world is not disturbed.
    let right = shipped("allreduce_packets", ranks)?;
    Pair::new(world, &right, message)?.ok_or("too many thread blocks")?.check(3)
}

fn a_missing_signal_is_named(rig: &Rig) -> Result<(), Failed> {
    let tree = without("allreduce_ring", 3, 1, OpKind::Signal)?;
    stalls(rig, &tree, |waits_for| matches!(waits_for, WaitsFor::Signal { .. }))
}

fn missing_packets_are_named(rig: &Rig) -> Result<(), Failed> {
    let tree = without("allreduce_packets", 3, 1, OpKind::PutPackets)?;
    stalls(rig, &tree, |waits_for| matches!(waits_for, WaitsFor::Packet { expected: 1, .. }))
}
