//! Timelines of the calls on host memory, if the environment asks for them.

use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::flight_recorder::RankRecord;
use mscclpp_exec::process::Executor;

/// The variables that name the folder for timelines: ours, and that of MSCCL++ for its own traces.
const FOLDER_VARIABLES: [&str; 2] = ["MSCCLPP_TIMELINE", "MSCCLPP_NPKIT_DUMP_DIR"];

/// Records the launches of an executor in a file of the folder that the environment names. A failure is a warning: it does not change what
/// the program computes.
pub(super) fn record(executor: &Executor, rank: &RankRecord) {
    let stated = |name: &str| std::env::var_os(name).filter(|folder| !folder.is_empty());
    let Some(folder) = FOLDER_VARIABLES.into_iter().find_map(stated) else { return };
    // Communicators of one process.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let RankRecord { rank, num_ranks, process, group, .. } = rank;
    let part = group.as_ref().map_or_else(String::new, |group| format!("-{}", group.name));
    let number = NUMBER.fetch_add(1, Relaxed) + 1;
    let name = format!("mscclpp-timeline-rank-{rank}-of-{num_ranks}{part}-{process}-{number}.json");
    let path = Path::new(&folder).join(name);
    if let Err(error) = executor.record_timeline(&path) {
        log::warn!("rank {rank} cannot write its timeline to {}: {error}", path.display());
    }
}
