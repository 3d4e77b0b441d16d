//! What ranks leave behind when a call fails, and what can be told from it.
//!
//! Where `MSCCLPP_DUMP_DIR` names a folder, a [`Group`](crate::group::Group) whose call fails writes a file into it: JSON, one
//! object per line, with the rank's last calls, the failure, and what its thread blocks waited for. [`analyze`] reads the files
//! of several ranks together: which rank made another call than the rest, which rank left nothing, and where the waiting
//! ends.

mod analyze;
mod record;

pub use analyze::{Analysis, Divergence, analyze};
pub(crate) use record::Recorder;
pub use record::{CallRecord, Dump, DumpError, FailureRecord, GroupRecord, OpRecord, RankRecord, WaitRecord};

/// The variable that names the folder.
pub const FOLDER_VARIABLE: &str = "MSCCLPP_DUMP_DIR";
