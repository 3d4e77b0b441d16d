//! Copies between memories, and clearing them.

use std::slice;

use mscclpp_exec::cuda::Handle;

use super::{ask, calls, valid};
use crate::code::{self, Code};
use crate::state;

calls! {
    fn cuMemsetD8_v2(address: u64, value: u8, bytes: usize) {
        if value != 0 {
            return Err(code::INVALID_VALUE);
        }
        ask(|driver| driver.memset(address, bytes as u64))?;
        state::set_stores(true)
    }

    fn cuMemsetD8Async(address: u64, value: u8, bytes: usize, stream: usize) {
        if value != 0 {
            return Err(code::INVALID_VALUE);
        }
        ask(|driver| driver.memset_async(address, bytes as u64, Handle(stream)))
    }

    fn cuMemcpyHtoD_v2(to: u64, from: *const u8, bytes: usize) {
        valid(bytes > 0)?;
        // SAFETY: the caller's memory.
        let from = unsafe { slice::from_raw_parts(from, bytes) };
        ask(|driver| driver.memcpy_to_device(to, from))?;
        state::set_stores(true)
    }

    fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, bytes: usize) {
        valid(bytes > 0)?;
        // SAFETY: the caller's memory.
        let to = unsafe { slice::from_raw_parts_mut(to, bytes) };
        ask(|driver| driver.memcpy_to_host(to, from))?;
        state::set_stores(false)
    }

    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) {
        state::after_stores()?;
        ask(|driver| driver.copy(to, from, bytes as u64, Handle(stream)))
    }
}
