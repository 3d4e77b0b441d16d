//! Writes the library's log messages to standard error.

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::output::{note, warn};

/// Environment variable for the log level: `error`, `warn`, `info`, `debug` or `trace`; `warn` if it is not set.
const VARIABLE: &str = "MSCCLPP_LOG_LEVEL";

struct Logger;

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        match record.level() {
            Level::Error | Level::Warn => warn(record.args()),
            level => note(&level.as_str().to_ascii_lowercase(), record.args()),
        }
    }

    fn flush(&self) {}
}

/// Installs the logger.
pub(crate) fn start() {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let level = text.parse::<LevelFilter>();
    // No other logger can be installed.
    if log::set_logger(&Logger).is_ok() {
        log::set_max_level(*level.as_ref().unwrap_or(&LevelFilter::Warn));
    }
    if level.is_err() && !text.is_empty() {
        log::warn!("{VARIABLE}={text}: expected one of error, warn, info, debug, trace; it is warn now");
    }
}
