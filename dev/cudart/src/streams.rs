//! Streams.

use std::ffi::{c_int, c_uint};

use crate::driver;
use crate::runtime::runtime;

runtime! {
    fn cudaStreamCreate(stream: *mut usize) -> stream { driver::cuStreamCreateWithPriority(0, 0) }

    fn cudaStreamCreateWithFlags(stream: *mut usize, flags: c_uint) -> stream {
        driver::cuStreamCreateWithPriority(flags, 0)
    }

    fn cudaStreamCreateWithPriority(stream: *mut usize, flags: c_uint, priority: c_int) -> stream {
        driver::cuStreamCreateWithPriority(flags, priority)
    }

    fn cudaStreamGetPriority(stream: usize, priority: *mut c_int) -> priority { driver::cuStreamGetPriority(stream) }

    fn cudaStreamDestroy(stream: usize) { driver::cuStreamDestroy_v2(stream) }

    fn cudaStreamSynchronize(stream: usize) { driver::cuStreamSynchronize(stream) }

    fn cudaStreamQuery(stream: usize) { driver::cuStreamQuery(stream) }

    fn cudaStreamWaitEvent(stream: usize, event: usize, flags: c_uint) { driver::cuStreamWaitEvent(stream, event, flags) }
}
