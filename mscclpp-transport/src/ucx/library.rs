//! Finds UCX, and loads it once.

use std::ffi::{CStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::api::*;
use mscclpp_base::file;
use mscclpp_base::shm::ProcessMark;

/// Variable with the path of the library.
const UCX_VARIABLE: &str = "MSCCLPP_UCX";

/// Name of the library.
const NAME: &str = "libucp.so.0";

/// A loaded UCX, and its context. Never unloaded: UCX has threads and handlers of its own.
pub(super) struct Library {
    pub(super) functions: Functions,
    status_string: Option<StatusString>,
    context: OnceLock<Result<Context, Unavailable>>,
    /// Where it was found.
    path: PathBuf,
    version: String,
    api: (u32, u32),
    mark: ProcessMark,
}

/// `ucp_context_h`, which all workers of the process share.
#[derive(Clone, Copy)]
pub(super) struct Context {
    pub(super) handle: *mut std::ffi::c_void,
    /// Whether UCX supports memory of CUDA devices.
    pub(super) supports_cuda: bool,
}

// SAFETY: the context is for workers of several threads (`MT_WORKERS_SHARED`).
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Why UCX cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub(super) String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the library, which the first call loads. `is_required`: whether it is used also if it cannot say what it would use.
pub(super) fn library(is_required: bool) -> Result<&'static Library, Unavailable> {
    static LIBRARY: OnceLock<Result<Library, Unavailable>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| load(&candidates(|name| std::env::var_os(name)))).as_ref();
    let library = library.map_err(Clone::clone)?;
    if library.mark.is_copy() {
        return Err(Unavailable("this process is a copy, made by `fork`, of one that uses UCX".into()));
    }
    match is_required || library.reports_transports() {
        true => Ok(library),
        false => Err(Unavailable(format!("{} does not report what it uses", library.identity()))),
    }
}

/// Returns where the library may be, in the order in which it is looked for. A path that a variable names is the only one.
fn candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(path) = variable(UCX_VARIABLE).filter(|path| !path.is_empty()) {
        return vec![path.into()];
    }
    let mut candidates = vec![PathBuf::from(NAME)];
    candidates.extend(variable("HPCX_UCX_DIR").map(|folder| Path::new(&folder).join("lib").join(NAME)));
    candidates.push(Path::new("/opt/hpcx/ucx/lib").join(NAME));
    // The package `libucx-cu12` or `libucx-cu13` in the environment of Python that is active.
    if let Some(environment) = variable("VIRTUAL_ENV").or_else(|| variable("CONDA_PREFIX")) {
        let versions = std::fs::read_dir(Path::new(&environment).join("lib")).into_iter().flatten().flatten();
        let packages = versions.map(|version| version.path().join("site-packages/libucx/lib").join(NAME));
        candidates.extend(packages.filter(|path| path.exists()));
    }
    candidates
}

fn load(candidates: &[PathBuf]) -> Result<Library, Unavailable> {
    let mut reasons = Vec::new();
    for path in candidates {
        if let Err(error) = file::check_library(path) {
            reasons.push(format!("{}: {error}", path.display()));
            continue;
        }
        // SAFETY: a library of this name is UCX's or a replacement; loading it runs its initializers only.
        match unsafe { libloading::Library::new(path) } {
            Ok(library) => match open(library, path) {
                Ok(library) => return Ok(library),
                Err(Unavailable(reason)) => reasons.push(reason),
            },
            // The reason is the loader's, which names the file.
            Err(error) => {
                reasons.push(std::error::Error::source(&error).map_or(error.to_string(), |why| why.to_string()))
            }
        }
    }
    Err(Unavailable(format!("UCX cannot be loaded ({}); set {UCX_VARIABLE} to the path of {NAME}", reasons.join("; "))))
}

fn open(library: libloading::Library, path: &Path) -> Result<Library, Unavailable> {
    let unusable = |why: String| Unavailable(format!("{}: {why}", path.display()));
    // SAFETY: the library was found by UCX's name.
    let functions = unsafe { Functions::of(&library) }
        .map_err(|missing| unusable(format!("it has no `{missing}`; expected UCX {}.{} or later", API.0, API.1)))?;
    // SAFETY: the function has this type in UCX's headers. It is in libucs, which is loaded with libucp.
    let status_string = unsafe { library.get::<StatusString>("ucs_status_string") }.ok().map(|symbol| *symbol);
    let (mut major, mut minor, mut release) = (0, 0, 0);
    // SAFETY: writes three integers.
    unsafe { (functions.ucp_get_version)(&mut major, &mut minor, &mut release) };
    // SAFETY: returns a constant string.
    let version = unsafe { CStr::from_ptr((functions.ucp_get_version_string)()) }.to_string_lossy().into_owned();
    if major != API.0 || minor < API.1 {
        return Err(unusable(format!("UCX {version}, expected {}.{} or a later version of {}", API.0, API.1, API.0)));
    }
    // The code of the library stays: the context is used until the process ends.
    std::mem::forget(library);
    let (path, api, mark) = (path.to_owned(), (major, minor), ProcessMark::new());
    Ok(Library { functions, status_string, context: OnceLock::new(), path, version, api, mark })
}

impl Library {
    /// Returns the context, which the first call creates: UCX starts to use threads and files.
    pub(super) fn context(&self) -> Result<Context, Unavailable> {
        let unusable = |why| Unavailable(format!("{}: {why}", self.path.display()));
        self.context.get_or_init(|| self.create_context().map_err(unusable)).clone()
    }

    /// Creates the context, with the variables `UCX_*`.
    fn create_context(&self) -> Result<Context, String> {
        let ucx = &self.functions;
        let mut config = std::ptr::null_mut();
        // SAFETY: without a prefix and a file the variables are read; writes one pointer.
        let status = unsafe { (ucx.ucp_config_read)(std::ptr::null(), std::ptr::null(), &mut config) };
        self.check(status).map_err(|why| format!("UCX cannot read its variables: {why}"))?;
        let params = Params {
            field_mask: PARAM_FEATURES | PARAM_MT_WORKERS_SHARED,
            features: FEATURE_AM,
            request_size: 0,
            request_init: 0,
            request_cleanup: 0,
            tag_sender_mask: 0,
            mt_workers_shared: 1,
            rest: [0; _],
        };
        let mut context = std::ptr::null_mut();
        // SAFETY: parameters with the fields of the mask, and a configuration; writes one pointer.
        let status = unsafe { (ucx.ucp_init_version)(API.0, API.1, &params, config, &mut context) };
        // SAFETY: the configuration was read above, and is not used again.
        unsafe { (ucx.ucp_config_release)(config) };
        self.check(status)
            .map_err(|why| format!("UCX cannot be initialized: {why}; check UCX_TLS and UCX_NET_DEVICES"))?;
        Ok(Context { handle: context, supports_cuda: self.memory_types(context) >> MEMORY_TYPE_CUDA & 1 == 1 })
    }

    /// Returns a bit for each type of memory that a context supports; none if UCX cannot say.
    fn memory_types(&self, context: *mut std::ffi::c_void) -> u64 {
        let field_mask = CONTEXT_ATTR_MEMORY_TYPES;
        let mut attr = ContextAttr { field_mask, request_size: 0, thread_mode: 0, memory_types: 0, rest: [0; _] };
        // SAFETY: the context is valid; UCX writes the field of the mask.
        let status = unsafe { (self.functions.ucp_context_query)(context, &mut attr) };
        if status == OK { attr.memory_types } else { 0 }
    }

    /// Returns what UCX calls a status, as an error unless it is success.
    pub(super) fn check(&self, status: Status) -> Result<(), String> {
        match (status, self.status_string) {
            (OK, _) => Ok(()),
            // SAFETY: returns a string that is constant, or the same for all calls of this thread.
            (_, Some(text)) => Err(unsafe { CStr::from_ptr(text(status)) }.to_string_lossy().into_owned()),
            (_, None) => Err(format!("status {status}")),
        }
    }

    /// Returns the version and where it was found.
    pub(super) fn identity(&self) -> String {
        format!("UCX {} ({})", self.version, self.path.display())
    }

    /// Returns whether the library can report the transports of an endpoint.
    pub(super) fn reports_transports(&self) -> bool {
        self.api >= API_WITH_TRANSPORTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_of_the_variable_is_the_only_candidate() {
        let set = |name: &str| (name == UCX_VARIABLE).then(|| OsString::from("/nowhere/libucp.so.0"));
        assert_eq!(candidates(set), [Path::new("/nowhere/libucp.so.0")]);
        let Err(Unavailable(why)) = load(&candidates(set)) else { panic!("there is no such library") };
        assert!(why.contains("/nowhere/libucp.so.0") && why.contains(UCX_VARIABLE), "{why}");
        let hpcx = candidates(|name| (name == "HPCX_UCX_DIR").then(|| OsString::from("/hpcx")));
        assert_eq!(hpcx[..2], [Path::new(NAME), Path::new("/hpcx/lib/libucp.so.0")]);
    }

    #[test]
    fn pipe_is_no_library_and_nothing_waits_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("libucp.so.0");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from(0o600)).expect("a pipe");
        let Err(Unavailable(why)) = load(&[pipe]) else { panic!("a pipe is no library") };
        assert!(why.contains("libucp.so.0: expected a regular file, found a pipe"), "{why}");
    }

    #[test]
    fn another_library_is_no_ucx() {
        let Err(Unavailable(why)) = load(&["libm.so.6".into()]) else { panic!("libm is no UCX") };
        assert!(why.contains("libm.so.6: it has no `ucp_get_version`; expected UCX 1.13 or later"), "{why}");
    }
}
