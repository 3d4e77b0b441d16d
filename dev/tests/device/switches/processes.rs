//! Ranks with separate hosts, so that all data about an object is exchanged through files.

use libtest_mimic::Failed;
use mscclpp_dev::Options;
use mscclpp_exec::{DataType, Error, Message, cuda};

use super::{ALGORITHMS, counts, taken, uses};
use crate::bits::shipped;
use crate::processes::{Work, each_in_a_thread, machine_options};

pub(super) fn all_agree(seed: u64) -> Result<(), Failed> {
    for ranks in [2, 3] {
        let counts = counts();
        let machine = |rank| Options {
            multicast: u32::MAX,
            counts: Some(counts),
            ..machine_options(seed, rank, seed.is_multiple_of(2))
        };
        for name in ALGORITHMS {
            let plan = shipped(name, ranks)?;
            let works = [DataType::I32, DataType::F32].map(|dtype| {
                [128, 53]
                    .map(|each| Work::new(plan.clone(), Message::new(dtype, u64::from(ranks) * each).any_size(), 2))
            });
            let works = works.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
            let results = each_in_a_thread(ranks, machine, cuda::Options::default(), |world, _, rank| {
                works.iter().try_for_each(|work| work.run(world, rank))
            })?;
            results.into_iter().collect::<Result<Vec<()>, _>>().map_err(|error| format!("{name}: {error}"))?;
            let (loads, stores) = taken(counts);
            assert_eq!((loads > 0, stores > 0), uses(name), "{name}: {loads} loads, {stores} stores");
        }
    }
    Ok(())
}

/// Calls that fail: the rank, and whether the other rank receives the error.
pub(super) const CALLS: [(u32, &str, bool); 13] = [
    (0, "cuMulticastGetGranularity", false),
    (0, "cuMulticastCreate", true),
    (0, "cuMemExportToShareableHandle", true),
    (1, "cuMemImportFromShareableHandle", true),
    (0, "cuMulticastAddDevice", true),
    (1, "cuMulticastAddDevice", true),
    (0, "cuMulticastBindMem", true),
    (1, "cuMulticastBindMem", true),
    (0, "cuMemMap", true),
    (1, "cuMemMap", true),
    (1, "cuMulticastUnbind", false),
    (1, "cuMemRelease", false),
    (0, "cuMemUnmap", false),
];

/// A call that fails on one rank: then no rank has objects, all report the reason, and results are correct.
pub(super) fn a_call_fails(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_switch", 2)?;
    let work = Work::new(plan.clone(), Message::new(DataType::I32, 2 * 64).any_size(), 1)?;
    for (of, call, heard) in CALLS {
        let machine = |rank| {
            // The allocation on trial, counters and the buffer are exchanged before the object.
            let nth = if call.contains("ShareableHandle") { 4 } else { 1 };
            let failing = (rank == of).then_some((call, nth));
            Options { multicast: u32::MAX, failing, ..machine_options(seed, rank, false) }
        };
        let results = each_in_a_thread(2, machine, cuda::Options::default(), |world, _, rank| {
            let run = world.prepare(&plan, Message::new(DataType::I32, 2 * 64).any_size())?;
            let buffers = run.buffers()?;
            let path = &buffers.switch_paths()[0].path;
            let named = path.as_ref().is_err_and(|why| why.to_string().contains(&format!("rank {of}: {call}")));
            if heard && !named {
                return Err(Error::Internal(format!("rank {rank}: {path:?}")));
            }
            drop((buffers, run));
            work.run(world, rank)
        })?;
        if results.iter().any(Result::is_err) {
            return Err(format!("{call} of rank {of}: {results:?}").into());
        }
    }
    Ok(())
}
