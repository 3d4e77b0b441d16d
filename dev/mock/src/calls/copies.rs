//! Copies between memories, and clearing them.

use std::slice;

use mscclpp_exec::cuda::Handle;

use super::{ask, calls, valid};
use crate::code::Code;
use crate::{captures, pageable, pointers, state, streams};

/// Waits for a stream, if it has work.
fn finish(stream: usize) -> Result<(), Code> {
    if state::has_work(stream)? { ask(|driver| driver.synchronize(Handle(stream))) } else { Ok(()) }
}

/// Enqueues a copy between memories of devices and of the host.
fn copy(to: u64, from: u64, bytes: usize, stream: usize) -> Result<(), Code> {
    let stream = streams::resolve(stream)?;
    captures::count(stream)?;
    state::enqueue_on(stream)?;
    ask(|driver| driver.copy(to, from, bytes as u64, Handle(stream)))
}

calls! {
    fn cuMemsetD8Async(address: u64, value: u8, bytes: usize, stream: usize) {
        let stream = streams::resolve(stream)?;
        if value != 0 {
            captures::reject("cuMemsetD8Async", stream)?;
            finish(stream)?;
            return state::store_on(stream, address, &vec![value; bytes]);
        }
        captures::count(stream)?;
        state::enqueue_on(stream)?;
        ask(|driver| driver.memset_async(address, bytes as u64, Handle(stream)))
    }

    fn cuMemsetD32Async(address: u64, value: u32, count: usize, stream: usize) {
        let stream = streams::resolve(stream)?;
        captures::reject("cuMemsetD32Async", stream)?;
        finish(stream)?;
        state::store_on(stream, address, &value.to_ne_bytes().repeat(count))
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: usize) {
        valid(bytes > 0)?;
        let stream = streams::resolve(stream)?;
        captures::reject("cuMemcpyHtoDAsync", stream)?;
        finish(stream)?;
        // SAFETY: the caller's memory.
        let from = unsafe { slice::from_raw_parts(from, bytes) };
        state::store_on(stream, to, from)
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: usize, stream: usize) {
        valid(bytes > 0)?;
        let stream = streams::resolve(stream)?;
        captures::reject("cuMemcpyDtoHAsync", stream)?;
        let _exclusive = (!pointers::is_page_locked(to as u64)).then(pageable::Copy::begin);
        streams::order(stream)?;
        finish(stream)?;
        state::store_now(Some(stream))?;
        // SAFETY: the caller's memory.
        let to = unsafe { slice::from_raw_parts_mut(to, bytes) };
        ask(|driver| driver.memcpy_to_host(to, from))
    }

    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) { copy(to, from, bytes, stream) }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: usize) { copy(to, from, bytes, stream) }
}
