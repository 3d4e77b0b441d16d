//! Events.

use std::ffi::c_uint;

use crate::driver;
use crate::runtime::runtime;

runtime! {
    fn cudaEventCreate(event: *mut usize) -> event { driver::cuEventCreate(0) }

    fn cudaEventCreateWithFlags(event: *mut usize, flags: c_uint) -> event { driver::cuEventCreate(flags) }

    fn cudaEventDestroy(event: usize) { driver::cuEventDestroy_v2(event) }

    fn cudaEventRecord(event: usize, stream: usize) { driver::cuEventRecord(event, stream) }

    fn cudaEventRecordWithFlags(event: usize, stream: usize, flags: c_uint) {
        driver::cuEventRecordWithFlags(event, stream, flags)
    }

    fn cudaEventQuery(event: usize) { driver::cuEventQuery(event) }

    fn cudaEventSynchronize(event: usize) { driver::cuEventSynchronize(event) }

    fn cudaEventElapsedTime(milliseconds: *mut f32, start: usize, end: usize) -> milliseconds {
        driver::cuEventElapsedTime(start, end)
    }
}
