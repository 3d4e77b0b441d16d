//! Launches from graphs, and of specialized kernels.

use libtest_mimic::Failed;
use mscclpp_exec::cuda::PrepareOptions;
use mscclpp_exec::{DataType, Message};

use super::{counts, taken, world};
use crate::at;
use crate::bits::{Pair, shipped};

/// Graphs also use the scratch of larger messages, and its multicast addresses.
pub(super) fn graphs(seed: u64) -> Result<(), Failed> {
    for name in ["allreduce_switch", "allreduce_switch_pipeline", "allgather_switch_packets"] {
        let counts = counts();
        let world = world(seed, 2, counts)?;
        let message = |each: u64| Message::new(DataType::I32, 2 * each).any_size();
        let mut pair = Pair::new(&world, &shipped(name, 2)?, message(128))?.ok_or("too many thread blocks")?;
        let Pair { run, buffers, .. } = &mut pair;
        let graph = world.stream()?.capture(|stream| run.launch_buffers(buffers, stream))?;
        let mut larger = None;
        for round in 0..6 {
            pair.replay(&graph, round).map_err(|failed| at(format_args!("{name}, round {round}"), &failed))?;
            assert!(taken(counts).1 > 0, "{name}, round {round}");
            if round == 2 {
                // Memory for more than all present messages.
                let mut pair =
                    Pair::new(&world, &shipped(name, 2)?, message(40_000))?.ok_or("too many thread blocks")?;
                pair.check(1).map_err(|failed| at(format_args!("{name}, larger"), &failed))?;
                larger = Some(pair);
            }
        }
        assert!(larger.is_some());
    }
    Ok(())
}

pub(super) fn specialized_kernels(seed: u64) -> Result<(), Failed> {
    let counts = counts();
    let world = world(seed, 3, counts)?;
    for (name, dtype) in [("allreduce_switch", DataType::I32), ("allreduce_switch_pipeline", DataType::F32)] {
        for count in [3 * 128, 3 * 37] {
            let message = Message::new(dtype, count).any_size();
            let prepare = PrepareOptions::default().specialize(true);
            let mut pair = Pair::with(&world, &shipped(name, 3)?, message, prepare)?.ok_or("too many thread blocks")?;
            pair.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
            pair.check(2).map_err(|failed| at(name, &failed))?;
            let (loads, stores) = taken(counts);
            assert!(stores > 0 && (loads > 0) == (dtype == DataType::I32), "{name}: {loads} loads, {stores} stores");
        }
    }
    Ok(())
}
