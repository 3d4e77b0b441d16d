//! Copies between memories, and filling them with bytes.

use std::ffi::c_int;

use crate::driver;
use crate::error::{self, Code};
use crate::memory::{self, Kind};
use crate::runtime::runtime;

/// The default stream.
const DEFAULT: usize = 0;

/// Direction of a copy, with the values of `cudaMemcpyKind`.
const HOST_TO_HOST: c_int = 0;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;
/// Determined by the addresses.
const BY_ADDRESS: c_int = 4;

/// Enqueues a copy on a stream.
///
/// # Safety
/// Memory of the host must be valid for this number of bytes.
unsafe fn copy(to: u64, from: u64, bytes: usize, direction: c_int, stream: usize) -> Result<(), Code> {
    if bytes == 0 {
        return Ok(());
    }
    let is_device = |address| memory::kind(address) == Kind::Device;
    let direction = match direction {
        BY_ADDRESS => match (is_device(from), is_device(to)) {
            (false, false) => HOST_TO_HOST,
            (false, true) => HOST_TO_DEVICE,
            (true, false) => DEVICE_TO_HOST,
            (true, true) => DEVICE_TO_DEVICE,
        },
        direction => direction,
    };
    match direction {
        HOST_TO_HOST => {
            driver::cuStreamSynchronize(stream)?;
            // SAFETY: guaranteed by the caller.
            unsafe { (to as *mut u8).copy_from(from as *const u8, bytes) };
            Ok(())
        }
        // SAFETY: guaranteed by the caller.
        HOST_TO_DEVICE => unsafe { driver::cuMemcpyHtoDAsync_v2(to, from as *const u8, bytes, stream) },
        // SAFETY: guaranteed by the caller.
        DEVICE_TO_HOST => unsafe { driver::cuMemcpyDtoHAsync_v2(to as *mut u8, from, bytes, stream) },
        DEVICE_TO_DEVICE => driver::cuMemcpyAsync(to, from, bytes, stream),
        _ => Err(error::INVALID_VALUE),
    }
}

runtime! {
    fn cudaMemcpy(to: u64, from: u64, bytes: usize, direction: c_int) {
        // SAFETY: guaranteed by the caller.
        unsafe { copy(to, from, bytes, direction, DEFAULT) }?;
        driver::cuStreamSynchronize(DEFAULT)
    }

    fn cudaMemcpyAsync(to: u64, from: u64, bytes: usize, direction: c_int, stream: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { copy(to, from, bytes, direction, stream) }
    }

    fn cudaMemcpyPeerAsync(to: u64, _to_device: c_int, from: u64, _from_device: c_int, bytes: usize, stream: usize) {
        // SAFETY: memory of devices.
        unsafe { copy(to, from, bytes, DEVICE_TO_DEVICE, stream) }
    }

    fn cudaMemcpy2DAsync(
        to: u64,
        to_pitch: usize,
        from: u64,
        from_pitch: usize,
        width: usize,
        height: usize,
        direction: c_int,
        stream: usize,
    ) {
        if width > to_pitch || width > from_pitch {
            return Err(error::INVALID_VALUE);
        }
        let rows = if width == 0 { 0 } else { height };
        (0..rows).try_for_each(|row| {
            let [to, from] = [(to, to_pitch), (from, from_pitch)].map(|(first, pitch)| first + (row * pitch) as u64);
            // SAFETY: guaranteed by the caller.
            unsafe { copy(to, from, width, direction, stream) }
        })
    }

    fn cudaMemset(address: u64, value: c_int, bytes: usize) {
        if bytes == 0 {
            return Ok(());
        }
        driver::cuMemsetD8Async(address, value as u8, bytes, DEFAULT)?;
        driver::cuStreamSynchronize(DEFAULT)
    }

    fn cudaMemsetAsync(address: u64, value: c_int, bytes: usize, stream: usize) {
        if bytes == 0 { Ok(()) } else { driver::cuMemsetD8Async(address, value as u8, bytes, stream) }
    }
}
