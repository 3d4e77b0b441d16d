//! Events.

use cudarc::driver::result::{self, DriverError as Cudarc};
use cudarc::driver::sys;

use super::{Cuda, named, stream};
use crate::driver::calls::Events;
use crate::driver::{Handle, Result};

fn event(handle: Handle) -> sys::CUevent {
    handle.0 as sys::CUevent
}

impl Cuda {
    fn create_with(&self, flags: sys::CUevent_flags) -> Result<Handle> {
        let _current = self.enter()?;
        named("cuEventCreate", result::event::create(flags)).map(|event| Handle(event as usize))
    }
}

impl Events for Cuda {
    fn create_event(&self) -> Result<Handle> {
        self.create_with(sys::CUevent_flags::CU_EVENT_DEFAULT)
    }

    fn create_untimed_event(&self) -> Result<Handle> {
        self.create_with(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
    }

    fn record(&self, handle: Handle, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's event and stream.
        named("cuEventRecord", unsafe { result::event::record(event(handle), stream(on)) })
    }

    fn wait_event(&self, on: Handle, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the caller's event and stream.
        named("cuStreamWaitEvent", unsafe { result::stream::wait_event(stream(on), event(handle), flags) })
    }

    fn record_in_graph(&self, handle: Handle, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        let flags = sys::CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32;
        // SAFETY: the caller's event and stream.
        named("cuEventRecordWithFlags", unsafe {
            sys::cuEventRecordWithFlags(event(handle), stream(on), flags).result()
        })
    }

    fn wait_event_in_graph(&self, on: Handle, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_EXTERNAL;
        // SAFETY: the caller's event and stream.
        named("cuStreamWaitEvent", unsafe { result::stream::wait_event(stream(on), event(handle), flags) })
    }

    fn is_done(&self, handle: Handle) -> Result<bool> {
        let _current = self.enter()?;
        // SAFETY: the caller's event.
        match unsafe { result::event::query(event(handle)) } {
            Err(Cudarc(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            done => named("cuEventQuery", done).map(|()| true),
        }
    }

    fn elapsed_us(&self, from: Handle, to: Handle) -> Result<f64> {
        let _current = self.enter()?;
        type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
        let mut milliseconds = 0_f32;
        // Not the second version of the function, the only one that cudarc declares: drivers before CUDA 12.8 lack it.
        // SAFETY: looked up with the type that the driver declares.
        let elapsed = match unsafe { sys::culib().get::<Elapsed>(b"cuEventElapsedTime\0") } {
            // SAFETY: it writes one number, and the events are the caller's.
            Ok(elapsed) => unsafe { elapsed(&mut milliseconds, event(from), event(to)) },
            Err(_) => sys::CUresult::CUDA_ERROR_NOT_FOUND,
        };
        named("cuEventElapsedTime", elapsed.result()).map(|()| f64::from(milliseconds) * 1e3)
    }

    fn destroy_event(&self, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner passes the event to be destroyed.
        named("cuEventDestroy", unsafe { result::event::destroy(event(handle)) })
    }
}
