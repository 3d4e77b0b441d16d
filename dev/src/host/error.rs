//! Failed calls, with the driver's results.

use mscclpp_exec::cuda::DriverError;

pub(crate) type Result<T> = std::result::Result<T, DriverError>;

/// Results of the driver that the simulator returns.
#[derive(Clone, Copy)]
pub(crate) enum Code {
    InvalidValue = 1,
    OutOfMemory = 2,
    InvalidDevice = 101,
    InvalidContext = 201,
    NoBinary = 209,
    PeerAccessUnsupported = 217,
    InvalidHandle = 400,
    NotFound = 500,
    CaptureUnsupported = 900,
    CaptureInvalidated = 901,
    IllegalAddress = 700,
    LaunchTimeout = 702,
    Assert = 710,
    NotPermitted = 800,
    Unknown = 999,
}

pub(crate) fn error<T>(call: &'static str, code: Code, text: impl Into<String>) -> Result<T> {
    let name = match code {
        Code::InvalidValue => "CUDA_ERROR_INVALID_VALUE",
        Code::OutOfMemory => "CUDA_ERROR_OUT_OF_MEMORY",
        Code::InvalidDevice => "CUDA_ERROR_INVALID_DEVICE",
        Code::InvalidContext => "CUDA_ERROR_INVALID_CONTEXT",
        Code::PeerAccessUnsupported => "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        Code::NoBinary => "CUDA_ERROR_NO_BINARY_FOR_GPU",
        Code::InvalidHandle => "CUDA_ERROR_INVALID_HANDLE",
        Code::NotFound => "CUDA_ERROR_NOT_FOUND",
        Code::Assert => "CUDA_ERROR_ASSERT",
        Code::LaunchTimeout => "CUDA_ERROR_LAUNCH_TIMEOUT",
        Code::CaptureUnsupported => "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        Code::CaptureInvalidated => "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        Code::IllegalAddress => "CUDA_ERROR_ILLEGAL_ADDRESS",
        Code::NotPermitted => "CUDA_ERROR_NOT_PERMITTED",
        Code::Unknown => "CUDA_ERROR_UNKNOWN",
    };
    Err(DriverError { call, code: code as i32, name: name.into(), text: text.into() })
}
