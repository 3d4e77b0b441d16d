//! Kernels as threads of the operating system, from a library made of `sim/threads.cc`, `sim/dev_threads.h` and the device code:
//! for tools that watch threads. It has to be compiled for the tool at hand, so it is loaded when a test has made it.

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
    /// What the loader says.
    ///
    /// # Safety
    /// It was made of this crate's sources.
    pub unsafe fn load(path: &Path) -> Result<Self, String> {
        // SAFETY: it does nothing when it is loaded.
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

    /// A kernel of a module; null if there is none.
    pub(crate) fn find(self, module: &CString, kernel: &CString) -> *const c_void {
        // SAFETY: two texts that end with a zero.
        unsafe { (self.find)(module.as_ptr(), kernel.as_ptr()) }
    }

    /// Runs a launch to its end.
    ///
    /// # Safety
    /// As [`Kernels::launch`](mscclpp_exec::cuda::calls::Kernels::launch); the kernel is one that `find` found.
    pub(crate) unsafe fn run(self, kernel: *const c_void, blocks: u32, threads: u32, argument: &[u64]) {
        // SAFETY: as the caller promises.
        unsafe { (self.run)(kernel, blocks, threads, argument.as_ptr().cast()) }
    }
}
