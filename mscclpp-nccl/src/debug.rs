//! Messages, as `NCCL_DEBUG` asks for them, and the log of the other crates. What the variables of [`logging`] state precedes.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use log::{Level, LevelFilter, Log, Metadata, Record};
use mscclpp_exec::logging::{self, Settings, host};

/// The module that reports each decision of a registry: `decision` reports those of calls instead, with more detail.
const DECISIONS: &str = "mscclpp_select::registry";

/// The module of messages of this library.
const OWN: &str = "mscclpp_nccl";

/// Where messages go.
struct Output {
    level: LevelFilter,
    /// Whether the version is printed.
    has_version: bool,
    /// `NCCL_DEBUG_FILE`, if the settings have no file; otherwise standard error.
    file: Option<File>,
    settings: Settings,
}

static OUTPUT: Mutex<Option<Output>> = Mutex::new(None);

/// Whether the level includes decisions: each call asks. The number of [`OFF`] and [`ON`]; 0 until the variables are read.
static IS_INFO: AtomicU8 = AtomicU8::new(0);
const OFF: u8 = 1;
const ON: u8 = 2;

/// Returns the level of a value of `NCCL_DEBUG`, and whether the version is printed. NCCL prints nothing for a value that it does not
/// document, such as `NONE`.
fn level_of(value: &str) -> (LevelFilter, bool) {
    match value.to_ascii_uppercase().as_str() {
        "VERSION" => (LevelFilter::Off, true),
        "WARN" => (LevelFilter::Warn, false),
        "INFO" | "ABORT" => (LevelFilter::Info, true),
        "TRACE" => (LevelFilter::Trace, true),
        _ => (LevelFilter::Off, false),
    }
}

impl Output {
    fn from_env() -> Self {
        let mut settings = Settings::from_env();
        let (level, has_version) = level_of(&std::env::var("NCCL_DEBUG").unwrap_or_default());
        let level = settings.level.unwrap_or(level);
        let path = std::env::var("NCCL_DEBUG_FILE").ok().filter(|path| !path.is_empty());
        let open = |path: String| File::options().append(true).create(true).open(logging::expanded(&path)).ok();
        let file = settings.file.take().or_else(|| path.and_then(open));
        IS_INFO.store(if level >= LevelFilter::Info { ON } else { OFF }, Ordering::Relaxed);
        let mut output = Self { level, has_version, file, settings };
        // Whatever the variables state of other messages.
        for warning in std::mem::take(&mut output.settings.warnings) {
            output.write(&format!("WARN {warning}"));
        }
        output
    }

    fn write(&mut self, text: &str) {
        let line = format!("{}:{} mscclpp-nccl {text}\n", host(), std::process::id());
        // There is no one to report a failure to.
        let _ = match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
    }
}

fn with_output(run: impl FnOnce(&mut Output)) {
    let mut output = OUTPUT.lock().unwrap_or_else(PoisonError::into_inner);
    run(output.get_or_insert_with(Output::from_env));
}

/// Reads the variables again.
pub(crate) fn reset() {
    *OUTPUT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Output::from_env());
}

/// The log of the other crates, for programs without a logger of their own.
struct Logger;

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if record.target() == DECISIONS && record.level() == Level::Info {
            return;
        }
        let level = record.level().to_level_filter();
        write(record.target(), level, &format!("{level} {}", record.args()));
    }

    fn flush(&self) {}
}

/// Lets the other crates log here and prints the version, once.
pub(crate) fn init(version: impl FnOnce() -> String) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let (mut level, mut has_version) = (LevelFilter::Off, false);
        with_output(|output| (level, has_version) = (output.level, output.has_version));
        if has_version {
            write(OWN, LevelFilter::Off, &version());
        }
        if level > LevelFilter::Off && log::set_logger(&Logger).is_ok() {
            log::set_max_level(level);
        }
    });
}

/// Prints a message of a level.
pub(crate) fn print(level: LevelFilter, text: &str) {
    write(OWN, level, &format!("{level} {text}"));
}

fn write(module: &str, level: LevelFilter, text: &str) {
    with_output(|output| {
        if level > output.level || !output.settings.admits(module) {
            return;
        }
        output.write(text);
    });
}

/// Prints what a caller did wrong, or why a call failed.
pub(crate) fn warn(text: &str) {
    print(LevelFilter::Warn, text);
}

/// Returns whether decisions are printed.
pub(crate) fn is_info() -> bool {
    if IS_INFO.load(Ordering::Relaxed) == 0 {
        with_output(|_| {});
    }
    IS_INFO.load(Ordering::Relaxed) == ON
}

/// Prints a decision.
pub(crate) fn info(text: impl FnOnce() -> String) {
    if is_info() {
        print(LevelFilter::Info, &text());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_nccl_debug_print_what_nccl_documents() {
        assert_eq!(level_of("version"), (LevelFilter::Off, true));
        assert_eq!(level_of("WARN"), (LevelFilter::Warn, false));
        assert_eq!(level_of("Info"), (LevelFilter::Info, true));
        assert_eq!(level_of("TRACE"), (LevelFilter::Trace, true));
        for value in ["", "NONE", "0", "OFF"] {
            assert_eq!(level_of(value), (LevelFilter::Off, false), "{value}");
        }
    }
}
