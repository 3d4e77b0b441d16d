//! What the environment states about log messages, for programs without a logger of their own: the command, those that call NCCL, Python.
//!
//! | variable | of MSCCL++'s older logger | meaning |
//! |---|---|---|
//! | `MSCCLPP_LOG_LEVEL` | `MSCCLPP_DEBUG` | `off`, `error`, `warn`, `info`, `debug`, `trace`, in any case |
//! | `MSCCLPP_LOG_SUBSYS` | | names of [`SUBSYSTEMS`], separated by commas; after a `^` all others. Messages of no subsystem are always written |
//! | `MSCCLPP_LOG_FILE` | `MSCCLPP_DEBUG_FILE` | a file that messages are appended to, instead of standard error; `%h` is the host's name, `%p` the process's number |
//!
//! The older name of a variable has a meaning if the newer one is not set. Empty variables are not set.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use log::{LevelFilter, Log, Metadata, Record};

/// The subsystems, as MSCCL++ names them, each with the modules whose messages belong to it. The longest prefix of a module counts.
pub const SUBSYSTEMS: [(&str, &[&str]); 7] = [
    ("ENV", &["mscclpp_bootstrap::env"]),
    ("GPU", &["mscclpp_exec::cuda"]),
    ("NET", &["mscclpp_transport", "mscclpp_exec::cuda::nodes"]),
    ("CONN", &["mscclpp_bootstrap"]),
    ("EXEC", &["mscclpp_exec", "mscclpp_communicator"]),
    ("NCCL", &["mscclpp_nccl"]),
    ("ALGO", &["mscclpp_select"]),
];

/// What the environment states.
#[derive(Debug)]
pub struct Settings {
    /// The level, if one is stated.
    pub level: Option<LevelFilter>,
    /// The file, if one is stated and can be written.
    pub file: Option<File>,
    /// What cannot be followed, and what is done instead.
    pub warnings: Vec<String>,
    /// For each of [`SUBSYSTEMS`], whether its messages are written.
    admitted: [bool; SUBSYSTEMS.len()],
}

impl Settings {
    /// Reads the variables of this process, and opens the file.
    pub fn from_env() -> Self {
        Self::read(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: &[&'static str]| {
            names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()).map(|value| (*name, value)))
        };
        let mut settings = Self { level: None, file: None, warnings: Vec::new(), admitted: [true; SUBSYSTEMS.len()] };
        if let Some((name, value)) = first(&["MSCCLPP_LOG_LEVEL", "MSCCLPP_DEBUG"]) {
            match value.parse() {
                Ok(level) => settings.level = Some(level),
                Err(_) => settings.warnings.push(format!(
                    "{name}={value}: expected one of off, error, warn, info, debug, trace; the variable is ignored"
                )),
            }
        }
        if let Some((name, value)) = first(&["MSCCLPP_LOG_SUBSYS"]) {
            settings.admit(name, &value);
        }
        if let Some((name, value)) = first(&["MSCCLPP_LOG_FILE", "MSCCLPP_DEBUG_FILE"]) {
            let path = PathBuf::from(expanded(&value));
            match File::options().append(true).create(true).open(&path) {
                Ok(file) => settings.file = Some(file),
                Err(error) => {
                    settings.warnings.push(format!("{name}={value}: {error}; messages go to standard error"));
                }
            }
        }
        settings
    }

    fn admit(&mut self, variable: &str, value: &str) {
        let (is_inverted, names) = value.strip_prefix('^').map_or((false, value), |names| (true, names));
        let mut named = [false; SUBSYSTEMS.len()];
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name.eq_ignore_ascii_case("ALL") {
                named = [true; SUBSYSTEMS.len()];
            } else if let Some(at) = SUBSYSTEMS.iter().position(|(known, _)| name.eq_ignore_ascii_case(known)) {
                named[at] = true;
            } else {
                let known = SUBSYSTEMS.map(|(known, _)| known).join(", ");
                self.warnings.push(format!("{variable}: `{name}` is no subsystem: expected ALL or {known}"));
            }
        }
        self.admitted = named.map(|is_named| is_named != is_inverted);
    }

    /// Returns whether messages of a module are written, whatever their level.
    pub fn admits(&self, module: &str) -> bool {
        let length = |prefix: &&str| {
            let rest = module.strip_prefix(*prefix)?;
            (rest.is_empty() || rest.starts_with("::")).then_some(prefix.len())
        };
        let longest = |at: usize| SUBSYSTEMS[at].1.iter().filter_map(length).max().map(|length| (length, at));
        (0..SUBSYSTEMS.len()).filter_map(longest).max().is_none_or(|(_, at)| self.admitted[at])
    }
}

/// Writes messages as the settings state.
struct Logger {
    settings: Settings,
    /// Prints a message if the settings have no file.
    print: fn(&Record<'_>),
}

impl Log for Logger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if !self.settings.admits(record.target()) {
            return;
        }
        match &self.settings.file {
            // There is no one to report a failure to.
            Some(file) => _ = (&mut &*file).write_all(line(record).as_bytes()),
            None => (self.print)(record),
        }
    }

    fn flush(&self) {}
}

/// Returns a message as a line, after its level.
pub fn line(record: &Record<'_>) -> String {
    format!("{}: {}\n", record.level().as_str().to_ascii_lowercase(), record.args())
}

/// Installs a logger for the process, unless it has one; `default`: the level if none is stated, `print`: what prints a message if no file is
/// stated.
pub fn install(default: LevelFilter, print: fn(&Record<'_>)) {
    let mut settings = Settings::from_env();
    let (level, warnings) = (settings.level.unwrap_or(default), std::mem::take(&mut settings.warnings));
    if log::set_boxed_logger(Box::new(Logger { settings, print })).is_ok() {
        log::set_max_level(level);
        warnings.iter().for_each(|warning| log::warn!("{warning}"));
    }
}

/// Returns a path with the host's name for `%h` and the process's number for `%p`.
pub fn expanded(path: &str) -> String {
    path.replace("%p", &std::process::id().to_string()).replace("%h", &host())
}

/// Returns the name of this host.
pub fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "host".into(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        Settings::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn newer_name_of_a_variable_precedes_the_older_one() {
        assert_eq!(read(&[("MSCCLPP_DEBUG", "INFO")]).level, Some(LevelFilter::Info));
        assert_eq!(read(&[("MSCCLPP_LOG_LEVEL", "Warn"), ("MSCCLPP_DEBUG", "INFO")]).level, Some(LevelFilter::Warn));
        assert_eq!(read(&[("MSCCLPP_LOG_LEVEL", ""), ("MSCCLPP_DEBUG", "INFO")]).level, Some(LevelFilter::Info));
        let unknown = read(&[("MSCCLPP_LOG_LEVEL", "loud")]);
        assert_eq!(unknown.level, None);
        assert!(unknown.warnings[0].starts_with("MSCCLPP_LOG_LEVEL=loud: expected one of off"), "{unknown:?}");
    }

    #[test]
    fn subsystems_are_those_named_or_all_others() {
        let admitted = |value| {
            let settings = read(&[("MSCCLPP_LOG_SUBSYS", value)]);
            let modules =
                ["mscclpp_exec::cuda::nodes::x", "mscclpp_exec::cuda", "mscclpp_exec::cudax", "mscclpp_select"];
            (modules.map(|module| settings.admits(module)), settings.warnings.len())
        };
        assert_eq!(admitted(""), ([true, true, true, true], 0));
        assert_eq!(admitted("ALL"), ([true, true, true, true], 0));
        assert_eq!(admitted("net"), ([true, false, false, false], 0));
        assert_eq!(admitted("GPU, EXEC"), ([false, true, true, false], 0));
        assert_eq!(admitted("^GPU,ALGO"), ([true, false, true, false], 0));
        assert_eq!(admitted("GPU,SOUND"), ([false, true, false, false], 1));
        // What belongs to no subsystem is always written.
        assert!(read(&[("MSCCLPP_LOG_SUBSYS", "GPU")]).admits("a_program"));
    }

    #[test]
    fn file_that_cannot_be_written_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log-%p");
        let settings = read(&[("MSCCLPP_LOG_FILE", path.to_str().expect("UTF-8"))]);
        assert!(settings.file.is_some() && folder.path().join(format!("log-{}", std::process::id())).exists());
        let settings = read(&[("MSCCLPP_DEBUG_FILE", "/nonexistent/log")]);
        assert!(settings.file.is_none() && settings.warnings[0].contains("/nonexistent/log"), "{settings:?}");
    }
}
