//! Kernels as threads of the operating system, from a library made of `sim/threads.cc`, `sim/dev_threads.h` and the
//! device code: for tools that observe threads. It has to be compiled for the tool in use, so a test builds it and then
//! loads it.

use std::ffi::{CString, c_char, c_void};
use std::path::Path;

use libloading::Library;

/// The functions of such a library, which stays loaded.
#[derive(Clone, Copy, Debug)]
pub struct ThreadedKernels {
    find: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_void,
    run: unsafe extern "C" fn(*const c_void, u32, u32, *const c_void),
}

impl PartialEq for ThreadedKernels {
    fn eq(&self, other: &Self) -> bool {
        self.run as usize == other.run as usize
    }
}

impl Eq for ThreadedKernels {}

impl ThreadedKernels {
    /// Loads a library.
    ///
    /// # Errors
    /// Those of the loader.
    ///
    /// # Safety
    /// The library was built from this crate's sources.
    pub unsafe fn load(path: &Path) -> Result<Self, String> {
        // SAFETY: its initialization has no effects.
        let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
        let text = |error: libloading::Error| error.to_string();
        // SAFETY: functions of `sim/threads.cc`, with their types.
        let functions = unsafe {
            Self {
                find: *library.get(b"threads_find\0").map_err(text)?,
                run: *library.get(b"threads_run\0").map_err(text)?,
            }
        };
        std::mem::forget(library);
        Ok(functions)
    }

    /// Returns a kernel of a module; null if there is none.
    pub(crate) fn find(self, module: &CString, kernel: &CString) -> *const c_void {
        // SAFETY: two texts that end with a zero.
        unsafe { (self.find)(module.as_ptr(), kernel.as_ptr()) }
    }

    /// Runs a launch to completion.
    ///
    /// # Safety
    /// As for [`Kernels::launch`](mscclpp_exec::cuda::calls::Kernels::launch); the kernel was returned by `find`.
    pub(crate) unsafe fn run(self, kernel: *const c_void, blocks: u32, threads: u32, argument: &[u64]) {
        // SAFETY: guaranteed by the caller.
        unsafe { (self.run)(kernel, blocks, threads, argument.as_ptr().cast()) }
    }
}
