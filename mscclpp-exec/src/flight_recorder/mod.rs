//! Flight recorder: dumps that ranks write when a call fails, and their analysis.
//!
//! If `MSCCLPP_DUMP_DIR` names a folder, a [`Communicator`](crate::Communicator) whose call fails writes a file into it: JSON,
//! one object per line, with the rank's last calls, the failure, and what its thread blocks waited for. [`analyze`]
//! reads the files of several ranks together: it finds the rank that made a different call, the ranks without a dump,
//! and the end of the wait chain.

mod analyze;
mod record;

pub use analyze::{Analysis, Divergence, analyze};
pub(crate) use record::Recorder;
pub use record::{CallRecord, Dump, DumpError, FailureRecord, GroupRecord, OpRecord, RankRecord, WaitRecord};

/// The variable that names the folder.
pub const FOLDER_VARIABLE: &str = "MSCCLPP_DUMP_DIR";
