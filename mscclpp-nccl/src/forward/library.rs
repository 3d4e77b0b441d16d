//! The real NCCL that `MSCCLPP_NCCL_LIB_PATH` names.
//!
//! It is loaded once, from the full path of a file, so that the loader does not take this library, which has the same name, for
//! it. Its symbols are invisible to other libraries (`RTLD_LOCAL`), and its calls of its own functions find those
//! (`RTLD_DEEPBIND`), although this library was loaded before it. It stays loaded until the process ends.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock};

use libloading::os::unix;

use crate::abi::{Code, UniqueId};
use crate::debug;
use crate::entry::{Failure, Result};

/// The variable that names the library.
pub(crate) const VARIABLE: &str = "MSCCLPP_NCCL_LIB_PATH";

/// Flag of the loader in glibc: the library's own symbols precede those of libraries that were loaded before.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RTLD_DEEPBIND: c_int = 8;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const RTLD_DEEPBIND: c_int = 0;

/// A loaded NCCL.
pub(crate) struct Library {
    path: PathBuf,
    library: unix::Library,
    version: c_int,
    /// Addresses of the functions that were looked up; none of those that the library lacks.
    symbols: RwLock<HashMap<&'static str, Option<usize>>>,
}

/// Calls a function of a library, which returns a code: `call!(library, "ncclGroupStart", fn())`, with the types of the
/// parameters and then the arguments.
///
/// # Safety
/// The types must be those that NCCL documents, and the arguments valid for the function.
macro_rules! call {
    ($library:expr, $name:expr, fn($($type:ty),*) $(, $argument:expr)*) => {
        // The symbol is a function of NCCL with these parameters.
        $library.symbol($name).map(|at| {
            let function = std::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> std::ffi::c_int>(at);
            function($($argument),*)
        })
    };
}
pub(crate) use call;

/// Returns the library that the environment names, if it names one, or why it cannot be used. It is loaded by the first call.
pub(crate) fn library() -> Option<&'static Result<Library>> {
    static LIBRARY: OnceLock<Option<Result<Library>>> = OnceLock::new();
    let load = || {
        let path = std::env::var_os(VARIABLE).filter(|path| !path.is_empty())?;
        Some(Library::load(Path::new(&path)).inspect_err(|failure| debug::warn(&failure.text)))
    };
    LIBRARY.get_or_init(load).as_ref()
}

/// Returns the library, if it can be used.
pub(crate) fn usable() -> Option<&'static Library> {
    library()?.as_ref().ok()
}

impl Library {
    fn load(named: &Path) -> Result<Self> {
        let failure = |reason: String| {
            let text = format!(
                "{VARIABLE}={}: {reason}; name the file of a libnccl.so.2, or unset the variable",
                named.display()
            );
            Failure::new(Code::SystemError, text)
        };
        let path = std::fs::canonicalize(named).map_err(|error| failure(error.to_string()))?;
        if !path.is_file() {
            let kind = if path.is_dir() { "a directory" } else { "no file" };
            return Err(failure(format!("expected a file, found {kind}")));
        }
        if own_file().is_some_and(|own| own == path) {
            return Err(failure("this is mscclpp's library, which cannot forward to itself".into()));
        }
        // SAFETY: the user names a NCCL, whose initializers do not depend on what this process does.
        let library = unsafe { unix::Library::open(Some(&path), unix::RTLD_NOW | unix::RTLD_LOCAL | RTLD_DEEPBIND) };
        // The loader's reason is the source of the error.
        let library = library.map_err(|error| {
            let reason = std::error::Error::source(&error).map(ToString::to_string);
            failure(reason.unwrap_or_else(|| error.to_string()))
        })?;
        let loaded = Self { path, library, version: 0, symbols: RwLock::default() };
        let mut version = 0;
        // SAFETY: `ncclGetVersion` writes an integer.
        let code = unsafe { call!(loaded, "ncclGetVersion", fn(*mut c_int), &raw mut version) };
        match code {
            Ok(0) => Ok(Self { version, ..loaded }),
            Ok(code) => Err(failure(format!("its ncclGetVersion returned {code}"))),
            Err(_) => Err(failure("it has no ncclGetVersion, so that it is no NCCL".into())),
        }
    }

    /// Returns the version, such as 23007.
    pub(crate) fn version(&self) -> c_int {
        self.version
    }

    /// Returns the library's name in messages.
    pub(crate) fn name(&self) -> String {
        format!("{} (NCCL {})", self.path.display(), dotted(self.version))
    }

    fn find(&self, name: &'static str) -> Option<usize> {
        if let Some(known) = self.symbols.read().unwrap_or_else(PoisonError::into_inner).get(name) {
            return *known;
        }
        // SAFETY: only the address is taken.
        let found = unsafe { self.library.get::<*mut c_void>(name.as_bytes()) };
        let found = found.ok().map(|symbol| symbol.into_raw() as usize).filter(|at| *at != 0);
        self.symbols.write().unwrap_or_else(PoisonError::into_inner).insert(name, found);
        found
    }

    /// Returns whether the library has a function.
    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the address of a function.
    ///
    /// # Errors
    /// An invalid usage if the library lacks it.
    pub(crate) fn symbol(&self, name: &'static str) -> Result<usize> {
        self.find(name).ok_or_else(|| {
            let text = format!("{} has no {name}: name a newer library with {VARIABLE}", self.name());
            Failure::usage(text)
        })
    }

    /// Converts the code that a function of the library returned for a communicator of it, or none.
    ///
    /// # Errors
    /// The code, with the library's texts.
    pub(crate) fn check(&self, function: &str, comm: usize, code: Result<c_int>) -> Result<()> {
        let code = code?;
        if code == Code::Success as c_int {
            return Ok(());
        }
        let text = |name: &'static str, argument: usize| -> String {
            let Some(at) = self.find(name) else { return String::new() };
            // SAFETY: both functions take a value of a register's size, a code or a communicator, and return a constant text or
            // one that stays valid until the thread's next call; null is checked.
            unsafe {
                let function = std::mem::transmute::<usize, unsafe extern "C" fn(usize) -> *const c_char>(at);
                let text = function(argument);
                if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
            }
        };
        let (meaning, detail) = (text("ncclGetErrorString", code as u32 as usize), text("ncclGetLastError", comm));
        let detail = if detail.is_empty() { detail } else { format!(": {detail}") };
        Err(Failure::new(
            Code::from_number(code),
            format!("{function} of {} returned {code}: {meaning}{detail}", self.name()),
        ))
    }

    /// Creates the id of a job of the library.
    ///
    /// # Errors
    /// Those of the library.
    pub(super) fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: `ncclGetUniqueId` writes an id.
        let code = unsafe { call!(self, "ncclGetUniqueId", fn(*mut UniqueId), &raw mut id) };
        self.check("ncclGetUniqueId", 0, code)?;
        Ok(id)
    }
}

/// Returns the file from which this library was loaded, where Linux says so. Its exported functions do not identify it: the loader
/// may have found those of another NCCL before.
fn own_file() -> Option<PathBuf> {
    let own = own_file as *const () as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps.lines().find_map(|line| {
        let (begin, end) = line.split_once(' ')?.0.split_once('-')?;
        let [begin, end] = [begin, end].map(|text| usize::from_str_radix(text, 16).ok());
        ((begin?..end?).contains(&own)).then(|| line.find('/').map(|at| line[at..].to_owned()))?
    })?;
    std::fs::canonicalize(path).ok()
}

/// Returns a version as a text, such as 2.30.7.
pub(crate) fn dotted(version: c_int) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_file_is_that_of_the_program_that_links_it() {
        if Path::new("/proc/self/maps").exists() {
            let program = std::env::current_exe().and_then(std::fs::canonicalize).expect("a file");
            assert_eq!(own_file(), Some(program.clone()));
            let failure = Library::load(&program).err().expect("not loaded");
            assert!(failure.text.contains("cannot forward to itself"), "{}", failure.text);
        }
    }
}
