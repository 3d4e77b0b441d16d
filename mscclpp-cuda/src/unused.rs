//! Memory that is freed without a wait, because its owner has waited for all of its users.

use std::cell::Cell;

thread_local! {
    /// Number of [`Unused`] of this thread that are set.
    static UNUSED: Cell<u32> = const { Cell::new(0) };
}

/// The last field of a type whose destructor has waited for all users of the memory in the fields before it: these free it
/// without another wait, which would be one for all work of the device.
#[derive(Default)]
pub struct Unused(bool);

impl Unused {
    /// Begins to free memory that no work uses, until it is dropped by the same thread.
    pub fn begin() -> Self {
        let mut unused = Self::default();
        unused.set();
        unused
    }

    /// Does what [`begin`](Self::begin) does, in a destructor.
    pub fn set(&mut self) {
        if !std::mem::replace(&mut self.0, true) {
            UNUSED.set(UNUSED.get() + 1);
        }
    }

    /// Returns whether this thread frees memory that no work uses.
    pub(super) fn is_set() -> bool {
        UNUSED.get() > 0
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        if self.0 {
            UNUSED.set(UNUSED.get() - 1);
        }
    }
}
