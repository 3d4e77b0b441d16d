//! Functions that cudarc's own types call and the executor does not: a program may use memory and streams of cudarc's.

#![allow(non_snake_case)]

use std::slice;

use mscclpp_exec::cuda::Handle;

use crate::calls::{ask, calls};
use crate::code::Code;

calls! {
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: usize) {
        // SAFETY: the caller's memory.
        let from = unsafe { slice::from_raw_parts(from, bytes) };
        ask(|driver| driver.synchronize(Handle(stream)).and_then(|()| driver.memcpy_to_device(to, from)))
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: usize, stream: usize) {
        // SAFETY: the caller's memory.
        let to = unsafe { slice::from_raw_parts_mut(to, bytes) };
        ask(|driver| driver.synchronize(Handle(stream)).and_then(|()| driver.memcpy_to_host(to, from)))
    }
}
