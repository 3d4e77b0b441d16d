//! Results of calls, and the last error of each thread.

use std::cell::Cell;
use std::ffi::{CStr, c_char};

/// A `cudaError_t`. The driver's results have the same numbers.
pub(crate) type Code = i32;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const INSUFFICIENT_DRIVER: Code = 35;
pub(crate) const INVALID_DEVICE_FUNCTION: Code = 98;
pub(crate) const INVALID_DEVICE: Code = 101;
pub(crate) const NOT_SUPPORTED: Code = 801;

/// Names and descriptions, by code.
const TEXTS: [(Code, &CStr, &CStr); 27] = [
    (SUCCESS, c"cudaSuccess", c"no error"),
    (INVALID_VALUE, c"cudaErrorInvalidValue", c"invalid argument"),
    (2, c"cudaErrorMemoryAllocation", c"out of memory"),
    (3, c"cudaErrorInitializationError", c"initialization error"),
    (INSUFFICIENT_DRIVER, c"cudaErrorInsufficientDriver", c"the mock driver libcuda.so.1 was not found or lacks functions"),
    (INVALID_DEVICE_FUNCTION, c"cudaErrorInvalidDeviceFunction", c"invalid device function"),
    (100, c"cudaErrorNoDevice", c"no CUDA-capable device is detected"),
    (INVALID_DEVICE, c"cudaErrorInvalidDevice", c"invalid device ordinal"),
    (200, c"cudaErrorInvalidKernelImage", c"device kernel image is invalid"),
    (201, c"cudaErrorDeviceUninitialized", c"invalid device context"),
    (217, c"cudaErrorPeerAccessUnsupported", c"peer access is not supported between these two devices"),
    (400, c"cudaErrorInvalidResourceHandle", c"invalid resource handle"),
    (500, c"cudaErrorSymbolNotFound", c"named symbol not found"),
    (600, c"cudaErrorNotReady", c"device not ready"),
    (700, c"cudaErrorIllegalAddress", c"an illegal memory access was encountered"),
    (702, c"cudaErrorLaunchTimeout", c"the launch timed out and was terminated"),
    (704, c"cudaErrorPeerAccessAlreadyEnabled", c"peer access is already enabled"),
    (712, c"cudaErrorHostMemoryAlreadyRegistered", c"part or all of the requested memory range is already mapped"),
    (713, c"cudaErrorHostMemoryNotRegistered", c"pointer does not correspond to a registered memory region"),
    (
        NOT_SUPPORTED,
        c"cudaErrorNotSupported",
        c"operation not supported on simulated devices (standard error describes it); compute on the CPU and copy the result",
    ),
    (900, c"cudaErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing"),
    (901, c"cudaErrorStreamCaptureInvalidated", c"operation failed due to a previous error during capture"),
    (902, c"cudaErrorStreamCaptureMerge", c"operation would merge two captures"),
    (905, c"cudaErrorStreamCaptureIsolation", c"dependency on an event outside of the capture"),
    (907, c"cudaErrorCapturedEvent", c"operation not permitted on an event last recorded in a capturing stream"),
    (908, c"cudaErrorStreamCaptureWrongThread", c"attempt to terminate a thread-local capture sequence from another thread"),
    (999, c"cudaErrorUnknown", c"unknown error"),
];

thread_local! {
    static LAST: Cell<Code> = const { Cell::new(SUCCESS) };
}

/// Returns the code of a call, and keeps it as the last error of the thread.
pub(crate) fn finish(result: Result<(), Code>) -> Code {
    match result {
        Ok(()) => SUCCESS,
        Err(code) => {
            LAST.set(code);
            code
        }
    }
}

/// Returns `Err` unless a code is that of success.
pub(crate) fn of(code: Code) -> Result<(), Code> {
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

fn texts(code: Code) -> (&'static CStr, &'static CStr) {
    let known = TEXTS.iter().find(|(known, ..)| *known == code);
    known.map_or((c"unrecognized error code", c"unrecognized error code"), |(_, name, text)| (*name, *text))
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetLastError() -> Code {
    LAST.replace(SUCCESS)
}

#[unsafe(no_mangle)]
extern "C" fn cudaPeekAtLastError() -> Code {
    LAST.get()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorName(code: Code) -> *const c_char {
    texts(code).0.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn cudaGetErrorString(code: Code) -> *const c_char {
    texts(code).1.as_ptr()
}
