//! The C++ side of the simulator: `sim/dev_sim.h` and `sim/memory.cc`.

use std::ffi::{CStr, c_char, c_void};

/// Launch parameters of a coroutine, as in `dev_sim.h`.
#[repr(C)]
pub(crate) struct SimThread {
    pub(crate) thread: u32,
    pub(crate) threads: u32,
    pub(crate) block: u32,
    pub(crate) blocks: u32,
    pub(crate) stores: *mut c_void,
    pub(crate) shared: *mut c_void,
}

/// A kernel, and the bytes of its argument; as in `dev_sim.h`.
#[repr(C)]
pub(crate) struct SimKernel {
    name: *const c_char,
    pub(crate) bytes: usize,
    run: *const c_void,
}

impl SimKernel {
    /// Returns its name; `None` for the entry after the last one of a table.
    ///
    /// # Safety
    /// The library that it is in is loaded.
    pub(crate) unsafe fn name(&self) -> Option<&CStr> {
        // SAFETY: null, or a text of that library.
        (!self.name.is_null()).then(|| unsafe { CStr::from_ptr(self.name) })
    }
}

/// Functions that loaded kernels call in this program, as in `dev_sim.h`.
#[repr(C)]
pub(crate) struct SimHost {
    functions: [*const c_void; 13],
}

// SAFETY: functions, which may be called from any thread.
unsafe impl Sync for SimHost {}

unsafe extern "C" {
    pub(crate) static sim_functions: SimHost;
    pub(crate) fn sim_new_stores(threads: u32) -> *mut c_void;
    pub(crate) fn sim_free_stores(stores: *mut c_void);
    pub(crate) fn sim_waiting_stores(stores: *mut c_void) -> usize;
    pub(crate) fn sim_write_one(stores: *mut c_void) -> bool;
    pub(crate) fn sim_share_stores();
    pub(crate) fn sim_enter(thread: *mut SimThread, kernel: *const c_void, argument: *const c_void);
    pub(crate) fn sim_resume(thread: *mut SimThread);
    pub(crate) fn sim_find(module: *const c_char, name: *const c_char) -> *const SimKernel;
}
