//! The tests of this crate's public API, in one program: each program links all of the crate.

mod exclusion;
mod local;
#[path = "../../mscclpp-exec/tests/common/port.rs"]
mod port;
mod recovery;
mod relay;
mod status;
mod strangers;
mod tcp;
