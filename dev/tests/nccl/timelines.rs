//! Timelines of programs that call NCCL: traces as Perfetto reads them, of which those of all ranks make one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::clients::{Test, all_ok, run, text};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("timelines_of_four_ranks_make_one_trace", one_trace),
        ("timelines_wait_for_no_other_work_of_the_device", no_wait),
        ("timelines_are_without_launches_of_graphs", of_graphs),
    ]
}

/// An event of Chrome's trace format, as far as timelines have it; anything else is an error.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Event {
    name: String,
    ph: String,
    cat: Option<String>,
    ts: f64,
    dur: f64,
    pid: u32,
    tid: u32,
    args: Value,
}

/// What a trace has: the names of processes, and of each its launches as plan and number, and its operations as thread block, begin, end
/// and name.
#[derive(Default)]
struct Trace {
    processes: BTreeMap<u32, String>,
    launches: BTreeMap<u32, BTreeSet<(String, u64)>>,
    operations: BTreeMap<u32, Vec<(u32, f64, f64, String)>>,
}

impl Trace {
    /// Reads the files of a folder as one trace, as viewers read a file with the events of all.
    fn read(folder: &Path) -> Result<Self, String> {
        let mut files: Vec<_> = fs::read_dir(folder).map_err(|error| error.to_string())?.flatten().collect();
        files.sort_by_key(fs::DirEntry::path);
        let mut joined = Vec::new();
        for file in files {
            let text = fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
            let events: Vec<Value> = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
            joined.extend(events);
        }
        let (mut trace, mut threads) = (Self::default(), BTreeSet::new());
        for event in joined {
            let text = event.to_string();
            let event: Event = serde_json::from_value(event).map_err(|error| format!("{error}: {text}"))?;
            let name = event.args["name"].as_str();
            match (event.ph.as_str(), event.name.as_str(), name) {
                ("M", "process_name", Some(name)) => {
                    if trace.processes.insert(event.pid, name.to_owned()).is_some_and(|other| other != name) {
                        return Err(format!("a process with two names: {text}"));
                    }
                }
                ("M", "process_sort_index", None) if event.args["sort_index"].is_u64() => {}
                ("M", "thread_name", Some(_)) => _ = threads.insert((event.pid, event.tid)),
                ("X", operation, _)
                    if event.cat.as_deref() == Some("operation") && event.ts > 0.0 && event.dur >= 0.0 =>
                {
                    let (begin, end) = (event.ts, event.ts + event.dur);
                    let waited = event.args["waited_us"].as_f64().ok_or(&*text)?;
                    let is_named =
                        trace.processes.contains_key(&event.pid) && threads.contains(&(event.pid, event.tid));
                    let launch = event.args["launch"].as_u64().filter(|&launch| launch > 0).ok_or(&*text)?;
                    if !is_named || waited > event.dur + 1e-3 {
                        return Err(text);
                    }
                    trace.launches.entry(event.pid).or_default().insert((event.args["plan"].to_string(), launch));
                    let of = trace.operations.entry(event.pid).or_default();
                    of.push((event.tid, begin, end, operation.to_owned()));
                }
                _ => return Err(format!("not of a timeline: {text}")),
            }
        }
        for of in trace.operations.values_mut() {
            of.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
            // Viewers drop events of a thread that overlap without one of them being inside of the other. Numbers are microseconds.
            if let Some(two) = of.windows(2).find(|two| two[0].0 == two[1].0 && two[0].2 > two[1].1 + 1e-3) {
                return Err(format!("overlapping operations {two:?}"));
            }
        }
        Ok(trace)
    }

    /// Returns the operations on the device of a rank.
    fn on_device(&self, rank: u32, ranks: u32) -> Result<&[(u32, f64, f64, String)], String> {
        let name = format!("rank {rank} of {ranks}, device");
        let found = self.processes.iter().find(|(_, found)| **found == name);
        let of = found.and_then(|(pid, _)| self.operations.get(pid));
        of.map(Vec::as_slice).ok_or_else(|| format!("no operations of {name}: {:?}", self.processes))
    }
}

fn folder() -> Result<tempfile::TempDir, String> {
    tempfile::tempdir().map_err(|error| error.to_string())
}

fn one_trace() -> Result<(), String> {
    let folder = folder()?;
    all_ok(&run("collectives", 4, &[], &[("MSCCLPP_TIMELINE", &folder.path().display().to_string())])?)?;
    let trace = Trace::read(folder.path())?;
    let span = |rank| -> Result<(f64, f64), String> {
        let of = trace.on_device(rank, 4)?;
        let first = of.iter().map(|event| event.1).fold(f64::INFINITY, f64::min);
        Ok((first, of.iter().map(|event| event.2).fold(0.0, f64::max)))
    };
    // The clocks are one: all ranks make the first call, and the last one, together.
    let spans = (0..4).map(span).collect::<Result<Vec<_>, _>>()?;
    let begin = spans.iter().map(|span| span.0).fold(0.0, f64::max);
    let end = spans.iter().map(|span| span.1).fold(f64::INFINITY, f64::min);
    if begin >= end {
        return Err(format!("the ranks run one after the other: {spans:?}"));
    }
    Ok(())
}

fn no_wait() -> Result<(), String> {
    let folder = folder()?;
    let name = folder.path().display().to_string();
    let outputs = run("timeline", 2, &[], &[("MSCCLPP_TIMELINE", &name), ("MSCCLPP_TIMEOUT", "60")])?;
    all_ok(&outputs)?;
    let trace = Trace::read(folder.path())?;
    for rank in 0..2 {
        if trace.on_device(rank, 2)?.is_empty() {
            return Err(text(&outputs[rank as usize]));
        }
    }
    Ok(())
}

/// The sums of the program: eight times one call, and four times fifteen beside graphs, which continue the numbers of launches.
fn of_graphs() -> Result<(), String> {
    let folder = folder()?;
    all_ok(&run("mixed_graphs", 2, &[], &[("MSCCLPP_TIMELINE", &folder.path().display().to_string())])?)?;
    let trace = Trace::read(folder.path())?;
    for rank in 0..2 {
        trace.on_device(rank, 2)?;
        let name = format!("rank {rank} of 2, device");
        let of_rank = |pid: &&u32| trace.processes[*pid] == name;
        let launches: BTreeSet<_> =
            trace.launches.iter().filter(|(pid, _)| of_rank(pid)).flat_map(|(_, of)| of).collect();
        let last = launches.iter().map(|(_, number)| *number).max();
        if launches.len() != 8 + 4 * 15 || last.is_none_or(|last| last <= 68) {
            return Err(format!("{} launches up to {last:?}: {launches:?}", launches.len()));
        }
    }
    Ok(())
}
