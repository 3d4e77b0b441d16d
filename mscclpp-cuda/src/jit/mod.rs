//! Device code compiled at run time, with a cache.
//!
//! A [`Source`] is one translation unit: its text, macros, and headers, which always include those of the device code.
//! A device's [`Compiler`] turns it into an image for exactly that device: NVRTC, if its library is found. Images are
//! kept in a folder between processes ([`Cache`]) and, loaded, for as long as the device exists. Nothing is compiled
//! twice.
//!
//! NVRTC is searched under NVIDIA's names for it, or at the path in `MSCCLPP_NVRTC`. It needs no toolkit, no headers on
//! disk and no driver: one library of the toolkit, or of the wheel `nvidia-cuda-nvrtc`, is enough.

mod cache;
mod compiler;
mod nvrtc;
mod source;

pub use cache::{CACHE_VARIABLE, Cache};
pub use compiler::{Compiler, Image, compile};
pub use mscclpp_base::error::jit::JitError;
pub use nvrtc::{NVRTC_VARIABLE, Nvrtc};
pub use source::Source;
pub use source::type_names;
