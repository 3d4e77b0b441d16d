//! NVRTC: the run-time compiler of the toolkit, loaded by the first call that needs it.
//!
//! Its functions are looked up here, not in `cudarc`, which does not accept a path to a library, panics where a
//! function is missing, and converts results to a Rust enum that may lack the results of a later version.

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::Library;

use super::JitError;
use super::compiler::{Compiler, Image};
use super::source::Source;
use mscclpp_base::file;

/// Environment variable for the path of NVRTC's library, where the loader does not find it.
pub const NVRTC_VARIABLE: &str = "MSCCLPP_NVRTC";

/// The vendor's names of the library, the newest first.
const NAMES: [&str; 5] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "nvrtc64_130_0.dll"];

type Program = *mut c_void;

macro_rules! api {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions that are used.
        #[allow(non_snake_case, reason = "as the library calls them")]
        struct Api {
            $($name: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Libraries, which are kept loaded.
            _libraries: Vec<Library>,
        }

        impl Api {
            /// Looks up the functions.
            fn of(libraries: Vec<Library>) -> Result<Self, JitError> {
                let library = libraries.last().ok_or(JitError::Unsupported)?;
                Ok(Self {
                    // SAFETY: the library's own header declares them with these types, and they live as long as the
                    // library.
                    $($name: unsafe {
                        *library
                            .get(concat!(stringify!($name), "\0").as_bytes())
                            .map_err(|_| JitError::MissingSymbol { symbol: stringify!($name) })?
                    },)*
                    _libraries: libraries,
                })
            }
        }
    };
}

api! {
    nvrtcVersion(*mut c_int, *mut c_int) -> c_int;
    nvrtcGetErrorString(c_int) -> *const c_char;
    nvrtcGetNumSupportedArchs(*mut c_int) -> c_int;
    nvrtcGetSupportedArchs(*mut c_int) -> c_int;
    nvrtcCreateProgram(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
    nvrtcDestroyProgram(*mut Program) -> c_int;
    nvrtcCompileProgram(Program, c_int, *const *const c_char) -> c_int;
    nvrtcGetProgramLogSize(Program, *mut usize) -> c_int;
    nvrtcGetProgramLog(Program, *mut c_char) -> c_int;
    nvrtcGetCUBINSize(Program, *mut usize) -> c_int;
    nvrtcGetCUBIN(Program, *mut c_char) -> c_int;
    nvrtcGetPTXSize(Program, *mut usize) -> c_int;
    nvrtcGetPTX(Program, *mut c_char) -> c_int;
}

/// Result of a source that does not compile.
const ERROR_COMPILATION: c_int = 6;

impl Api {
    /// Returns the functions of the process' library.
    fn get() -> Result<&'static Self, JitError> {
        static API: OnceLock<Result<Api, JitError>> = OnceLock::new();
        API.get_or_init(|| Self::of(open(std::env::var_os(NVRTC_VARIABLE))?)).as_ref().map_err(Clone::clone)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), JitError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: takes any number, and returns a text that is never freed.
        let text = unsafe { CStr::from_ptr((self.nvrtcGetErrorString)(code)) };
        Err(JitError::Call { call, code, text: text.to_string_lossy().into_owned() })
    }

    /// Returns an output of a program, such as its log or code, by asking for its size first.
    fn bytes(
        &self,
        call: &'static str,
        program: Program,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, JitError> {
        let mut len = 0;
        // SAFETY: a program that was not destroyed, and a valid pointer for the size.
        self.check(call, unsafe { size(program, &mut len) })?;
        let mut bytes = vec![0; len];
        // SAFETY: the buffer has as many bytes as the library asked for.
        self.check(call, unsafe { get(program, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

/// Loads the libraries: those that NVRTC itself opens by name, then NVRTC.
fn open(path: Option<OsString>) -> Result<Vec<Library>, JitError> {
    // SAFETY: NVRTC's initialization has no preconditions. If the variable names another library, its initialization is
    // the user's responsibility.
    let load = |name: &Path| unsafe { Library::new(name) };
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        let found = NAMES.iter().find_map(|name| load(Path::new(name)).ok());
        let tried = format!("`{}` to `{}`", NAMES[0], NAMES[3]);
        return Ok(vec![found.ok_or(JitError::NoCompiler { tried })?]);
    };
    let path = Path::new(&path);
    // Unless it is loaded already, the loader searches for the second library only in configured folders.
    let beside = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let beside = beside.into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.starts_with("libnvrtc-builtins.so").then(|| load(&entry.path()).ok())?
    });
    let mut libraries: Vec<Library> = beside.collect();
    let not = |reason: String| JitError::NotALibrary { path: path.to_owned(), reason };
    file::check_library(path).map_err(|error| not(error.to_string()))?;
    libraries.push(load(path).map_err(|error| not(error.to_string()))?);
    Ok(libraries)
}

/// NVRTC, for devices of one compute capability.
pub struct Nvrtc {
    api: &'static Api,
    /// `sm_90`, or `compute_90` for a device that the compiler does not support.
    target: String,
    identity: String,
}

impl Nvrtc {
    /// Loads the library, once in a process, and selects the target for a device.
    ///
    /// # Errors
    /// [`JitError::NoCompiler`], [`JitError::NotALibrary`], [`JitError::MissingSymbol`], [`JitError::Architecture`].
    /// Never panics.
    pub fn new(capability: (u32, u32)) -> Result<Self, JitError> {
        let api = Api::get()?;
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: valid pointers for the numbers.
        api.check("nvrtcVersion", unsafe { (api.nvrtcVersion)(&mut major, &mut minor) })?;
        // SAFETY: as above.
        api.check("nvrtcGetNumSupportedArchs", unsafe { (api.nvrtcGetNumSupportedArchs)(&mut count) })?;
        let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the array has as many elements as there are architectures.
        api.check("nvrtcGetSupportedArchs", unsafe { (api.nvrtcGetSupportedArchs)(known.as_mut_ptr()) })?;
        let version = format!("{major}.{minor}");
        let target = target(capability, &known).ok_or_else(|| {
            let number =
                |arch: Option<&c_int>| arch.map_or("none".into(), |arch| format!("{}.{}", arch / 10, arch % 10));
            let known = format!("{} to {}", number(known.iter().min()), number(known.iter().max()));
            let found = format!("{}.{}", capability.0, capability.1);
            JitError::Architecture { version: version.clone(), found, known }
        })?;
        let identity = format!("NVRTC {version} for {target}");
        Ok(Self { api, target, identity })
    }
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvrtc").field("target", &self.target).field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Returns the target of the compilation: the device itself, otherwise an earlier one of its family, whose code it
/// runs, otherwise PTX of an earlier one, which the driver compiles.
fn target((major, minor): (u32, u32), known: &[c_int]) -> Option<String> {
    let device = (10 * major + minor) as c_int;
    let best = *known.iter().filter(|&&arch| arch <= device).max()?;
    Some(if best / 10 == device / 10 { format!("sm_{best}") } else { format!("compute_{best}") })
}

/// A program that is destroyed when it is dropped.
struct Owned(&'static Api, Program);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by this library, and destroyed once. A destructor cannot report a failure.
        unsafe { (self.0.nvrtcDestroyProgram)(&mut self.1) };
    }
}

impl Compiler for Nvrtc {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn compile(&self, source: &Source) -> Result<Image, JitError> {
        let api = self.api;
        let failed = |log: String| JitError::Source {
            name: source.name().to_owned(),
            target: self.identity.clone(),
            log: log.trim_end().to_owned(),
        };
        let text =
            |text: &str| CString::new(text).map_err(|zero| failed(format!("a zero byte at {}", zero.nul_position())));
        let (name, main) = (text(source.name())?, text(source.text())?);
        let headers = source.headers().map(|(name, body)| Ok([text(name)?, text(body)?]));
        let headers: Vec<[CString; 2]> = headers.collect::<Result<_, JitError>>()?;
        let column = |at: usize| headers.iter().map(|header| header[at].as_ptr()).collect::<Vec<_>>();
        let (names, bodies) = (column(0), column(1));
        let mut program = null_mut();
        // SAFETY: texts that end with a zero, as many headers as names, all of which live until the call returns.
        let created = unsafe {
            let (count, bodies, names) = (headers.len() as c_int, bodies.as_ptr(), names.as_ptr());
            (api.nvrtcCreateProgram)(&mut program, main.as_ptr(), name.as_ptr(), count, bodies, names)
        };
        api.check("nvrtcCreateProgram", created)?;
        let program = Owned(api, program);
        // Functions without an execution space, lambdas above all, run on the device: there is no host here.
        let on_device = "--device-as-default-execution-space";
        let fixed = ["--std=c++17", "--fmad=false", "--ptxas-options=-v", on_device].map(str::to_owned);
        let defines = source.defines().iter().map(|(name, value)| format!("--define-macro={name}={value}"));
        let target = format!("--gpu-architecture={}", self.target);
        let options = fixed.into_iter().chain([target]).chain(defines).chain(source.options().iter().cloned());
        let options: Vec<CString> = options.map(|option| text(&option)).collect::<Result<_, _>>()?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: texts that end with a zero and live until the call returns.
        let compiled = unsafe { (api.nvrtcCompileProgram)(program.1, pointers.len() as c_int, pointers.as_ptr()) };
        let log = api.bytes("nvrtcGetProgramLog", program.1, api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog)?;
        let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
        if compiled == ERROR_COMPILATION {
            return Err(failed(log));
        }
        api.check("nvrtcCompileProgram", compiled).map_err(|error| match error {
            // The log is more specific: an unsupported option, a library that was not found.
            JitError::Call { call, code, text } if !log.trim().is_empty() => {
                JitError::Call { call, code, text: format!("{text}: {}", log.trim()) }
            }
            error => error,
        })?;
        let code = if self.target.starts_with("sm_") {
            api.bytes("nvrtcGetCUBIN", program.1, api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN)?
        } else {
            // PTX ends with a zero, as the driver expects.
            api.bytes("nvrtcGetPTX", program.1, api.nvrtcGetPTXSize, api.nvrtcGetPTX)?
        };
        Ok(Image { code, log })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_supported_by_device() {
        let known = [75, 80, 86, 90, 100, 103, 120];
        let target = |capability| target(capability, &known);
        assert_eq!(target((9, 0)).as_deref(), Some("sm_90"));
        assert_eq!(target((8, 9)).as_deref(), Some("sm_86"));
        assert_eq!(target((10, 1)).as_deref(), Some("sm_100"));
        assert_eq!(target((13, 0)).as_deref(), Some("compute_120"));
        assert_eq!(target((7, 0)), None);
    }

    #[test]
    fn file_that_is_no_library_is_reported() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        match open(Some(file.path().into())) {
            Err(JitError::NotALibrary { path, .. }) => assert_eq!(path, file.path()),
            _ => panic!("an empty file is no library"),
        }
        // The loader would wait for a process that writes to the pipe.
        let pipe = file.path().with_extension("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from(0o600)).expect("a pipe");
        let opened = open(Some(pipe.clone().into()));
        std::fs::remove_file(pipe).expect("it is there");
        assert!(matches!(opened, Err(JitError::NotALibrary { reason, .. }) if reason.ends_with("found a pipe")));
        let library = ["libc.so.6", "libm.so.6"].iter().find_map(|name| open(Some((*name).into())).ok());
        let missing = library.map(|library| Api::of(library).err());
        assert!(matches!(missing, None | Some(Some(JitError::MissingSymbol { symbol: "nvrtcVersion" }))));
    }
}
