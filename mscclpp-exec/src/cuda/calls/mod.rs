//! What a driver does, by what it is about: together the parts of a [`Driver`](super::Driver).
//!
//! Addresses are the device's, lengths are in bytes, devices are given by their number. Calls come from any thread, several at
//! once. What is put on a stream is done after what was put there before, and the call returns before it is; what other calls do
//! is done when they return.
//!
//! A call that fails says which function of the driver it was and its result. Any result that the driver has may come from any
//! call: of a device that is gone, or of a kernel that touched what is not there, after which all calls of the process fail with
//! `CUDA_ERROR_ILLEGAL_ADDRESS`. The sections on errors name what a caller without mistakes meets, and which mistakes are told.
//! What was given back may not be used again, whatever it is: what comes of that a driver does not say.
//!
//! A thread that captures a stream may not call what needs the device or the host at once: to allocate memory and to give it
//! back, to clear and to copy without a stream, to wait. Such a call is `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`, and the capture
//! is spoilt ([`DriverError::is_of_a_capture`](super::DriverError::is_of_a_capture)). If another library captures in CUDA's global
//! mode that is so in all threads, but for those that [`enter_helper_thread`](super::Driver::enter_helper_thread) entered.

mod events;
mod graphs;
mod kernels;
mod memory;
mod multicast;
mod sharing;
mod streams;

pub use self::events::Events;
pub use self::graphs::Graphs;
pub use self::kernels::Kernels;
pub use self::memory::Memory;
pub use self::multicast::Multicast;
pub use self::sharing::IpcMemory;
pub use self::streams::Streams;
