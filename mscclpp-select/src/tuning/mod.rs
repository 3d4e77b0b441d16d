//! Tuning tables: the fastest algorithm per request on a machine, as `tune` measures them.

mod machine;
mod record;
#[cfg(feature = "process")]
mod reference;
mod table;

pub use machine::{Difference, MachineInfo};
pub use record::{CandidateTime, TuningEntry};
#[doc(hidden)]
pub use table::rounded;
pub use table::{TableError, TuningTable};

/// The variable that names a table for [`Registry::from_env`](crate::Registry::from_env).
pub const TABLE_VARIABLE: &str = "MSCCLPP_TUNING_TABLE";
