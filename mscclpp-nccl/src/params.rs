//! The variables that the library reads, as NCCL's parameters.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi;
use crate::entry::{Failure, Result, check_pointer, keep_name};
use crate::forward;

/// A list of pointers to texts that never end.
#[repr(transparent)]
pub(crate) struct Key(*const c_char);

// SAFETY: the texts are constants.
unsafe impl Sync for Key {}

/// Variables of this library and of the jobs and executors below it.
const KEYS: [&CStr; 23] = [
    c"NCCL_DEBUG",
    c"NCCL_DEBUG_FILE",
    c"NCCL_NVLS_ENABLE",
    c"NCCL_PROFILER_PLUGIN",
    c"MSCCLPP_NCCL_VERSION",
    c"MSCCLPP_NCCL_LIB_PATH",
    c"MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION",
    c"MSCCLPP_ORDER",
    c"MSCCLPP_FORCE_DISABLE_NVLS",
    c"MSCCLPP_PLANS",
    c"MSCCLPP_PLANS_STRICT",
    c"MSCCLPP_CACHE_DIR",
    c"MSCCLPP_TIMEOUT",
    c"MSCCLPP_RENDEZVOUS_TIMEOUT",
    c"MSCCLPP_HEARTBEAT_TIMEOUT",
    c"MSCCLPP_FIRST_TRANSFER_WAIT",
    c"MSCCLPP_AUTHENTICATE_DATA",
    c"MSCCLPP_TRANSPORT",
    c"MSCCLPP_UCX",
    c"MSCCLPP_UCX_DEVICE_MEMORY",
    c"MSCCLPP_TUNING_TABLE",
    c"MSCCLPP_MACHINE",
    c"MSCCLPP_DUMP_DIR",
];

/// Returns the version that the library reports: that of `MSCCLPP_NCCL_VERSION`; or else that of the NCCL to which calls are
/// forwarded, but at most that of this library, which it is without forwarding.
///
/// # Errors
/// An invalid argument if `MSCCLPP_NCCL_VERSION` is no version.
pub(crate) fn version() -> Result<c_int> {
    let Some(text) = std::env::var("MSCCLPP_NCCL_VERSION").ok().filter(|text| !text.is_empty()) else {
        return Ok(forward::usable().map_or(abi::VERSION, |library| library.version().min(abi::VERSION)));
    };
    let invalid =
        || Failure::argument(format!("MSCCLPP_NCCL_VERSION={text}: expected a version such as 2.30.7 or 23007"));
    let parts: Vec<c_int> =
        text.trim().split('.').map(str::parse).collect::<std::result::Result<_, _>>().map_err(|_| invalid())?;
    match parts[..] {
        [code] if code > 0 => Ok(code),
        [major @ 2..100, minor @ 0..100, patch @ 0..100] => Ok(major * 10_000 + minor * 100 + patch),
        _ => Err(invalid()),
    }
}

/// Returns the line that `NCCL_DEBUG=VERSION` prints.
pub(crate) fn version_line() -> String {
    let reported = version().map_or_else(|failure| failure.text, forward::dotted);
    let forwarded = match forward::library() {
        None => "no forwarding".to_owned(),
        Some(Ok(library)) => format!("forwarding to {}", library.name()),
        Some(Err(failure)) => failure.text.clone(),
    };
    format!("NCCL version {reported} by mscclpp {}, {forwarded}", env!("CARGO_PKG_VERSION"))
}

/// Returns the name that a caller passes.
///
/// # Safety
/// A pointer that is not null must be a text that ends with a null byte.
pub(crate) unsafe fn key(at: *const c_char) -> Result<String> {
    check_pointer("key", at)?;
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

fn find(key: &str) -> Result<usize> {
    let at = KEYS.iter().position(|known| known.to_bytes() == key.as_bytes());
    at.ok_or_else(|| Failure::argument(format!("key: `{key}` is no variable that this library reads")))
}

/// Returns a handle of a variable.
pub(crate) fn bind(key: &str) -> Result<usize> {
    Ok(find(key)? + 1)
}

/// Returns the value of a variable; empty if it is not set.
pub(crate) fn value(key: &str) -> Result<&'static CStr> {
    find(key)?;
    Ok(keep_name(&std::env::var(key).unwrap_or_default()))
}

/// Returns the value of the variable of a handle.
pub(crate) fn text(handle: *mut c_void) -> Result<&'static CStr> {
    let key = (handle as usize).checked_sub(1).and_then(|at| KEYS.get(at));
    let key = key.ok_or_else(|| Failure::argument(format!("h is {handle:p}, no handle of ncclParamBind")))?;
    value(&key.to_string_lossy())
}

/// Returns the value of the variable of a handle as a number; 0 if it is not set.
pub(crate) fn number<T: TryFrom<i128>>(handle: *mut c_void) -> Result<T> {
    let text = text(handle)?.to_string_lossy();
    let number = if text.is_empty() { Some(0) } else { text.trim().parse::<i128>().ok() };
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| Failure::argument(format!("the value `{text}` is no number of this type")))
}

/// Returns the names of all variables.
pub(crate) fn keys() -> &'static [Key] {
    const POINTERS: [Key; KEYS.len()] = {
        let mut keys = [const { Key(std::ptr::null()) }; KEYS.len()];
        let mut at = 0;
        while at < keys.len() {
            keys[at] = Key(KEYS[at].as_ptr());
            at += 1;
        }
        keys
    };
    static TABLE: [Key; KEYS.len()] = POINTERS;
    &TABLE
}

/// Prints all variables and their values to standard output, as NCCL does.
pub(crate) fn dump() {
    for key in KEYS {
        let key = key.to_string_lossy();
        println!("{key}={}", std::env::var(&*key).unwrap_or_default());
    }
}
