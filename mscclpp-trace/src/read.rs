//! Reads traces from the event format of Chrome's and Perfetto's viewers.

use std::collections::BTreeMap;

use mscclpp_plan::raw::OpKind;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::trace::{Class, Lane, Slice, Trace, Unit};

/// Why a file is no trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is no JSON.
    #[error("expected a trace in JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no list of events.
    #[error("expected a list of trace events, or an object with `traceEvents`; found neither")]
    NoEvents,
    /// An event has no valid time, duration or place.
    #[error("event {number}: expected a number of 0 or more in `{field}`, found {found}")]
    Field {
        /// Number of the event in its list, from 0.
        number: usize,
        /// The field.
        field: &'static str,
        /// What it is.
        found: Value,
    },
    /// No event has a duration.
    #[error("the trace has no operations; record a launch, for example with `mscclpp run PLAN --timeline trace.json`")]
    Empty,
}

/// Returns a field of an event that is a number of 0 or more.
fn field(event: &Value, number: usize, field: &'static str) -> Result<f64, ReadError> {
    let valid = event[field].as_f64().filter(|value| value.is_finite() && *value >= 0.0);
    valid.ok_or_else(|| ReadError::Field { number, field, found: event[field].clone() })
}

/// Returns the number of a process or thread.
fn place(event: &Value, number: usize, name: &'static str) -> Result<u32, ReadError> {
    let valid = event[name].as_u64().and_then(|value| u32::try_from(value).ok());
    valid.ok_or_else(|| ReadError::Field { number, field: name, found: event[name].clone() })
}

/// Reads traces that a real run has written, one file after the other.
#[derive(Debug, Default)]
pub struct EventReader {
    /// By process, and thread unless it is the name of the process.
    names: BTreeMap<(u32, Option<u32>), String>,
    /// Where viewers show a process, instead of at its number.
    order: BTreeMap<u32, u32>,
    /// Operations with their processes and threads.
    found: Vec<((u32, u32), Slice)>,
}

impl EventReader {
    /// Adds the events of a file: processes are ranks, and their threads thread blocks. Operations that `keep` does not keep, given
    /// their details, are left out. Events of other kinds are ignored. Nothing is added if there is an error.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn add(&mut self, text: &[u8], keep: impl Fn(&Map<String, Value>) -> bool) -> Result<(), ReadError> {
        let value: Value = serde_json::from_slice(text)?;
        let events = value.as_array().or_else(|| value["traceEvents"].as_array()).ok_or(ReadError::NoEvents)?;
        let (mut names, mut order, mut found) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (number, event) in events.iter().enumerate() {
            let phase = event["ph"].as_str().unwrap_or_default();
            if phase != "M" && phase != "X" {
                continue;
            }
            let at = (place(event, number, "pid")?, place(event, number, "tid")?);
            let name = event["name"].as_str().unwrap_or_default();
            if phase == "M" {
                if let Some(index) = event["args"]["sort_index"].as_u64().and_then(|index| index.try_into().ok())
                    && name == "process_sort_index"
                {
                    order.insert(at.0, index);
                } else if let Some(text) = event["args"]["name"].as_str() {
                    let key = if name == "process_name" { (at.0, None) } else { (at.0, Some(at.1)) };
                    names.insert(key, text.to_owned());
                }
                continue;
            }
            let details = event["args"].as_object().cloned().unwrap_or_default();
            if !keep(&details) {
                continue;
            }
            let start = field(event, number, "ts")?;
            let end = start + field(event, number, "dur")?;
            let waited = details.get("waited_us").and_then(Value::as_f64).unwrap_or(0.0).clamp(0.0, end - start);
            let name = name.strip_prefix("stuck: ").unwrap_or(name);
            let class = match event["cat"].as_str() {
                Some("stuck") => Class::Blocked,
                Some("port") => Class::Transfer,
                _ => OpKind::from_name(name).map_or(Class::Copy, Class::of),
            };
            let slice = Slice { waited, details, ..Slice::new(0, (start, end), class, name) };
            found.push((at, slice));
        }
        self.names.append(&mut names);
        self.order.append(&mut order);
        self.found.append(&mut found);
        Ok(())
    }

    /// Returns the trace of all events. Times begin with the first operation.
    ///
    /// # Errors
    /// [`ReadError::Empty`].
    pub fn finish(self) -> Result<Trace, ReadError> {
        let Self { names, order, found } = self;
        let index = |process: u32| order.get(&process).copied().unwrap_or(process);
        let first = found.iter().map(|(_, slice)| slice.start).min_by(f64::total_cmp).ok_or(ReadError::Empty)?;
        let in_order = |(process, thread): (u32, u32)| (index(process), process, thread);
        let mut lanes: BTreeMap<(u32, u32, u32), u32> = found.iter().map(|(at, _)| (in_order(*at), 0)).collect();
        (0..).zip(lanes.values_mut()).for_each(|(number, lane)| *lane = number);
        let lane = |&(_, process, thread): &(u32, u32, u32)| Lane {
            process,
            process_name: names.get(&(process, None)).cloned().unwrap_or_else(|| format!("rank {process}")),
            thread,
            name: names.get(&(process, Some(thread))).cloned().unwrap_or_else(|| format!("thread block {thread}")),
        };
        let lanes_in_order = lanes.keys().map(lane).collect();
        let mut trace = Trace { unit: Unit::Microseconds, lanes: lanes_in_order, ..Trace::default() };
        trace.slices = found
            .into_iter()
            .map(|(at, slice)| Slice {
                lane: lanes[&in_order(at)],
                start: slice.start - first,
                end: slice.end - first,
                ..slice
            })
            .collect();
        trace.slices.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.lane.cmp(&b.lane)));
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Result<Trace, ReadError> {
        let mut reader = EventReader::default();
        reader.add(value.to_string().as_bytes(), |_| true)?;
        reader.finish()
    }

    #[test]
    fn events_are_operations_of_named_lanes() {
        let events = json!([
            { "ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": { "name": "rank 1 of 2" } },
            { "ph": "M", "name": "process_sort_index", "pid": 7, "tid": 0, "args": { "sort_index": 1 } },
            { "ph": "X", "name": "put", "pid": 7, "tid": 3, "ts": 1000.5, "dur": 2.0, "args": { "waited_us": 9.0 } },
            { "ph": "X", "name": "wait", "pid": 9, "tid": 0, "ts": 1000.0, "dur": 4.0 },
            { "ph": "M", "name": "process_sort_index", "pid": 9, "tid": 0, "args": { "sort_index": 0 } },
            { "ph": "C", "name": "a counter" },
        ]);
        for value in [json!({ "traceEvents": events }), events] {
            let trace = read(&value).expect("a trace");
            let lanes: Vec<_> =
                trace.lanes.iter().map(|lane| (lane.process_name.as_str(), lane.name.as_str())).collect();
            assert_eq!(lanes, [("rank 9", "thread block 0"), ("rank 1 of 2", "thread block 3")]);
            let slices: Vec<_> = trace.slices.iter().map(|one| (one.lane, one.start, one.end, one.waited)).collect();
            assert_eq!(slices, [(0, 0.0, 4.0, 0.0), (1, 0.5, 2.5, 2.0)]);
        }
    }

    #[test]
    fn invalid_traces_are_errors() {
        let event = |field: &str, value: Value| {
            let mut event = json!({ "ph": "X", "name": "put", "pid": 0, "tid": 0, "ts": 1, "dur": 1 });
            event[field] = value;
            json!([event])
        };
        for (value, expected) in [
            (json!({}), "found neither"),
            (json!([]), "no operations"),
            (event("ts", json!(-1)), "event 0: expected a number of 0 or more in `ts`, found -1"),
            (event("dur", Value::Null), "in `dur`, found null"),
            (event("tid", json!(1u64 << 40)), "in `tid`"),
        ] {
            let error = read(&value).expect_err("it is invalid");
            assert!(error.to_string().contains(expected), "{error}");
        }
        let cut = EventReader::default().add(b"[{\"ph\"", |_| true);
        assert!(matches!(cut, Err(ReadError::Json(_))), "{cut:?}");
    }

    #[test]
    fn written_traces_are_read_again() {
        let mut trace = Trace { unit: Unit::Microseconds, ..Trace::default() };
        trace.lanes = vec![Lane::of_rank(2, 1, "thread block 1".into())];
        trace.slices = vec![Slice::new(0, (0.0, 1.5), Class::Copy, "copy")];
        let again = read(&serde_json::to_value(&trace).expect("JSON")).expect("a trace");
        assert_eq!((again.lanes, again.slices), (trace.lanes, trace.slices));
    }
}
