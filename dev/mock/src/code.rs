//! Results of calls, as numbers, and their names.

use std::ffi::CStr;

use mscclpp_exec::cuda::DriverError;

/// A `CUresult`.
pub(crate) type Code = i32;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const INVALID_DEVICE: Code = 101;
pub(crate) const INVALID_IMAGE: Code = 200;
pub(crate) const INVALID_CONTEXT: Code = 201;
pub(crate) const INVALID_HANDLE: Code = 400;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const PEER_ACCESS_ALREADY_ENABLED: Code = 704;
pub(crate) const HOST_MEMORY_ALREADY_REGISTERED: Code = 712;
pub(crate) const HOST_MEMORY_NOT_REGISTERED: Code = 713;
pub(crate) const NOT_PERMITTED: Code = 800;
pub(crate) const NOT_SUPPORTED: Code = 801;
pub(crate) const STREAM_CAPTURE_MERGE: Code = 902;
pub(crate) const STREAM_CAPTURE_ISOLATION: Code = 905;
pub(crate) const CAPTURED_EVENT: Code = 907;
pub(crate) const UNKNOWN: Code = 999;

/// Names and descriptions, by code.
const TEXTS: [(Code, &CStr, &CStr); 23] = [
    (SUCCESS, c"CUDA_SUCCESS", c"no error"),
    (INVALID_VALUE, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument"),
    (2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory"),
    (INVALID_DEVICE, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal"),
    (INVALID_IMAGE, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid"),
    (INVALID_CONTEXT, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context"),
    (217, c"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", c"peer access is not supported between these two devices"),
    (INVALID_HANDLE, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle"),
    (NOT_FOUND, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found"),
    (NOT_READY, c"CUDA_ERROR_NOT_READY", c"device not ready"),
    (700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"),
    (PEER_ACCESS_ALREADY_ENABLED, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled"),
    (702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated"),
    (
        HOST_MEMORY_ALREADY_REGISTERED,
        c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        c"part or all of the requested memory range is already mapped",
    ),
    (
        HOST_MEMORY_NOT_REGISTERED,
        c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        c"pointer does not correspond to a registered memory region",
    ),
    (NOT_SUPPORTED, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported"),
    (NOT_PERMITTED, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted"),
    (900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing"),
    (901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture"),
    (STREAM_CAPTURE_MERGE, c"CUDA_ERROR_STREAM_CAPTURE_MERGE", c"operation would merge two captures"),
    (
        STREAM_CAPTURE_ISOLATION,
        c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        c"dependency on an event outside of the capture",
    ),
    (
        CAPTURED_EVENT,
        c"CUDA_ERROR_CAPTURED_EVENT",
        c"operation not permitted on an event last recorded in a capturing stream",
    ),
    (UNKNOWN, c"CUDA_ERROR_UNKNOWN", c"unknown error"),
];

/// Returns name and description of a code.
pub(crate) fn texts(code: Code) -> Option<(&'static CStr, &'static CStr)> {
    TEXTS.iter().find(|(known, ..)| *known == code).map(|(_, name, text)| (*name, *text))
}

/// Returns the code of a call without a result.
pub(crate) fn of(result: Result<(), Code>) -> Code {
    result.err().unwrap_or(SUCCESS)
}

/// Returns the code of the simulator's error, and prints the simulator's description, which a driver would not provide,
/// to standard error.
pub(crate) fn said(error: DriverError) -> Code {
    if error.code != UNKNOWN {
        eprintln!("{error}");
    }
    error.code
}
