//! Streams.

use std::ffi::{c_int, c_uint};

use mscclpp_exec::cuda::Handle;
use mscclpp_exec::cuda::calls::Priority;

use super::{ask, calls, give_optional, valid};
use crate::code::{self, Code};
use crate::state::called_here;
use crate::{captures, state, streams};

/// Flag of streams that do not synchronize with the default one.
const NON_BLOCKING: c_uint = 1;

/// The highest priority.
const GREATEST: c_int = -5;

/// Creates a stream.
fn create(flags: c_uint, priority: c_int) -> Result<usize, Code> {
    valid(flags <= NON_BLOCKING && (GREATEST..=0).contains(&priority))?;
    let stream = match priority {
        0 => ask(|driver| driver.create_stream())?.0,
        GREATEST => ask(|driver| driver.create_priority_stream(Priority::Highest))?.0,
        _ => ask(|driver| driver.create_priority_stream(Priority::Second))?.0,
    };
    streams::add(stream, flags != NON_BLOCKING, priority)?;
    Ok(stream)
}

calls! {
    fn cuStreamCreate(stream: *mut usize, flags: c_uint) -> stream { create(flags, 0) }

    fn cuStreamCreateWithPriority(stream: *mut usize, flags: c_uint, priority: c_int) -> stream {
        create(flags, priority.clamp(GREATEST, 0))
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        called_here("cuCtxGetStreamPriorityRange")?;
        for (at, priority) in [(least, 0), (greatest, GREATEST)] {
            // SAFETY: the caller's pointers, or null.
            unsafe { give_optional(at, priority) };
        }
        Ok(())
    }

    fn cuStreamGetPriority(stream: usize, priority: *mut c_int) -> priority {
        streams::priority(streams::resolve(stream)?)
    }

    fn cuStreamGetId(stream: usize, id: *mut u64) -> id {
        let stream = streams::resolve(stream)?;
        ask(|driver| Ok(driver.stream_id(Handle(stream))))?.ok_or(code::NOT_SUPPORTED)
    }

    fn cuStreamGetCtx(stream: usize, context: *mut usize) -> context {
        streams::resolve(stream)?;
        Ok(state::context())
    }

    fn cuStreamDestroy_v2(stream: usize) {
        valid(stream > 2)?;
        state::store_now(Some(stream))?;
        streams::remove(stream)?;
        ask(|driver| driver.destroy_stream(Handle(stream)))
    }

    fn cuStreamSynchronize(stream: usize) {
        let stream = streams::resolve(stream)?;
        streams::order(stream)?;
        ask(|driver| driver.synchronize(Handle(stream)))?;
        state::waited_for(Some(stream))
    }

    fn cuStreamQuery(stream: usize) {
        let stream = streams::resolve(stream)?;
        match ask(|driver| driver.is_idle(Handle(stream)))? {
            true => state::waited_for(Some(stream)),
            false => Err(code::NOT_READY),
        }
    }

    fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        valid(flags <= 1)?;
        let stream = streams::resolve(stream)?;
        if flags == 1 {
            captures::count(stream)?;
            return ask(|driver| driver.wait_event_in_graph(Handle(stream), Handle(event)));
        }
        if captures::wait(stream, event)? {
            return Ok(());
        }
        state::enqueue_on(stream)?;
        ask(|driver| driver.wait_event(Handle(stream), Handle(event)))
    }

    fn cuStreamWriteValue64_v2(stream: usize, address: u64, value: u64, flags: c_uint) {
        valid(flags == 0 && address.is_multiple_of(8))?;
        let stream = streams::resolve(stream)?;
        captures::count(stream)?;
        state::enqueue_on(stream)?;
        ask(|driver| driver.write_value(address, value, Handle(stream)))
    }

    // Of the comparisons only that for at least a value.
    fn cuStreamWaitValue64_v2(stream: usize, address: u64, value: u64, flags: c_uint) {
        valid(flags == 0 && address.is_multiple_of(8))?;
        let stream = streams::resolve(stream)?;
        captures::count(stream)?;
        state::enqueue_on(stream)?;
        ask(|driver| driver.wait_value(address, value, Handle(stream)))
    }
}
