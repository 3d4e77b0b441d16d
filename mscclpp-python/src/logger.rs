//! Writes the library's log messages to standard error, or as the environment states: Python programs have no logger of Rust.

use std::io::Write;

use log::{LevelFilter, Log, Metadata, Record};
use mscclpp_exec::logging::Settings;

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
        let line = format!("mscclpp: {level}: {}\n", record.args());
        // There is no one to report a failure to.
        let _ = match &self.0.file {
            Some(file) => (&mut &*file).write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
    }

    fn flush(&self) {}
}

/// Installs the logger. It stays until the process ends, also in interpreters to come.
pub(crate) fn start() {
    let mut settings = Settings::from_env();
    let (level, warnings) = (settings.level.unwrap_or(DEFAULT), std::mem::take(&mut settings.warnings));
    if log::set_boxed_logger(Box::new(Logger(settings))).is_ok() {
        log::set_max_level(level);
        warnings.iter().for_each(|warning| log::warn!("{warning}"));
    }
}
