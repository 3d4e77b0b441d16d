//! Timelines of launches: when each thread block executed which operation, and how long it waited in it.
//!
//! Prepared plans of executors record them; `mscclpp run --timeline` and `MSCCLPP_TIMELINE` write them as files in Chrome's trace format,
//! which Perfetto shows.

use crate::interpret::ResolvedPlan;
use crate::interpret::program::Block;
use crate::interpret::timeline::Stamp;
use mscclpp_core::origin::SourceLocation;
use mscclpp_core::plan::raw::OpKind;

/// The operations that recorded launches have executed.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Name of the plan.
    pub plan: String,
    /// By rank, thread block and time.
    pub events: Vec<Event>,
    /// Number of operations for which there was no room.
    pub dropped: u64,
}

/// One executed operation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The rank.
    pub rank: u32,
    /// Number of the thread block on its rank.
    pub block: u32,
    /// Number of the operation in the thread block.
    pub op: u32,
    /// Its kind.
    pub kind: OpKind,
    /// Iteration of its loop; 0 outside of loops.
    pub iteration: u64,
    /// Number of the launch, counted from 1.
    pub launch: u64,
    /// First attempt to execute it, in nanoseconds of a clock that all processes of a host share (`CLOCK_MONOTONIC`).
    pub begin: u64,
    /// When it was finished.
    pub end: u64,
    /// Nanoseconds of this time in which the thread block waited for others.
    pub waited: u64,
    /// Source of the operation, if the plan has it.
    pub location: Option<SourceLocation>,
}

impl Timeline {
    /// Creates a timeline of stamps of a plan.
    pub fn new(program: &ResolvedPlan, stamps: impl IntoIterator<Item = Stamp>) -> Self {
        let mut blocks: Vec<&Block> = program.agents.iter().filter(|code| code.start < code.end).collect();
        blocks.sort_unstable_by_key(|code| code.start);
        let event = |stamp: Stamp| {
            let Stamp { instr, iteration, launch, begin, end, waited } = stamp;
            let after = blocks.partition_point(|code| code.start <= instr);
            let (code, op) = (blocks.get(after.checked_sub(1)?)?, program.instrs.get(instr as usize)?);
            let (rank, block, location) = (code.rank, code.block, program.plan.location(code.rank, code.block, op.op));
            Some(Event { rank, block, op: op.op, kind: op.kind, iteration, launch, begin, end, waited, location })
        };
        let mut events: Vec<Event> = stamps.into_iter().filter_map(event).collect();
        events.sort_by_key(|event| (event.rank, event.block, event.begin, event.end));
        Self { plan: program.plan.name().to_owned(), events, dropped: 0 }
    }
}

#[cfg(feature = "process")]
impl Timeline {
    /// Returns the events in Chrome's trace format: a process for each rank, and in it a thread for each thread block.
    pub fn trace_events(&self) -> impl Iterator<Item = serde_json::Value> + '_ {
        self.trace_events_of(|rank| (rank, format!("rank {rank}")))
    }

    /// Returns the events of [`trace_events`](Self::trace_events); `process`: number and name of the process of a rank.
    pub fn trace_events_of<'a>(
        &'a self,
        process: impl Fn(u32) -> (u32, String) + 'a,
    ) -> impl Iterator<Item = serde_json::Value> + 'a {
        use serde_json::json;

        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let mut last = (None, None);
        self.events.iter().flat_map(move |event| {
            let Event { rank, block, op, kind, iteration, launch, begin, end, waited, ref location } = *event;
            let is_new = [last.0 != Some(rank), last != (Some(rank), Some(block))];
            last = (Some(rank), Some(block));
            let (pid, process) = process(rank);
            let names = [("process_name", process), ("thread_name", format!("thread block {block}"))];
            let name = |(what, name): (&str, String)| {
                json!({ "name": what, "ph": "M", "ts": 0, "dur": 0, "pid": pid, "tid": block, "args": { "name": name } })
            };
            let names = is_new.into_iter().zip(names).filter(|(is_new, _)| *is_new).map(|(_, of)| name(of));
            let mut args = json!({
                "plan": self.plan, "launch": launch, "operation": op, "iteration": iteration, "waited_us": us(waited),
            });
            if let Some(location) = location {
                args["location"] = location.to_string().into();
            }
            let operation = json!({
                "name": kind.name(), "cat": "operation", "ph": "X", "ts": us(begin), "dur": us(end.saturating_sub(begin)),
                "pid": pid, "tid": block, "args": args,
            });
            names.chain([operation]).collect::<Vec<_>>()
        })
    }
}
