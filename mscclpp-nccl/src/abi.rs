//! Types and constants of NCCL's header.

use std::ffi::{c_char, c_int, c_void};

use mscclpp_exec::DataType;

/// The version that [`ncclGetVersion`](crate::FUNCTIONS) reports unless `MSCCLPP_NCCL_VERSION` states another one: 2.30.7, the
/// last one all of whose functions for hosts are served here.
pub(crate) const VERSION: c_int = 23_007;

/// The header whose functions are exported: 2.32.3.
pub(crate) const HEADER: c_int = 23_203;

/// Magic number of versioned structs.
pub(crate) const MAGIC: u32 = 0xcafe_beef;

/// Value of a field that the caller leaves to the library.
pub(crate) const UNDEFINED: c_int = c_int::MIN;

/// Color of a rank that takes part in a split without a communicator of its own.
pub(crate) const NO_COLOR: c_int = -1;

/// Flag of a window whose offsets are the same on all ranks in each call.
pub(crate) const WINDOW_SYMMETRIC: c_int = 1;

/// All flags of windows.
pub(crate) const WINDOW_FLAGS: c_int = 0xf;

/// Alignment of windows.
pub(crate) const WINDOW_ALIGNMENT: u64 = 4096;

/// Flag of a shrink that ends pending calls first.
pub(crate) const SHRINK_ABORT: c_int = 1;

/// Handle of a communicator: a number that is no address.
pub(crate) type Handle = *mut c_void;

/// A `cudaStream_t`.
pub(crate) type StreamHandle = *mut c_void;

/// A job's address and secret.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UniqueId(pub(crate) [c_char; 128]);

/// Ranks of a team: `rank` is this one's number among `num_ranks` ranks of the communicator that are `stride` apart.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Team {
    pub(crate) num_ranks: c_int,
    pub(crate) rank: c_int,
    pub(crate) stride: c_int,
}

/// A result code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Success = 0,
    UnhandledCudaError = 1,
    SystemError = 2,
    InternalError = 3,
    InvalidArgument = 4,
    InvalidUsage = 5,
    RemoteError = 6,
    InProgress = 7,
    Timeout = 8,
}

impl Code {
    /// Returns the code of a number; an internal error for one that NCCL does not document.
    pub(crate) const fn from_number(number: c_int) -> Self {
        match number {
            0 => Self::Success,
            1 => Self::UnhandledCudaError,
            2 => Self::SystemError,
            4 => Self::InvalidArgument,
            5 => Self::InvalidUsage,
            6 => Self::RemoteError,
            7 => Self::InProgress,
            8 => Self::Timeout,
            _ => Self::InternalError,
        }
    }
}

/// The texts of [`ncclGetErrorString`](crate::FUNCTIONS), by code.
pub(crate) const TEXTS: [&std::ffi::CStr; 9] = [
    c"no error",
    c"unhandled cuda error: the CUDA driver reported a failure (ncclGetLastError has its text)",
    c"unhandled system error: the operating system reported a failure (ncclGetLastError has its text)",
    c"internal error: report it, with the text of ncclGetLastError",
    c"invalid argument (ncclGetLastError names it)",
    c"invalid usage (ncclGetLastError names the call)",
    c"remote process exited or failed (ncclGetLastError names the rank)",
    c"operation in progress",
    c"timeout (ncclGetLastError names the rank that was waited for)",
];

/// Returns the data type of a number.
pub(crate) fn data_type(number: c_int) -> Option<DataType> {
    use DataType::{BF16, F8E4M3, F8E5M2, F16, F32, F64, I8, I32, I64, U8, U32, U64};
    let types = [I8, U8, I32, U32, I64, U64, F16, F32, F64, BF16, F8E4M3, F8E5M2];
    types.get(usize::try_from(number).ok()?).copied()
}
