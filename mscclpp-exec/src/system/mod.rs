//! What the operating system knows of this machine, and advice to it. Only Linux is asked; elsewhere nothing is known.

mod available;
#[cfg(feature = "process")]
mod clock;
mod control_group;
#[allow(unsafe_code, reason = "the system takes addresses of memory")]
mod huge;
pub(crate) mod limits;
mod processor;

pub use available::{AvailableMemory, available_memory};
#[cfg(feature = "process")]
pub(crate) use clock::coarse_time;
pub use control_group::ControlGroup;
pub(crate) use huge::prefer_huge_pages;
pub use limits::{ExceededLimit, SystemLimit};
pub(crate) use processor::processor;

#[cfg(all(feature = "process", not(target_os = "linux")))]
compile_error!(
    "the feature `process` of mscclpp-exec needs Linux: use `default-features = false`, for ranks in one process"
);
