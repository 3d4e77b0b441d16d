//! The calls of a driver, one trait per subject: the supertraits of [`Driver`](super::Driver).
//!
//! Addresses are the device's, lengths are in bytes, devices are given by their number. Any thread may call, several at
//! once. Work that is enqueued on a stream is executed after the work enqueued there before, and the call returns
//! before the work is complete; the effects of other calls are complete when they return.
//!
//! A failed call reports the driver's function and its result. Any result of the driver may come from any call: of a
//! device that is lost, or of a kernel that accessed an invalid address, after which all calls of the process fail with
//! `CUDA_ERROR_ILLEGAL_ADDRESS`. The sections on errors list the results that a correct caller can get, and which
//! mistakes are reported. An object that was freed or destroyed may not be used again; the driver does not specify the
//! consequences.
//!
//! A thread that captures a stream may not make calls that need the device or the host immediately: allocating and
//! freeing memory, clearing and copying without a stream, loading modules, waiting. Such a call fails with
//! `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` and invalidates the capture
//! ([`DriverError::is_capture_error`](super::DriverError::is_capture_error)). If another library captures in CUDA's
//! global mode, this applies to all threads. A thread may make these calls even so in
//! [relaxed mode](super::CaptureMode::Relaxed) ([`Graphs::exchange_capture_mode`]), except waits for a captured stream or
//! for a device that has one.

mod addresses;
mod events;
mod graphs;
mod kernels;
mod memory;
mod multicast;
mod sharing;
mod streams;

pub use self::addresses::Addresses;
pub use self::events::Events;
pub use self::graphs::Graphs;
pub use self::kernels::Kernels;
pub use self::memory::Memory;
pub use self::multicast::Multicast;
pub use self::sharing::IpcMemory;
pub use self::streams::{Priority, Streams};
