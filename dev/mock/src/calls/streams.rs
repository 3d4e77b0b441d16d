//! Streams.

use std::ffi::{c_int, c_uint};

use mscclpp_exec::cuda::Handle;

use super::{ask, calls, valid};
use crate::code::{self, Code};
use crate::state::{self, called_here};

/// Flag of streams that do not synchronize with the default one.
const NON_BLOCKING: c_uint = 1;

/// The highest priority.
const GREATEST: c_int = -5;

calls! {
    fn cuStreamCreate(stream: *mut usize, flags: c_uint) -> stream {
        valid(flags == NON_BLOCKING)?;
        ask(|driver| driver.create_stream()).map(|stream| stream.0)
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        called_here("cuCtxGetStreamPriorityRange")?;
        // SAFETY: guaranteed by the caller.
        unsafe {
            least.write(0);
            greatest.write(GREATEST);
        }
        Ok(())
    }

    fn cuStreamCreateWithPriority(stream: *mut usize, flags: c_uint, priority: c_int) -> stream {
        valid(flags == NON_BLOCKING && priority == GREATEST)?;
        ask(|driver| driver.create_priority_stream()).map(|stream| stream.0)
    }

    fn cuStreamDestroy_v2(stream: usize) {
        state::store_now(Some(stream))?;
        ask(|driver| driver.destroy_stream(Handle(stream)))
    }

    fn cuStreamSynchronize(stream: usize) {
        ask(|driver| driver.synchronize(Handle(stream)))?;
        state::waited_for(Some(stream))
    }

    fn cuStreamQuery(stream: usize) {
        match ask(|driver| driver.is_idle(Handle(stream)))? {
            true => state::waited_for(Some(stream)),
            false => Err(code::NOT_READY),
        }
    }

    fn cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) {
        state::enqueue_on(stream)?;
        ask(|driver| driver.wait_event(Handle(stream), Handle(event)))
    }

    fn cuStreamWriteValue64_v2(stream: usize, address: u64, value: u64, flags: c_uint) {
        valid(flags == 0 && address.is_multiple_of(8))?;
        state::enqueue_on(stream)?;
        ask(|driver| driver.write_value(address, value, Handle(stream)))
    }
}
