//! Addresses of functions by their names, as bindings of other languages look them up.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_NOW};

use super::{calls, give_optional, valid};
use crate::code::{self, Code};

/// Results of a lookup.
const FOUND: c_int = 0;
const NOT_FOUND: c_int = 1;

/// Versions of a function, newest first: callers state the version of CUDA that they know, which is that of the driver here.
const SUFFIXES: [&str; 3] = ["_v3", "_v2", ""];

/// What the loader knows about an address.
#[repr(C)]
struct Info {
    file: *const c_char,
    file_base: *mut c_void,
    symbol: *const c_char,
    symbol_at: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(at: *const c_void, info: *mut Info) -> c_int;
}

/// Returns this library.
fn own_library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let open = || {
        let (null, at): (*mut c_void, _) = (std::ptr::null_mut(), cuGetProcAddress_v2 as *const c_void);
        let mut info = Info { file: null.cast(), file_base: null, symbol: null.cast(), symbol_at: null };
        // SAFETY: the address is one of a function, and the struct is that of the loader.
        if unsafe { dladdr(at, &raw mut info) } == 0 || info.file.is_null() {
            return None;
        }
        // SAFETY: the loader's text is valid as long as this library is loaded, which is loaded already.
        unsafe { Library::open(Some(CStr::from_ptr(info.file).to_str().ok()?), RTLD_NOW) }.ok()
    };
    LIBRARY.get_or_init(open).as_ref()
}

/// Returns the address of the newest version of a function.
fn find(name: &str) -> Option<*mut c_void> {
    // Functions of the C library are found as well.
    let name = Some(name).filter(|name| name.starts_with("cu"))?;
    SUFFIXES.iter().find_map(|suffix| {
        // SAFETY: only the address is taken.
        let found = unsafe { own_library()?.get::<*mut c_void>(format!("{name}{suffix}").as_bytes()) };
        found.ok().map(|found| found.into_raw()).filter(|at| !at.is_null())
    })
}

calls! {
    fn cuGetProcAddress_v2(name: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_int) {
        let _ = (version, flags);
        valid(!name.is_null() && !function.is_null())?;
        // SAFETY: callers pass a text.
        let found = unsafe { CStr::from_ptr(name) }.to_str().ok().and_then(find);
        // SAFETY: guaranteed by the caller.
        unsafe {
            function.write(found.unwrap_or(std::ptr::null_mut()));
            give_optional(status, if found.is_some() { FOUND } else { NOT_FOUND });
        }
        found.map(|_| ()).ok_or(code::NOT_FOUND)
    }
}
