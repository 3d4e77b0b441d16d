//! Calls for multicast objects that fail: channels do without them, and report the reason.

use libtest_mimic::Failed;
use mscclpp_dev::Options;
use mscclpp_exec::cuda::{self, Executor, SwitchPath};
use mscclpp_exec::{DataType, Message};

use super::{switches, world_on};
use crate::at;
use crate::bits::{Pair, shipped};

/// Calls that objects need, and whether channels do without when one fails. The granularity is first requested for
/// memory.
pub(super) const CALLS: [(&str, bool); 7] = [
    ("cuMulticastCreate", true),
    ("cuMulticastAddDevice", true),
    ("cuMulticastBindMem", true),
    ("cuMulticastGetGranularity", false),
    ("cuMulticastUnbind", false),
    ("cuMemRelease", false),
    ("cuMemUnmap", false),
];

/// Uses switch channels in all ways, over scratch and over buffers; returns their paths.
pub(super) fn program(world: &Executor) -> Result<Vec<SwitchPath>, Failed> {
    let mut all = Vec::new();
    for name in ["allreduce_switch", "allreduce_switch_pipeline"] {
        let message = Message::new(DataType::I32, 2 * 64).any_size();
        let mut pair = Pair::new(world, &shipped(name, 2)?, message)?.ok_or("too many thread blocks")?;
        all.extend(switches(&pair.run, &pair.buffers));
        pair.check(1).map_err(|failed| at(name, &failed))?;
    }
    Ok(all)
}

/// Each of the calls fails, at each of its occurrences. The simulator detects no leak when it is dropped, and results
/// are correct even so.
pub(super) fn each_fails(
    calls: impl Iterator<Item = (&'static str, bool)>,
    run: impl Fn(Options) -> Result<Vec<SwitchPath>, Failed>,
) -> Result<(), Failed> {
    for (call, is_reported) in calls {
        for nth in 1..=20 {
            let place = format!("call {nth} of {call}");
            let options = Options { failing: Some((call, nth)), multicast: u32::MAX, ..Options::default() };
            let switches = run(options).map_err(|failed| at(&place, &failed))?;
            let named = |switch: &SwitchPath| {
                switch.path.as_ref().is_err_and(|why| why.to_string().contains(&format!(": {call} failed")))
            };
            let refused = switches.iter().filter(|switch| switch.path.is_err()).count();
            assert_eq!(refused, switches.iter().filter(|switch| named(switch)).count(), "{place}: {switches:?}");
            // The call is made fewer times than this.
            if refused == 0 && (nth > 1 || !is_reported) {
                break;
            }
            assert_eq!(refused, 1, "{place}: {switches:?}");
        }
    }
    Ok(())
}

pub(super) fn every_call_fails_once() -> Result<(), Failed> {
    let calls = CALLS.into_iter().chain([("cuMemMap", true)]);
    each_fails(calls, |options| program(&world_on(&[0, 1], options, cuda::Options::default())?))
}
