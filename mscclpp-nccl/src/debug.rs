//! Messages, as `NCCL_DEBUG` asks for them, and the log of the other crates.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use log::{Level, LevelFilter, Log, Metadata, Record};

/// The module that reports each decision of a registry: `decision` reports those of calls instead, with more detail.
const DECISIONS: &str = "mscclpp_select::registry";

/// Where messages go.
struct Output {
    level: LevelFilter,
    /// Whether the version is printed.
    has_version: bool,
    /// `NCCL_DEBUG_FILE`; otherwise standard error.
    file: Option<File>,
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
        let (level, has_version) = level_of(&std::env::var("NCCL_DEBUG").unwrap_or_default());
        let path = std::env::var("NCCL_DEBUG_FILE").ok().filter(|path| !path.is_empty());
        let path = path.map(|path| path.replace("%p", &std::process::id().to_string()).replace("%h", &host()));
        let file = path.and_then(|path| File::options().append(true).create(true).open(path).ok());
        IS_INFO.store(if level >= LevelFilter::Info { ON } else { OFF }, Ordering::Relaxed);
        Self { level, has_version, file }
    }
}

/// Returns the name of this host.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "host".into(), |name| name.trim().to_owned())
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
        print(record.level().to_level_filter(), &record.args().to_string());
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
            write(LevelFilter::Off, &version());
        }
        if level > LevelFilter::Off && log::set_logger(&Logger).is_ok() {
            log::set_max_level(level);
        }
    });
}

/// Prints a message of a level.
pub(crate) fn print(level: LevelFilter, text: &str) {
    write(level, &format!("{level} {text}"));
}

fn write(level: LevelFilter, text: &str) {
    with_output(|output| {
        if level > output.level {
            return;
        }
        let line = format!("{}:{} mscclpp-nccl {text}\n", host(), std::process::id());
        // There is no one to report a failure to.
        let _ = match &mut output.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
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
