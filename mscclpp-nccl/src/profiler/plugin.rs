//! The plugin that `NCCL_PROFILER_PLUGIN` names. It is loaded once, and stays loaded until the process ends.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use libloading::os::unix;
use mscclpp_exec::file::check_library;

use super::abi::{Descriptor, Table};
use super::logger::logger;
use crate::abi::Code;
use crate::debug;

/// The variable that names the plugin.
pub(crate) const VARIABLE: &str = "NCCL_PROFILER_PLUGIN";

/// What the names of plugins begin with.
const PREFIX: &str = "libnccl-profiler";

/// Symbols of the versions that are called, newest first.
const SYMBOLS: [&str; 2] = ["ncclProfiler_v7", "ncclProfiler_v6"];

/// Symbols of older versions.
const OLDER: [&str; 5] =
    ["ncclProfiler_v5", "ncclProfiler_v4", "ncclProfiler_v3", "ncclProfiler_v2", "ncclProfiler_v1"];

/// The events that the plugin asks for: it writes them when it is initialized, and may change them later.
static MASK: AtomicI32 = AtomicI32::new(0);

/// Returns the events that the plugin asks for; none without a plugin.
pub(super) fn mask() -> c_int {
    MASK.load(Ordering::Relaxed)
}

/// A loaded plugin.
pub(crate) struct Plugin {
    /// The file, the plugin's own name and the version of its interface.
    name: String,
    table: Table,
    /// Whether a function has reported an error, in the order of [`Function`].
    reported: [AtomicBool; 5],
    /// Keeps the functions valid.
    _library: unix::Library,
}

// SAFETY: the table has the address of a text that is read while the plugin is loaded, and functions, which plugins must allow
// several threads to call at once, as NCCL does.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// A function of plugins.
#[derive(Clone, Copy)]
enum Function {
    Init,
    StartEvent,
    StopEvent,
    RecordEventState,
    Finalize,
}

impl Function {
    const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::StartEvent => "startEvent",
            Self::StopEvent => "stopEvent",
            Self::RecordEventState => "recordEventState",
            Self::Finalize => "finalize",
        }
    }
}

/// What names a plugin.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    /// No plugin is wanted.
    None,
    /// The program, or a library that it is linked with.
    Process,
    /// Files, of which the first one that can be loaded is used. Unless the user names them, there may be none.
    Files(Vec<String>, bool),
}

impl Named {
    /// Reads the variable's value as NCCL does.
    fn read(value: &str) -> Self {
        if value.is_empty() {
            return Self::Files(vec![format!("{PREFIX}.so")], false);
        }
        if value.eq_ignore_ascii_case("none") {
            return Self::None;
        }
        if value.eq_ignore_ascii_case("STATIC_PLUGIN") {
            return Self::Process;
        }
        let mut files = vec![value.to_owned()];
        let is_file = value.contains('/') || value.starts_with("lib") && value.ends_with(".so");
        if !is_file {
            files.push(format!("{PREFIX}-{value}.so"));
        }
        Self::Files(files, true)
    }
}

/// Returns the plugin, if there is one, or why it cannot be used. It is loaded by the first call, which prints a warning then.
pub(crate) fn plugin() -> Option<&'static Result<Plugin, String>> {
    static PLUGIN: OnceLock<Option<Result<Plugin, String>>> = OnceLock::new();
    let load = || {
        let value = std::env::var(VARIABLE).unwrap_or_default();
        let loaded = Plugin::load(&Named::read(&value))?;
        let loaded = loaded.map_err(|reason| format!("{VARIABLE}={value}: {reason}"));
        match &loaded {
            Ok(plugin) => debug::info(|| format!("profiler plugin {}", plugin.name)),
            Err(text) => debug::warn(&format!("{text}; calls are not profiled")),
        }
        Some(loaded)
    };
    PLUGIN.get_or_init(load).as_ref()
}

/// Opens a library.
fn open(file: Option<&str>) -> Result<unix::Library, String> {
    if let Some(Err(error)) = file.map(|file| check_library(file.as_ref())) {
        return Err(error.to_string());
    }
    let flags = unix::RTLD_NOW | unix::RTLD_LOCAL;
    // SAFETY: the user names a plugin of NCCL's, whose initializers do not depend on what this process does.
    let library = unsafe { unix::Library::open(file, flags) };
    // The loader's reason is the source of the error.
    library.map_err(|error| std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
}

impl Plugin {
    fn load(named: &Named) -> Option<Result<Self, String>> {
        match named {
            Named::None => None,
            Named::Process => Some(open(None).and_then(|library| Self::new("the program", library))),
            Named::Files(files, is_named) => {
                let mut reasons = Vec::new();
                for file in files {
                    match open(Some(file)) {
                        Ok(library) => return Some(Self::new(file, library)),
                        Err(reason) => reasons.push(reason),
                    }
                }
                is_named.then(|| Err(format!("{}; name the file of a profiler plugin", reasons.join("; "))))
            }
        }
    }

    fn new(file: &str, library: unix::Library) -> Result<Self, String> {
        let find = |symbol: &str| {
            // SAFETY: only the address is taken.
            let found = unsafe { library.get::<*mut c_void>(symbol.as_bytes()) };
            found.ok().map(|found| found.into_raw()).filter(|at| !at.is_null())
        };
        let expected = || format!("expected {}", SYMBOLS.join(" or "));
        let Some((symbol, at)) = SYMBOLS.iter().find_map(|symbol| Some((symbol, find(symbol)?))) else {
            return Err(match OLDER.iter().find(|symbol| find(symbol).is_some()) {
                Some(older) => format!("{file} has {older}, {}", expected()),
                None => format!("{file} is no profiler plugin, {}", expected()),
            });
        };
        let at = at.cast_const().cast::<Table>();
        if !at.is_aligned() {
            return Err(format!("{symbol} of {file} is at {at:p}, no address of a struct of functions"));
        }
        // SAFETY: the symbol of a plugin is this struct, which it does not change; the address is not null and aligned.
        let table = unsafe { at.read() };
        for (name, is_missing) in [
            ("init", table.init.is_none()),
            ("startEvent", table.start_event.is_none()),
            ("stopEvent", table.stop_event.is_none()),
        ] {
            if is_missing {
                return Err(format!("{symbol} of {file} has no {name}"));
            }
        }
        let own = if table.name.is_null() {
            "without a name".into()
        } else {
            // SAFETY: the name of a plugin is a text.
            format!("`{}`", unsafe { CStr::from_ptr(table.name) }.to_string_lossy())
        };
        let name = format!("{own} of {file} ({symbol})");
        Ok(Self { name, table, reported: Default::default(), _library: library })
    }

    /// Returns the plugin's name in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Prints an error of the plugin, the first one of each function, and returns whether there was none.
    fn check(&self, function: Function, code: c_int) -> bool {
        let is_success = code == Code::Success as c_int;
        if !is_success && !self.reported[function as usize].swap(true, Ordering::Relaxed) {
            debug::warn(&format!("profiler plugin {}: {} returned {code}", self.name, function.name()));
        }
        is_success
    }

    /// Tells the plugin of a communicator; returns the plugin's context of it, or none after an error, which is printed.
    pub(super) fn init(
        &self,
        communicator: u64,
        name: Option<&'static CStr>,
        [num_nodes, num_ranks, rank]: [u32; 3],
    ) -> Option<usize> {
        let init = self.table.init?;
        let mut context: *mut c_void = std::ptr::null_mut();
        let name: *const c_char = name.map_or(std::ptr::null(), CStr::as_ptr);
        let [num_nodes, num_ranks, rank] = [num_nodes, num_ranks, rank].map(|count| count as c_int);
        // SAFETY: the function is one of this type; the plugin may keep and write the mask, which stays valid until the process
        // ends and is only accessed atomically here, and the texts, which stay valid as well.
        let code =
            unsafe { init(&raw mut context, communicator, MASK.as_ptr(), name, num_nodes, num_ranks, rank, logger()) };
        // Each communicator without a profiler is reported.
        if code != Code::Success as c_int {
            debug::warn(&format!(
                "profiler plugin {}: {} returned {code}; calls of this communicator are not profiled",
                self.name,
                Function::Init.name()
            ));
            return None;
        }
        Some(context as usize)
    }

    /// Starts an event of a context; returns the plugin's event, or 0 for none.
    pub(super) fn start(&self, context: usize, descriptor: &mut Descriptor) -> usize {
        let Some(start) = self.table.start_event else { return 0 };
        let mut event: *mut c_void = std::ptr::null_mut();
        // SAFETY: the function is one of this type, the context is the plugin's and not finalized: a `Profiler` is, when it is
        // dropped. The texts of descriptors stay valid until the process ends.
        let code = unsafe { start(context as *mut c_void, &raw mut event, descriptor) };
        self.check(Function::StartEvent, code);
        event as usize
    }

    /// Stops an event.
    pub(super) fn stop(&self, event: usize) {
        if let Some(stop) = self.table.stop_event {
            // SAFETY: the function is one of this type; the event is the plugin's, and stopped once, when an `Event` is dropped.
            let code = unsafe { stop(event as *mut c_void) };
            self.check(Function::StopEvent, code);
        }
    }

    /// Records the state of an event.
    pub(super) fn record(&self, event: usize, state: c_int) {
        if let Some(record) = self.table.record_event_state {
            // SAFETY: the function is one of this type; the event is the plugin's and not stopped. These states have no
            // arguments.
            let code = unsafe { record(event as *mut c_void, state, std::ptr::null_mut()) };
            self.check(Function::RecordEventState, code);
        }
    }

    /// Ends a context.
    pub(super) fn finalize(&self, context: usize) {
        if let Some(finalize) = self.table.finalize
            && context != 0
        {
            // SAFETY: the function is one of this type; the context is the plugin's, and ended once, when a `Profiler` is dropped.
            let code = unsafe { finalize(context as *mut c_void) };
            self.check(Function::Finalize, code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_nccl() {
        let files = |files: &[&str]| Named::Files(files.iter().map(|file| (*file).to_owned()).collect(), true);
        assert_eq!(Named::read(""), Named::Files(vec!["libnccl-profiler.so".to_owned()], false));
        assert_eq!(Named::read("None"), Named::None);
        assert_eq!(Named::read("STATIC_PLUGIN"), Named::Process);
        assert_eq!(Named::read("inspector"), files(&["inspector", "libnccl-profiler-inspector.so"]));
        assert_eq!(Named::read("libmine.so"), files(&["libmine.so"]));
        assert_eq!(Named::read("libmine"), files(&["libmine", "libnccl-profiler-libmine.so"]));
        assert_eq!(Named::read("./mine"), files(&["./mine"]));
    }
}
