//! The driver's functions, by what they are about. Signatures are those of `cuda.h`, enumerations as integers.

#![allow(non_snake_case)]

mod addresses;
mod contexts;
mod copies;
mod devices;
mod errors;
mod events;
mod graphs;
mod interprocess;
mod kernels;
mod memory;
mod multicast;
mod physical;
mod streams;

use std::ffi::{c_int, c_uint};

use mscclpp_exec::cuda::{Driver, DriverError};

use crate::code::{self, Code, said};
use crate::state::{self, DEVICES};

/// Physical memory comes in units of so many bytes.
const UNIT: usize = 1 << 16;

/// A kind of handle that is exported.
const POSIX_FILE_DESCRIPTOR: c_uint = 1;

/// An error unless arguments are as they must be; also said to standard error, as some callers cannot make anything of it.
#[track_caller]
fn valid(are_right: bool) -> Result<(), Code> {
    if are_right {
        return Ok(());
    }
    eprintln!("{}: arguments that a driver refuses", std::panic::Location::caller());
    Err(code::INVALID_VALUE)
}

/// Stores what a call gives back.
///
/// # Safety
/// `at` may be written.
pub(crate) unsafe fn give<T>(at: *mut T, value: Result<T, Code>) -> Code {
    match value {
        Ok(value) => {
            // SAFETY: as the caller promises.
            unsafe { at.write(value) };
            code::SUCCESS
        }
        Err(code) => code,
    }
}

/// A call of the current context's simulator.
pub(crate) fn ask<T>(call: impl FnOnce(&dyn Driver) -> Result<T, DriverError>) -> Result<T, Code> {
    call(&*state::driver()?).map_err(said)
}

/// Checks a device's number.
fn ordinal(device: c_int) -> Result<usize, Code> {
    usize::try_from(device).ok().filter(|&device| device < DEVICES).ok_or(code::INVALID_DEVICE)
}

/// Defines functions of the driver; `-> at` says where the result goes.
macro_rules! calls {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $out:ident)? $body:block)*) => {$(
        /// # Safety
        /// As CUDA's driver: pointers are good for what the function does with them.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> Code {
            let result = || $body;
            calls!(@give $($out)? result())
        }
    )*};
    (@give $result:expr) => { $crate::code::of($result) };
    (@give $out:ident $result:expr) => {{
        let result = $result;
        // SAFETY: the caller's promise.
        unsafe { $crate::calls::give($out, result) }
    }};
}
pub(crate) use calls;
