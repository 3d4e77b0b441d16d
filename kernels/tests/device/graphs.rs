//! Graphs that replay launches, between eager ones.

use libtest_mimic::Failed;
use mscclpp_exec::cuda::{World, time};
use mscclpp_exec::{DataType, Message};

use super::bits::{Pair, shipped};
use super::{Rig, Test, at};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("graphs::replays_between_eager_launches", replays_between_eager_launches),
        Test::new("graphs::ten_thousand_replays", ten_thousand_replays),
        Test::new("graphs::timed", timed),
    ]
}

fn replays_between_eager_launches(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allreduce_one_shot_packets", "allreduce_all_pairs", "alltoall_packets"] {
        let plan = shipped(name, 4)?;
        let world = World::new(&rig.device, 4);
        // The first launch of all is captured: nothing needs to be warmed up.
        let mut pair = Pair::new(&world, &plan, Message::new(DataType::F32, 4 * 33).any_size())?
            .ok_or("too many thread blocks")?;
        let other_stream = rig.device.stream()?;
        let Pair { run, buffers, .. } = &mut pair;
        let graph = other_stream.capture(|stream| run.launch_buffers(buffers, stream))?;
        for round in 0..if rig.simulated { 6 } else { 50 } {
            pair.refill()?;
            if round % 3 == 0 {
                pair.launch()?;
            } else {
                // SAFETY: run and buffers live as long as `pair`.
                unsafe { graph.launch(pair.stream())? };
            }
            pair.compare().map_err(|failed| at(name, &failed))?;
        }
    }
    Ok(())
}

/// After launches were timed, the next one is right.
fn timed(rig: &Rig) -> Result<(), Failed> {
    let plan = shipped("allreduce_packets", 2)?;
    let message = Message::new(DataType::F32, 50).any_size();
    let mut pair = Pair::new(&World::new(&rig.device, 2), &plan, message)?.ok_or("too many thread blocks")?;
    let stream = rig.device.stream()?;
    let times = time(&mut pair.run, &mut pair.buffers, &stream, rig.simulated.then_some(10))?;
    if times.host.is_zero() || !rig.simulated && (times.graph.is_zero() || times.eager < times.graph / 2) {
        return Err(format!("{times:?}").into());
    }
    pair.check(2)
}

fn ten_thousand_replays(rig: &Rig) -> Result<(), Failed> {
    let ranks = if rig.simulated { 3 } else { 8 };
    let plan = shipped("allreduce_packets", ranks)?;
    let world = World::new(&rig.device, ranks);
    let mut pair =
        Pair::new(&world, &plan, Message::new(DataType::F32, if rig.simulated { 100 } else { 1000 }).any_size())?
            .ok_or("too many thread blocks")?;
    let recorder = rig.device.stream()?;
    let Pair { run, buffers, .. } = &mut pair;
    let graph = recorder.capture(|stream| run.launch_buffers(buffers, stream))?;
    for round in 0..if rig.simulated { 20 } else { 10_000 } {
        if round % 100 == 0 {
            pair.refill()?;
        }
        // SAFETY: run and buffers live as long as `pair`.
        unsafe { graph.launch(pair.stream())? };
        if round % 7 == 0 {
            pair.launch()?;
        }
        if round % 100 == 99 {
            pair.compare()?;
        }
    }
    pair.run.synchronize(pair.stream())?;
    Ok(())
}
