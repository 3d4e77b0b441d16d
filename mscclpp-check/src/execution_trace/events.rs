//! Slices and arrows in the event format of Chrome and Perfetto.

use std::ops::Range;

use serde::Serialize;

use mscclpp_plan::raw::PlanTree;

/// Microseconds of a step in the viewer.
const STEP: u64 = 10;

/// An execution trace of a plan, ready to be written as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct ExecutionTrace {
    #[serde(rename = "displayTimeUnit")]
    unit: &'static str,
    #[serde(rename = "otherData")]
    about: About,
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
    #[serde(skip)]
    blocked: usize,
}

impl ExecutionTrace {
    /// Returns the number of thread blocks that never end.
    pub fn blocked(&self) -> usize {
        self.blocked
    }
}

#[derive(Clone, Debug, Serialize)]
struct About {
    plan: String,
    time: &'static str,
}

#[derive(Clone, Debug, Serialize)]
struct Event {
    ph: &'static str,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<usize>,
    /// Arrows end at the slice around them.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    /// A color of the viewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    cname: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<EventArgs>,
}

impl Event {
    const fn new(ph: &'static str, name: String, (pid, tid): (u32, u32)) -> Self {
        Self { ph, name, cat: None, pid, tid, ts: None, dur: None, id: None, bp: None, cname: None, args: None }
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum EventArgs {
    Name { name: String },
    Order { sort_index: u32 },
    Slice(Args),
}

/// The arguments of a slice, as the viewer shows them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Args {
    /// The operation, as `plan show` has it.
    pub(super) op: String,
    /// Its operands.
    pub(super) chunks: Vec<String>,
    /// Its source location.
    pub(super) source: String,
    /// Of its loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) iteration: Option<u64>,
    /// What it waits for forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits_for: Option<String>,
}

/// The events so far.
pub(super) struct Events {
    plan: String,
    events: Vec<Event>,
    /// Per slice, its index among the events.
    slices: Vec<usize>,
    arrows: usize,
    end: u64,
    stuck: usize,
}

impl Events {
    /// Creates events with the names of ranks and thread blocks.
    pub(super) fn of(plan: &PlanTree) -> Self {
        let (events, slices) = (Vec::new(), Vec::new());
        let mut all = Self { plan: plan.name.clone(), events, slices, arrows: 0, end: 0, stuck: 0 };
        for (rank, tables) in (0..).zip(&plan.ranks) {
            all.named("process_name", (rank, 0), EventArgs::Name { name: format!("rank {rank}") });
            all.named("process_sort_index", (rank, 0), EventArgs::Order { sort_index: rank });
            for (block, _) in (0..).zip(&tables.blocks) {
                all.thread(rank, block, format!("thread block {block}"));
            }
        }
        all
    }

    /// Names a thread of a rank.
    pub(super) fn thread(&mut self, rank: u32, thread: u32, name: String) {
        self.named("thread_name", (rank, thread), EventArgs::Name { name });
        self.named("thread_sort_index", (rank, thread), EventArgs::Order { sort_index: thread });
    }

    fn named(&mut self, what: &str, place: (u32, u32), args: EventArgs) {
        self.events.push(Event { args: Some(args), ..Event::new("M", what.to_owned(), place) });
    }

    /// Adds a slice of a rank's thread, in steps; returns its number.
    pub(super) fn slice(
        &mut self,
        category: &'static str,
        name: &str,
        place: (u32, u32),
        steps: Range<u64>,
        args: Args,
    ) -> usize {
        self.end = self.end.max(steps.end);
        self.stuck += usize::from(category == "stuck");
        self.slices.push(self.events.len());
        self.events.push(Event {
            cat: Some(category),
            ts: Some(steps.start * STEP),
            dur: Some((steps.end - steps.start) * STEP),
            cname: (category == "stuck").then_some("terrible"),
            args: Some(EventArgs::Slice(args)),
            ..Event::new("X", name.to_owned(), place)
        });
        self.slices.len() - 1
    }

    /// Returns the end of a slice, in steps.
    pub(super) fn end_of(&self, slice: usize) -> u64 {
        let event = &self.events[self.slices[slice]];
        (event.ts.unwrap_or(0) + event.dur.unwrap_or(0)) / STEP
    }

    /// Returns the end of the last slice, in steps.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Adds an arrow from the end of one slice to the end of another.
    pub(super) fn arrow(&mut self, what: &'static str, from: usize, to: usize) {
        let id = self.arrows;
        self.arrows += 1;
        for (ph, bp, slice) in [("s", None, from), ("f", Some("e"), to)] {
            let event = &self.events[self.slices[slice]];
            // Just before the end of the slice, so that the viewer attaches it to that slice.
            let ts = self.end_of(slice) * STEP - 1;
            let place = (event.pid, event.tid);
            let named = Event::new(ph, what.to_owned(), place);
            self.events.push(Event { cat: Some(what), ts: Some(ts), id: Some(id), bp, ..named });
        }
    }

    /// Returns the trace with all events.
    pub(super) fn finish(self) -> ExecutionTrace {
        let about = About {
            plan: self.plan,
            time: "logical: an operation takes 10 us and ends 10 us after the operation that it waits for",
        };
        ExecutionTrace { unit: "ms", about, events: self.events, blocked: self.stuck }
    }
}
