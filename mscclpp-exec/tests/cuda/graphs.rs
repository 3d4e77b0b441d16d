//! Graphs that replay launches, between eager ones.

use libtest_mimic::Failed;
use mscclpp_exec::cuda::{Device, World};
use mscclpp_exec::{DataType, Message};

use super::bits::{Pair, shipped};
use super::{Tests, functions};

pub(crate) fn tests() -> Tests {
    functions(&[
        ("graphs::replays_between_eager_launches", replays_between_eager_launches),
        ("graphs::ten_thousand_replays", ten_thousand_replays),
    ])
}

fn replays_between_eager_launches(device: &Device) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allreduce_one_shot_packets", "allreduce_all_pairs", "alltoall_packets"] {
        let plan = shipped(name, 4)?;
        let world = World::new(device, 4);
        // The first launch of all is captured: nothing needs to be warmed up.
        let mut pair = Pair::new(&world, &plan, Message::new(DataType::F32, 4 * 333).any_size())?
            .ok_or("too many thread blocks")?;
        let other_stream = device.stream()?;
        let Pair { run, buffers, .. } = &mut pair;
        let graph = other_stream.capture(|stream| run.launch_buffers(buffers, stream))?;
        for round in 0..50 {
            pair.refill()?;
            if round % 3 == 0 {
                pair.launch()?;
            } else {
                // SAFETY: run and buffers live as long as `pair`.
                unsafe { graph.launch(pair.stream())? };
            }
            pair.compare().map_err(|failed| format!("{name}: {}", failed.message().unwrap_or_default()))?;
        }
    }
    Ok(())
}

fn ten_thousand_replays(device: &Device) -> Result<(), Failed> {
    let plan = shipped("allreduce_packets", 8)?;
    let world = World::new(device, 8);
    let mut pair =
        Pair::new(&world, &plan, Message::new(DataType::F32, 1000).any_size())?.ok_or("too many thread blocks")?;
    let recorder = device.stream()?;
    let Pair { run, buffers, .. } = &mut pair;
    let graph = recorder.capture(|stream| run.launch_buffers(buffers, stream))?;
    for round in 0..10_000 {
        if round % 100 == 0 {
            pair.refill()?;
        }
        // SAFETY: run and buffers live as long as `pair`.
        unsafe { graph.launch(pair.stream())? };
        if round % 7 == 0 {
            pair.launch()?;
        }
        if round % 100 == 99 && !pair.run.collective().in_place {
            pair.compare()?;
        }
    }
    pair.run.synchronize(pair.stream())?;
    Ok(())
}
