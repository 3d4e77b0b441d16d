//! The calls of a failed job, and where its thread blocks wait, as a trace.

use std::collections::BTreeMap;

use mscclpp_communicator::flight_recorder::{Analysis, Dump, OpRecord};
use mscclpp_trace::{Arrow, Class, Lane, Slice, Trace, Unit};

/// Returns the trace of all communicators: a step for each call, and after the last call the operations that never end.
pub(super) fn trace(groups: &[Analysis], dumps: &[Dump]) -> Trace {
    let mut trace = Trace { title: "dumps of a job".to_owned(), unit: Unit::Steps, ..Trace::default() };
    for group in groups {
        let name = |group: Option<&str>| group.map_or_else(String::new, |name| format!(" of {name}"));
        let group_name = group.group.as_ref().map(|group| group.name.as_str());
        trace.notes.extend(group.to_string().lines().filter(|line| !line.is_empty()).map(str::to_owned));
        // The last dump of a rank counts.
        let of_group = dumps.iter().filter(|dump| {
            dump.rank.job == group.job && dump.rank.group.as_ref().map(|group| group.name.as_str()) == group_name
        });
        let by_rank: BTreeMap<u32, &Dump> = of_group.map(|dump| (dump.rank.rank, dump)).collect();
        add(&mut trace, &by_rank, &name(group_name));
    }
    trace.notes.push("A step is a call; what each rank waited for is after its last call.".to_owned());
    trace
}

/// Adds the calls and waits of a communicator.
fn add(trace: &mut Trace, dumps: &BTreeMap<u32, &Dump>, group: &str) {
    let numbers = || dumps.values().flat_map(|dump| &dump.calls).map(|call| call.number);
    let first = numbers().min().unwrap_or(0);
    let last = numbers().max().map_or(0.0, |number| (number - first) as f64);
    let add_lane = |trace: &mut Trace, rank: u32, thread: u32, name: String| {
        trace.lanes.push(Lane { process_name: format!("rank {rank}{group}"), ..Lane::of_rank(rank, thread, name) });
        trace.lanes.len() as u32 - 1
    };
    // Per blocked thread block its slice, and what would release it.
    let mut blocked: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut released: Vec<(u32, &OpRecord)> = Vec::new();
    for (&rank, dump) in dumps {
        let calls = add_lane(trace, rank, 0, "calls".to_owned());
        for (position, call) in dump.calls.iter().enumerate() {
            let start = (call.number - first) as f64;
            let mut slice = Slice::new(calls, (start, start + 1.0), Class::Copy, &format!("call {}", call.number));
            slice.details.insert("op".into(), call.request.clone().into());
            slice.details.insert("source".into(), call.at.clone().into());
            let is_last = position + 1 == dump.calls.len();
            if let Some(failure) = dump.failure.as_ref().filter(|_| is_last) {
                slice.details.insert("finding".into(), failure.message.clone().into());
            }
            trace.slices.push(slice);
        }
        for wait in dump.waits.iter().filter(|wait| wait.op.rank == rank) {
            let lane =
                add_lane(trace, rank, wait.op.block.saturating_add(1), format!("thread block {}", wait.op.block));
            let mut slice = Slice::new(lane, (last, last + 1.0), Class::Blocked, &wait.op.operation);
            slice.details.insert("waits_for".into(), format!("waits for {}", wait.waits_for).into());
            if let Some(place) = &wait.op.at {
                slice.details.insert("source".into(), place.clone().into());
            }
            let number = trace.slices.len() as u32;
            blocked.insert((rank, wait.op.block), number);
            released.extend(wait.released_by.as_ref().map(|op| (number, op)));
            trace.slices.push(slice);
        }
    }
    for (to, op) in released {
        if let Some(&from) = blocked.get(&(op.rank, op.block)) {
            trace.arrows.push(Arrow { from, to, what: "release", critical: false });
        }
    }
}
