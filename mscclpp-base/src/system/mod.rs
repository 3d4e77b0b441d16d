//! What the operating system knows of this machine, and advice to it. Only Linux is asked; elsewhere nothing is known.

mod available;
mod clock;
mod control_group;
#[allow(unsafe_code, reason = "the system takes addresses of memory")]
mod huge;
pub mod limits;
mod processor;

pub use available::{AvailableMemory, available_memory};
#[cfg(feature = "process")]
pub use clock::coarse_time;
pub use clock::precise_time;
pub use control_group::ControlGroup;
pub use huge::prefer_huge_pages;
pub use limits::{ExceededLimit, SystemLimit};
pub use processor::processor;

#[cfg(all(feature = "process", not(target_os = "linux")))]
compile_error!(
    "the feature `process` of mscclpp needs Linux: use `default-features = false`, for ranks in one process"
);
