//! Traces in the event format of Chrome's and Perfetto's viewers.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};

use crate::trace::{Class, Slice, Trace, Unit};

/// Microseconds of a logical step in the viewer.
const STEP: f64 = 10.0;

/// Returns a number without a fraction if it has none.
fn number(time: f64) -> Value {
    if time.fract() == 0.0 && time.abs() < 1e15 { json!(time as i64) } else { json!(time) }
}

impl Serialize for Trace {
    /// Writes processes and threads with their names, operations as slices, and dependencies as arrows.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (unit, time) = match self.unit {
            Unit::Steps => {
                ("ms", "logical: an operation takes 10 us and ends 10 us after the operation that it waits for")
            }
            Unit::Microseconds => ("ns", "microseconds"),
        };
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("displayTimeUnit", unit)?;
        map.serialize_entry("otherData", &json!({ "plan": self.title, "time": time }))?;
        map.serialize_entry("traceEvents", &Events(self))?;
        map.end()
    }
}

/// The events of a trace.
struct Events<'t>(&'t Trace);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let trace = self.0;
        let mut events = serializer.serialize_seq(None)?;
        let mut processes = std::collections::BTreeSet::new();
        for lane in &trace.lanes {
            let (process, thread) = (lane.process, lane.thread);
            let mut meta = |what: &str, thread: u32, args: Value| {
                events
                    .serialize_element(&json!({ "ph": "M", "name": what, "pid": process, "tid": thread, "args": args }))
            };
            if processes.insert(process) {
                meta("process_name", 0, json!({ "name": lane.process_name }))?;
                meta("process_sort_index", 0, json!({ "sort_index": process }))?;
            }
            meta("thread_name", thread, json!({ "name": lane.name }))?;
            meta("thread_sort_index", thread, json!({ "sort_index": thread }))?;
        }
        for slice in &trace.slices {
            events.serialize_element(&trace.slice_event(slice))?;
        }
        for (id, arrow) in trace.arrows.iter().enumerate() {
            for (phase, slice) in [("s", arrow.from), ("f", arrow.to)] {
                if let Some(slice) = trace.slices.get(slice as usize) {
                    events.serialize_element(&trace.arrow_event(slice, id, phase, arrow.what))?;
                }
            }
        }
        events.end()
    }
}

impl Trace {
    fn scale(&self) -> f64 {
        if self.unit == Unit::Steps { STEP } else { 1.0 }
    }

    /// Returns the numbers of a slice's process and thread.
    fn place(&self, slice: &Slice) -> (u32, u32) {
        self.lanes.get(slice.lane as usize).map_or((0, 0), |lane| (lane.process, lane.thread))
    }

    fn slice_event(&self, slice: &Slice) -> Value {
        let (scale, (process, thread)) = (self.scale(), self.place(slice));
        let category = match slice.class {
            Class::Transfer => "port",
            Class::Blocked => "stuck",
            _ => "op",
        };
        let mut event = json!({
            "ph": "X", "name": slice.name, "cat": category, "pid": process, "tid": thread,
            "ts": number(slice.start * scale), "dur": number((slice.end - slice.start) * scale), "args": slice.details,
        });
        if slice.class == Class::Blocked {
            event["name"] = format!("stuck: {}", slice.name).into();
            // A color of the viewer.
            event["cname"] = "terrible".into();
        }
        event
    }

    /// Returns an end of an arrow: just before the end of the slice, so that the viewer attaches it to that slice.
    fn arrow_event(&self, slice: &Slice, id: usize, phase: &str, what: &str) -> Value {
        let (scale, (process, thread)) = (self.scale(), self.place(slice));
        let (start, end) = (slice.start * scale, slice.end * scale);
        let at = if self.unit == Unit::Steps { end - 1.0 } else { (end - 0.001).max(start) };
        let mut event = json!({
            "ph": phase, "name": what, "cat": what, "id": id, "pid": process, "tid": thread, "ts": number(at),
        });
        if phase == "f" {
            // Arrows end at the slice around them.
            event["bp"] = "e".into();
        }
        event
    }
}
