//! Prints the library's log messages, as the environment states: Python programs have no logger of Rust.

use std::io::Write;

use log::LevelFilter;
use mscclpp_exec::logging;

/// Installs the logger. It stays until the process ends, also in interpreters to come.
pub(crate) fn start() {
    // There is no one to report a failure to.
    logging::install(LevelFilter::Warn, |record| _ = write!(std::io::stderr(), "mscclpp: {}", logging::line(record)));
}
