//! Flight recorder: dumps that ranks write when a call fails, and their analysis.
//!
//! If `MSCCLPP_DUMP_DIR` names a folder, a [`Communicator`](crate::Communicator) whose call fails writes a file into it: JSON,
//! one object per line, with the rank's last calls, the failure, and what its thread blocks waited for. [`analyze`]
//! reads the files of several ranks together: it finds the rank that made a different call, the ranks without a dump,
//! and the end of the wait chain.
//!
//! A rank that runs writes a dump as well when it receives the signal that `MSCCLPP_DUMP_SIGNAL` names, or when `mscclpp
//! status --dump` requests one.

mod analyze;
mod call_words;
mod record;
mod recorder;

pub use analyze::{Analysis, Divergence, analyze};
pub use record::{
    CallRecord, Dump, DumpError, FailureRecord, GroupRecord, OpRecord, RankRecord, StateRecord, WaitRecord,
};
pub(crate) use recorder::{Recorder, folder};

/// The variable that names the folder.
pub const FOLDER_VARIABLE: &str = "MSCCLPP_DUMP_DIR";

/// The variable that names the signal on which ranks write dumps.
pub const SIGNAL_VARIABLE: &str = "MSCCLPP_DUMP_SIGNAL";

/// A signal on which ranks write dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpSignal {
    /// `SIGUSR1`.
    Usr1,
    /// `SIGUSR2`.
    Usr2,
}

impl DumpSignal {
    /// Returns the signal that the environment names; `None` if it names none, which is the default: a library takes no signal
    /// that the program may use.
    ///
    /// # Errors
    /// The value, if it is neither `USR1` nor `USR2`, with or without `SIG`.
    pub fn from_env() -> Result<Option<Self>, String> {
        let Some(name) = std::env::var_os(SIGNAL_VARIABLE).filter(|name| !name.is_empty()) else { return Ok(None) };
        let name = name.to_string_lossy();
        match name.strip_prefix("SIG").unwrap_or(&name) {
            "USR1" => Ok(Some(Self::Usr1)),
            "USR2" => Ok(Some(Self::Usr2)),
            _ => Err(name.into_owned()),
        }
    }
}
