//! The device of a thread, which the real NCCL takes for that of a new communicator.

use std::ptr;

use cudarc::driver::sys;
use mscclpp_exec::cuda::Device;

use crate::abi::Code;
use crate::entry::{Failure, Result};

fn check(function: &str, code: sys::CUresult) -> Result<()> {
    match code {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Failure::new(Code::UnhandledCudaError, format!("{function} returned {code:?}"))),
    }
}

/// Makes the primary context of a device current in this thread while a function runs.
///
/// # Errors
/// Those of the driver and of the function.
pub(super) fn with_device<R>(device: &Device, run: impl FnOnce() -> Result<R>) -> Result<R> {
    let (mut before, mut context) = (ptr::null_mut(), ptr::null_mut());
    let ordinal = device.ordinal() as sys::CUdevice;
    // SAFETY: the driver is loaded and initialized, since there is a device; both functions write a context.
    check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&raw mut before) })?;
    // SAFETY: as above. The device itself retains the context until the process ends.
    check("cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, ordinal) })?;
    // SAFETY: the context is retained.
    let result = check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context) }).and_then(|()| run());
    // SAFETY: the context that was current before, or none.
    let restored = check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(before) });
    // SAFETY: ends what this function has retained.
    let released = check("cuDevicePrimaryCtxRelease", unsafe { sys::cuDevicePrimaryCtxRelease_v2(ordinal) });
    result.and_then(|result| restored.and(released).map(|()| result))
}
