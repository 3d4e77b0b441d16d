//! Prints the library's log messages, as the environment states.

use log::{Level, LevelFilter, Record};
use mscclpp_exec::logging;

use crate::output::{note, warn};

/// Installs the logger.
pub(crate) fn start() {
    logging::install(LevelFilter::Warn, print);
}

fn print(record: &Record<'_>) {
    match record.level() {
        Level::Error | Level::Warn => warn(record.args()),
        level => note(&level.as_str().to_ascii_lowercase(), record.args()),
    }
}
