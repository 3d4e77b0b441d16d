//! Streams.

use cudarc::driver::result::{self, DriverError as Cudarc};
use cudarc::driver::sys;

use super::{Cuda, functions, named, stream};
use crate::driver::calls::{Priority, Streams};
use crate::driver::{Handle, Result};

impl Streams for Cuda {
    fn create_stream(&self) -> Result<Handle> {
        let _current = self.enter()?;
        let created = result::stream::create(result::stream::StreamKind::NonBlocking);
        named("cuStreamCreate", created).map(|stream| Handle(stream as usize))
    }

    fn create_priority_stream(&self, priority: Priority) -> Result<Handle> {
        let _current = self.enter()?;
        // A lower number is a higher priority; a device without priorities has one number.
        let (lowest, highest) = named("cuCtxGetStreamPriorityRange", result::stream::get_priority_range())?;
        let number = match priority {
            Priority::Highest => highest,
            Priority::Second => lowest.min(highest.saturating_add(1)),
        };
        let created = result::stream::create_with_priority(result::stream::StreamKind::NonBlocking, number);
        named("cuStreamCreateWithPriority", created).map(|stream| Handle(stream as usize))
    }

    fn destroy_stream(&self, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner passes the stream to be destroyed.
        named("cuStreamDestroy", unsafe { result::stream::destroy(stream(handle)) })
    }

    fn synchronize(&self, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's stream.
        named("cuStreamSynchronize", unsafe { result::stream::synchronize(stream(handle)) })
    }

    fn stream_id(&self, handle: Handle) -> Option<u64> {
        if !functions::has_stream_ids() {
            return None;
        }
        let (_current, mut id) = (self.enter().ok()?, 0);
        // SAFETY: the caller's stream; writes an integer.
        unsafe { sys::cuStreamGetId(stream(handle), &mut id) }.result().ok().map(|()| id)
    }

    fn is_idle(&self, handle: Handle) -> Result<bool> {
        let _current = self.enter()?;
        // SAFETY: the caller's stream.
        match unsafe { sys::cuStreamQuery(stream(handle)) }.result() {
            Err(Cudarc(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            done => named("cuStreamQuery", done).map(|()| true),
        }
    }

    fn copy(&self, to: u64, from: u64, bytes: u64, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory and stream.
        named("cuMemcpyAsync", unsafe { sys::cuMemcpyAsync(to, from, bytes as usize, stream(on)) }.result())
    }

    fn memset_async(&self, address: u64, bytes: u64, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory and stream.
        named("cuMemsetD8Async", unsafe { result::memset_d8_async(address, 0, bytes as usize, stream(on)) })
    }

    fn write_value(&self, address: u64, value: u64, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory and stream.
        named("cuStreamWriteValue64", unsafe { sys::cuStreamWriteValue64_v2(stream(on), address, value, 0) }.result())
    }

    fn wait_value(&self, address: u64, value: u64, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        let at_least = sys::CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ as u32;
        // SAFETY: the caller's memory and stream.
        let waits = unsafe { sys::cuStreamWaitValue64_v2(stream(on), address, value, at_least) };
        named("cuStreamWaitValue64", waits.result())
    }
}
