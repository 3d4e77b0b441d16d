//! The C++ side of the simulator: `sim/dev_sim.h` and `sim/memory.cc`.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};

/// Launch parameters of a coroutine, as in `dev_sim.h`.
#[repr(C)]
pub(crate) struct SimThread {
    pub(crate) thread: u32,
    pub(crate) threads: u32,
    pub(crate) block: u32,
    pub(crate) blocks: u32,
    pub(crate) stores: *mut c_void,
    pub(crate) shared: *const SimShared,
}

/// Number of variables of a block's shared memory that are found at once.
pub(crate) const NUM_SHARED: usize = 4;

/// The first variables of a block's shared memory, by the addresses that name them; as in `dev_sim.h`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct SimShared {
    pub(crate) names: [Cell<usize>; NUM_SHARED],
    pub(crate) places: [Cell<usize>; NUM_SHARED],
}

/// State of the kernels that run at once, the part that memory uses; as in `memory.cc`, which changes it.
#[repr(C)]
#[derive(Default)]
pub(crate) struct SimRun {
    /// State of a xorshift generator.
    pub(crate) random: Cell<u64>,
    pub(crate) stop_at_one_of: Cell<u32>,
    pub(crate) weak: Cell<bool>,
    pub(crate) records: Cell<bool>,
    /// Whether anything has changed that others may wait for, since this was last reset.
    pub(crate) progressed: Cell<bool>,
    /// Number of consecutive stops at waits, without any progress.
    pub(crate) waits: Cell<u64>,
    /// Number of stores that have not reached memory.
    pub(crate) waiting: Cell<u64>,
    /// Number of changes of the addresses that may be used.
    pub(crate) version: Cell<u64>,
    /// Number of threads that sleep.
    pub(crate) asleep: Cell<u64>,
    /// Number of changes of bytes by kernels.
    _changes: Cell<u64>,
}

impl SimRun {
    /// Returns a number below `bound` of the launch's seed.
    pub(crate) fn below(&self, bound: u32) -> u32 {
        let mut state = self.random.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.random.set(state);
        (((state >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// A load of a thread that waits; as in `stores.h`.
#[repr(C)]
pub(crate) struct SimPoll {
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    _value: [u8; 16],
}

/// A kernel, and the bytes of its argument; as in `dev_sim.h`.
#[repr(C)]
pub(crate) struct SimKernel {
    name: *const c_char,
    pub(crate) bytes: usize,
    run: *const c_void,
    pub(crate) has_all_threads: bool,
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
    functions: [*const c_void; 15],
}

// SAFETY: functions, which may be called from any thread.
unsafe impl Sync for SimHost {}

unsafe extern "C" {
    pub(crate) static sim_functions: SimHost;
    pub(crate) fn sim_new_stores(threads: u32) -> *mut c_void;
    pub(crate) fn sim_free_stores(stores: *mut c_void);
    pub(crate) fn sim_write_one(stores: *mut c_void) -> bool;
    pub(crate) fn sim_share_stores();
    pub(crate) fn sim_sees_change(stores: *mut c_void, thread: u32) -> bool;
    pub(crate) fn sim_enter_run(run: *const SimRun) -> *const SimRun;
    pub(crate) fn sim_enter(thread: *mut SimThread, kernel: *const c_void, argument: *const c_void);
    pub(crate) fn sim_resume(thread: *mut SimThread);
    pub(crate) fn sim_find(module: *const c_char, name: *const c_char) -> *const SimKernel;
}
