//! What the operating system knows of this machine, and advice to it. Only Linux is asked; elsewhere nothing is known.

mod available;
#[allow(unsafe_code, reason = "the system takes addresses of memory")]
mod huge;
mod processor;

pub use available::available_memory;
pub(crate) use huge::prefer_huge_pages;
pub(crate) use processor::processor;

#[cfg(all(feature = "process", not(target_os = "linux")))]
compile_error!(
    "the feature `process` of mscclpp-exec needs Linux: use `default-features = false`, for ranks in one process"
);
