//! A file with the timeline of a rank's launches.

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use mscclpp_base::interpret::ResolvedPlan;
use mscclpp_base::interpret::timeline::{Recorder, Stamps, Unrecorded};
use mscclpp_base::timeline::Timeline;

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

/// Returns the number of a process in a trace: those of ranks are in their order, and the files of a rank have different ones as far as
/// 16 bits can tell their names apart.
fn process_number(rank: u32, path: &Path) -> u32 {
    let mut hasher = DefaultHasher::new();
    path.file_name().hash(&mut hasher);
    (rank & 0x7fff) << 16 | hasher.finish() as u32 & 0xffff
}

/// A trace to which timelines of launches are appended.
pub struct TimelineFile {
    path: PathBuf,
    /// Number and name of its process, which files that are joined distinguish.
    process: (u32, String),
    /// None after a failure.
    file: Option<BufWriter<File>>,
    pub(super) stamps: Vec<Stamps>,
    num_operations: usize,
    /// Names of ranks and thread blocks that are in the file.
    names: BTreeSet<String>,
    /// What precedes the next event.
    separator: &'static str,
}

impl TimelineFile {
    /// Creates the file, which does not exist yet; `name`: what viewers show as that of its
    /// process.
    ///
    /// # Errors
    /// Those of the system.
    pub fn create(path: &Path, rank: u32, name: String) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create_new(path)?);
        file.write_all(b"[")?;
        let (stamps, names) = Default::default();
        let (path, process) = (path.to_owned(), (process_number(rank, path), name));
        Ok(Self { path, process, file: Some(file), stamps, num_operations: 0, names, separator: "" })
    }

    /// Appends what was recorded of a launch.
    pub(super) fn append(&mut self, program: &ResolvedPlan) {
        let timeline = Timeline::new(program, self.stamps.iter_mut().flat_map(Stamps::take));
        self.add(&timeline);
    }

    /// Appends a timeline. A failure is a warning, and ends the file.
    pub fn add(&mut self, timeline: &Timeline) {
        if let Err(error) = self.write(timeline) {
            log::warn!("the timeline in {} ends: {error}", self.path.display());
            self.file = None;
        }
    }

    fn write(&mut self, timeline: &Timeline) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if self.num_operations + timeline.events.len() > MAX_OPERATIONS {
            file.write_all(b"\n]\n")?;
            file.flush()?;
            return Err(io::Error::other(format!("a file has at most {MAX_OPERATIONS} operations")));
        }
        self.num_operations += timeline.events.len();
        for event in timeline.trace_events_of(|_| self.process.clone()) {
            let is_operation = event["ph"] == "X";
            let text = event.to_string();
            if is_operation || self.names.insert(text.clone()) {
                write!(file, "{}\n{text}", std::mem::replace(&mut self.separator, ","))?;
            }
        }
        // A trace without its end is valid, so that of a rank that is killed has the launches before.
        file.flush()
    }
}

impl Drop for TimelineFile {
    fn drop(&mut self) {
        if let Some(file) = &mut self.file {
            // A destructor cannot report a failure.
            let _ = file.write_all(b"\n]\n").and_then(|()| file.flush());
        }
    }
}
