//! Files with timelines of calls, if the environment asks for them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
#[cfg(feature = "cuda")]
use std::sync::{Arc, Mutex};

use crate::flight_recorder::RankRecord;
use mscclpp_exec::process::Executor;
#[cfg(feature = "cuda")]
use mscclpp_exec::process::TimelineFile;

/// The variables that name the folder for timelines: ours, and that of MSCCL++ for its own traces.
const FOLDER_VARIABLES: [&str; 2] = ["MSCCLPP_TIMELINE", "MSCCLPP_NPKIT_DUMP_DIR"];

/// Records the launches of an executor in a file of the folder that the environment names. A failure is a warning: it does not change what
/// the program computes.
pub(super) fn record(executor: &Executor, rank: &RankRecord) {
    let Some(path) = path(rank, "") else { return };
    if let Err(error) = executor.record_timeline(&path) {
        log::warn!("rank {} cannot write its timeline to {}: {error}", rank.rank, path.display());
    }
}

/// Creates the file for calls on device memory, if the environment names a folder. A failure is a warning.
#[cfg(feature = "cuda")]
pub(super) fn device_file(rank: &RankRecord) -> Option<Arc<Mutex<TimelineFile>>> {
    let path = path(rank, "-device")?;
    let file = TimelineFile::create(&path);
    if let Err(error) = &file {
        log::warn!("rank {} cannot write its timeline to {}: {error}", rank.rank, path.display());
    }
    file.ok().map(|file| Arc::new(Mutex::new(file)))
}

/// Returns the path of a file that does not exist yet, if the environment names a folder.
fn path(rank: &RankRecord, kind: &str) -> Option<PathBuf> {
    let stated = |name: &str| std::env::var_os(name).filter(|folder| !folder.is_empty());
    let folder = FOLDER_VARIABLES.into_iter().find_map(stated)?;
    // Communicators of one process.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let RankRecord { rank, num_ranks, process, group, .. } = rank;
    let part = group.as_ref().map_or_else(String::new, |group| format!("-{}", group.name));
    let number = NUMBER.fetch_add(1, Relaxed) + 1;
    let name = format!("mscclpp-timeline-rank-{rank}-of-{num_ranks}{part}-{process}-{number}{kind}.json");
    Some(Path::new(&folder).join(name))
}
