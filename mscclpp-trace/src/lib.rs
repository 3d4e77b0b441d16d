//! Traces: what the thread blocks of a job executed over time, in logical steps or microseconds.
//!
//! * [`Trace`] is made by the checks (an abstract execution), by the timing model (a prediction), and from files that a real
//!   run has written ([`EventReader`]).
//! * Its `Serialize` writes the event format of Chrome's and Perfetto's viewers.
//! * [`Trace::page`] is a self-contained page in HTML: thread blocks over time, what waits for what, what each chunk holds, and the use
//!   of links. Equal traces have equal pages.

#![forbid(unsafe_code)]

mod chrome;
mod memory;
mod page;
mod read;
mod trace;

pub use memory::{Cell, Change, Content, Memory};
pub use read::{EventReader, ReadError};
pub use trace::{Arrow, Class, Lane, LinkUse, Slice, Trace, Unit};
