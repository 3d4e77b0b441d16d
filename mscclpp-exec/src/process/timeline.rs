//! A file with the timeline of a rank's launches.

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use mscclpp_base::interpret::ResolvedPlan;
use mscclpp_base::interpret::timeline::{Recorder, Stamps, Unrecorded};
use mscclpp_base::timeline::Timeline;
use serde_json::json;

/// Number of operations after which no more are written: about 200 MB.
const MAX_OPERATIONS: usize = 1_000_000;

/// The recorders of a rank's thread blocks.
pub(super) trait Recorders {
    /// Returns the one of the thread block of this number among those of the rank.
    fn of(&mut self, block: usize) -> &mut impl Recorder;
}

impl Recorders for Unrecorded {
    #[inline(always)]
    fn of(&mut self, _: usize) -> &mut impl Recorder {
        self
    }
}

impl Recorders for Vec<Stamps> {
    fn of(&mut self, block: usize) -> &mut impl Recorder {
        if self.len() <= block {
            self.resize_with(block + 1, Stamps::default);
        }
        &mut self[block]
    }
}

/// What ends a trace. It is overwritten by the next events, so that a file is complete whenever a program ends.
const END: &[u8] = b"\n]\n";

/// Returns the number of a process in a trace, which tells apart the files that are joined.
fn process_number(path: &Path) -> u32 {
    let mut hasher = DefaultHasher::new();
    path.file_name().hash(&mut hasher);
    // Viewers take numbers for signed ones.
    hasher.finish() as u32 >> 1
}

/// A trace to which timelines of launches are appended. The first one creates the file.
pub struct TimelineFile {
    path: PathBuf,
    rank: u32,
    /// Number and name of its process, which files that are joined distinguish.
    process: (u32, String),
    state: State,
    pub(super) stamps: Vec<Stamps>,
    num_operations: usize,
    /// Names of ranks and thread blocks that are in the file.
    names: BTreeSet<String>,
}

enum State {
    /// There is no file yet.
    New,
    /// A file, and where the next events begin.
    Open(File, u64),
    /// After a failure.
    Ended,
}

impl TimelineFile {
    /// Creates the trace of a rank, without its file, which must not exist; `name`: what viewers show as that of its process.
    pub fn new(path: &Path, rank: u32, name: String) -> Self {
        let (stamps, names) = Default::default();
        let process = (process_number(path), name);
        Self { path: path.to_owned(), rank, process, state: State::New, stamps, num_operations: 0, names }
    }

    /// Appends what was recorded of a launch.
    pub(super) fn append(&mut self, program: &ResolvedPlan) {
        let timeline = Timeline::new(program, self.stamps.iter_mut().flat_map(Stamps::take));
        self.add(&timeline);
    }

    /// Appends a timeline. A failure is a warning, and ends the file.
    pub fn add(&mut self, timeline: &Timeline) {
        if let Err(error) = self.write(timeline) {
            log::warn!("rank {} writes no more of its timeline to {}: {error}", self.rank, self.path.display());
            self.state = State::Ended;
        }
    }

    fn write(&mut self, timeline: &Timeline) -> io::Result<()> {
        if timeline.events.is_empty() || matches!(self.state, State::Ended) {
            return Ok(());
        }
        self.num_operations += timeline.events.len();
        if self.num_operations > MAX_OPERATIONS {
            return Err(io::Error::other(format!("a file has at most {MAX_OPERATIONS} operations")));
        }
        let mut text = String::new();
        if matches!(self.state, State::New) {
            self.state = State::Open(File::create_new(&self.path)?, 0);
            let order = json!({
                "name": "process_sort_index", "ph": "M", "ts": 0, "dur": 0, "pid": self.process.0, "tid": 0,
                "args": { "sort_index": self.rank },
            });
            text = format!("[\n{order}");
        }
        let State::Open(file, end) = &mut self.state else { return Ok(()) };
        for event in timeline.trace_events_of(|_| self.process.clone()) {
            let is_operation = event["ph"] == "X";
            let event = event.to_string();
            if is_operation || self.names.insert(event.clone()) {
                text.push_str(",\n");
                text.push_str(&event);
            }
        }
        let events = text.len();
        file.write_all_at(&[text.as_bytes(), END].concat(), *end)?;
        *end += events as u64;
        Ok(())
    }
}
