//! The boundary to C: results, texts of errors, panics.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use mscclpp_bootstrap::place;
use mscclpp_select::defaults;

use crate::abi::Code;
pub(crate) use crate::failure::{Failure, Result, panicked};
use crate::{debug, open_group};

/// Number of different errors whose texts are kept.
const MAX_ERRORS: usize = 4096;

thread_local! {
    static LAST: Cell<Option<&'static CStr>> = const { Cell::new(None) };
}

/// Texts that stay valid until the process ends, because callers have pointers to them.
struct Kept(Mutex<BTreeSet<&'static CStr>>);

impl Kept {
    const fn new() -> Self {
        Self(Mutex::new(BTreeSet::new()))
    }

    /// Returns the kept text; none if it is a new one and there are `max`.
    fn keep(&self, text: &str, max: usize) -> Option<&'static CStr> {
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        let mut texts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = texts.get(text.as_c_str()) {
            return Some(kept);
        }
        if texts.len() >= max {
            return None;
        }
        let kept: &'static CStr = Box::leak(text.into_boxed_c_str());
        texts.insert(kept);
        Some(kept)
    }
}

/// Returns the text of an error, which stays valid until the process ends.
pub(crate) fn keep_error(text: &str) -> &'static CStr {
    static ERRORS: Kept = Kept::new();
    let too_many = c"too many different errors to keep their texts; NCCL_DEBUG=WARN prints all of them";
    ERRORS.keep(text, MAX_ERRORS).unwrap_or(too_many)
}

/// Returns a name or a setting, which stays valid until the process ends: programs have few.
pub(crate) fn keep_name(name: &str) -> &'static CStr {
    static NAMES: Kept = Kept::new();
    NAMES.keep(name, usize::MAX).unwrap_or_default()
}

/// Returns the text of the last error of this thread.
pub(crate) fn last_error() -> &'static CStr {
    LAST.get().unwrap_or(c"")
}

/// Records a failure of this thread, and returns its code.
pub(crate) fn fail(function: &str, failure: &Failure) -> c_int {
    if failure.code == Code::InProgress {
        return failure.code as c_int;
    }
    record(function, &failure.text);
    failure.code as c_int
}

/// Records why a function has failed in this thread.
pub(crate) fn record(function: &str, text: &str) {
    let text = format!("{function}: {text}");
    LAST.set(Some(keep_error(&text)));
    debug::warn(&text);
}

/// Makes a call of C: failures become codes, panics internal errors.
pub(crate) fn call(function: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    if let Err(failure) = check_not_in_callback() {
        return fail(function, &failure);
    }
    // Messages name the function, as the program's source is not known.
    let _name = place::enter_name(function);
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    match open_group::note(result) {
        Ok(()) => Code::Success as c_int,
        Err(failure) => fail(function, &failure),
    }
}

thread_local! {
    /// Whether this thread is in a function of the program that launches kernels.
    static IS_LAUNCHING: Cell<bool> = const { Cell::new(false) };
}

/// Refuses calls of this thread until the result is dropped: a function of the program launches kernels, and its communicator serves no
/// other call meanwhile.
pub(crate) fn enter_launch() -> Launching {
    Launching(IS_LAUNCHING.replace(true))
}

/// See [`enter_launch`]; it has what was before.
pub(crate) struct Launching(bool);

impl Drop for Launching {
    fn drop(&mut self) {
        IS_LAUNCHING.set(self.0);
    }
}

/// Checks that no function of the program that serves another call makes this one.
///
/// # Errors
/// An invalid usage.
pub(crate) fn check_not_in_callback() -> Result<()> {
    if defaults::is_in_selector() {
        return Err(Failure::usage(
            "a selector made this call, for which it would wait itself: decide by its arguments",
        ));
    }
    if IS_LAUNCHING.get() {
        return Err(Failure::usage(
            "a function of mscclppRegisterKernels made this call, for which it would wait itself: make it before the calls that its \
             kernels serve",
        ));
    }
    Ok(())
}

/// Writes a result.
///
/// # Errors
/// An invalid argument if the pointer is null or not aligned.
///
/// # Safety
/// A pointer that is neither must be valid for writes.
pub(crate) unsafe fn write<T>(name: &str, at: *mut T, value: T) -> Result<()> {
    check_pointer(name, at)?;
    // SAFETY: guaranteed by the caller.
    unsafe { at.write(value) };
    Ok(())
}

/// Checks a pointer of the caller's.
///
/// # Errors
/// An invalid argument if it is null or not aligned.
pub(crate) fn check_pointer<T>(name: &str, at: *const T) -> Result<()> {
    if at.is_null() {
        return Err(Failure::argument(format!("{name} is null")));
    }
    match at.is_aligned() {
        true => Ok(()),
        false => {
            let align = align_of::<T>();
            Err(Failure::argument(format!("{name} is {at:p}, expected a multiple of {align} bytes")))
        }
    }
}
