//! Files with timelines of calls, if the environment asks for them.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::flight_recorder::RankRecord;
use mscclpp_exec::process::Executor;

/// The variables that name the folder for timelines: ours, and that of MSCCL++ for its own traces.
const FOLDER_VARIABLES: [&str; 2] = ["MSCCLPP_TIMELINE", "MSCCLPP_NPKIT_DUMP_DIR"];

/// Records the launches of an executor in a file of the folder that the environment names. A failure is a warning: it does not change what
/// the program computes.
pub(super) fn record(executor: &Executor, rank: &RankRecord) {
    let Some((path, name)) = file(rank, "") else { return };
    if let Err(error) = executor.record_timeline(&path, name) {
        log::warn!("rank {} cannot write its timeline to {}: {error}", rank.rank, path.display());
    }
}

/// Returns the path of a file that does not exist yet, and the name of its process in the trace, if the environment names a folder;
/// `kind`: what the file has, or nothing for calls on host memory.
pub(super) fn file(rank: &RankRecord, kind: &str) -> Option<(PathBuf, String)> {
    let stated = |name: &str| std::env::var_os(name).filter(|folder| !folder.is_empty());
    let folder = FOLDER_VARIABLES.into_iter().find_map(stated)?;
    // Communicators of one process.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let RankRecord { rank, num_ranks, process, group, .. } = rank;
    let group = group.as_ref().map(|group| &group.name);
    let number = NUMBER.fetch_add(1, Relaxed) + 1;
    let [part, kind] = [group.map(String::as_str), Some(kind).filter(|kind| !kind.is_empty())];
    let [in_part, of_kind] = [part, kind].map(|name| name.map_or_else(String::new, |name| format!("-{name}")));
    let path = format!("mscclpp-timeline-rank-{rank}-of-{num_ranks}{in_part}-{process}-{number}{of_kind}.json");
    let [in_part, of_kind] = [part, kind].map(|name| name.map_or_else(String::new, |name| format!(", {name}")));
    Some((Path::new(&folder).join(path), format!("rank {rank} of {num_ranks}{in_part}{of_kind}")))
}
