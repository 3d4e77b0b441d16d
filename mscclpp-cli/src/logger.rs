//! Writes the library's log messages to standard error, or as the environment states.

use std::io::Write;

use log::{Level, LevelFilter, Log, Metadata, Record};
use mscclpp_exec::logging::Settings;

use crate::output::{note, warn};

/// The level if none is stated.
const DEFAULT: LevelFilter = LevelFilter::Warn;

struct Logger(Settings);

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if !self.0.admits_record(record) {
            return;
        }
        let level = record.level().as_str().to_ascii_lowercase();
        match (&self.0.file, record.level()) {
            // There is no one to report a failure to.
            (Some(file), _) => _ = (&mut &*file).write_all(format!("{level}: {}\n", record.args()).as_bytes()),
            (None, Level::Error | Level::Warn) => warn(record.args()),
            (None, _) => note(&level, record.args()),
        }
    }

    fn flush(&self) {}
}

/// Installs the logger.
pub(crate) fn start() {
    let mut settings = Settings::from_env();
    let (level, warnings) = (settings.level.unwrap_or(DEFAULT), std::mem::take(&mut settings.warnings));
    // No other logger can be installed.
    if log::set_boxed_logger(Box::new(Logger(settings))).is_ok() {
        log::set_max_level(level);
    }
    warnings.iter().for_each(|warning| log::warn!("{warning}"));
}
