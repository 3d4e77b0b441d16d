//! The driver's functions, one module per subject. Signatures are those of `cuda.h`, enumerations as integers.

#![allow(non_snake_case)]

mod addresses;
mod contexts;
mod copies;
mod devices;
mod entry_points;
mod errors;
mod events;
mod graphs;
mod interprocess;
mod kernels;
mod memory;
mod multicast;
mod nvml;
mod nvrtc;
mod others;
mod physical;
mod streams;

use std::ffi::{c_int, c_uint};

use mscclpp_exec::cuda::{Driver, DriverError};

use crate::code::{self, Code, said};
use crate::state;

/// Granularity of physical memory in bytes.
const UNIT: usize = 1 << 16;

/// Handle type of an export as a file descriptor.
const POSIX_FILE_DESCRIPTOR: c_uint = 1;

/// Handle type of an export to the hosts of a fabric.
const FABRIC: c_uint = 8;

/// Checks the types of handles with which something is created on the current device: files, or also the handles of its
/// fabric. Returns whether these are among them.
fn check_handle_types(types: c_uint) -> Result<bool, Code> {
    valid(types == POSIX_FILE_DESCRIPTOR || types == POSIX_FILE_DESCRIPTOR | FABRIC)?;
    let has_fabric = types & FABRIC != 0;
    if has_fabric && !state::can_export_to_fabric(state::current()?) {
        return Err(code::NOT_PERMITTED);
    }
    Ok(has_fabric)
}

/// Returns an error unless arguments are valid; the error is also printed to standard error, as some callers cannot
/// interpret it.
#[track_caller]
fn valid(are_right: bool) -> Result<(), Code> {
    if are_right {
        return Ok(());
    }
    eprintln!("{}: arguments that a driver refuses", std::panic::Location::caller());
    Err(code::INVALID_VALUE)
}

/// Stores the result of a call.
///
/// # Safety
/// `at` must be valid for writes.
pub(crate) unsafe fn give<T>(at: *mut T, value: Result<T, Code>) -> Code {
    match value {
        Ok(value) => {
            // SAFETY: guaranteed by the caller.
            unsafe { at.write(value) };
            code::SUCCESS
        }
        Err(code) => code,
    }
}

/// Stores an optional result of a call.
///
/// # Safety
/// `at` must be null or valid for writes.
unsafe fn give_optional<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { at.write(value) };
    }
}

/// Calls the simulator of the current context.
pub(crate) fn ask<T>(call: impl FnOnce(&dyn Driver) -> Result<T, DriverError>) -> Result<T, Code> {
    call(&*state::driver()?).map_err(said)
}

/// Checks a device's number.
fn ordinal(device: c_int) -> Result<usize, Code> {
    usize::try_from(device).ok().filter(|&device| device < state::count()).ok_or(code::INVALID_DEVICE)
}

/// Defines functions of the driver; `-> at` names the pointer to the result.
macro_rules! calls {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $out:ident)? $body:block)*) => {$(
        /// # Safety
        /// As in CUDA's driver: pointers must be valid for the function's use of them.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> Code {
            $crate::pageable::wait(stringify!($name));
            let result = || $body;
            calls!(@give $($out)? result())
        }
    )*};
    (@give $result:expr) => { $crate::code::of($result) };
    (@give $out:ident $result:expr) => {{
        let result = $result;
        // SAFETY: guaranteed by the caller.
        unsafe { $crate::calls::give($out, result) }
    }};
}
pub(crate) use calls;
