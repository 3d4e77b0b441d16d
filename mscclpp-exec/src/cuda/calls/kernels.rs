//! Kernels.

use crate::cuda::driver::{Handle, Result};

/// Kernels, and launches of them.
pub trait Kernels {
    /// Loads kernels: those of a data type and accumulator, by their name, and their code: machine code for some devices, text,
    /// or both.
    ///
    /// # Errors
    /// Those of [`DriverError::is_of_an_image`](crate::cuda::DriverError::is_of_an_image) if nothing in it is for this device and
    /// driver; `CUDA_ERROR_OUT_OF_MEMORY`.
    fn load(&self, name: &str, image: &[u8]) -> Result<Handle>;

    /// Finds a kernel in a module, ready to be launched: the first launch loads nothing more, and so may be captured.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_FOUND` if there is none of this name.
    fn function(&self, module: Handle, name: &str) -> Result<Handle>;

    /// Unloads a module. None of its kernels is under way, nor will be in a graph.
    ///
    /// # Errors
    /// None but those of every call.
    fn unload(&self, module: Handle) -> Result<()>;

    /// Blocks of so many threads of a kernel that run at once on one multiprocessor: 0 if not even one does.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for no threads.
    fn blocks_per_multiprocessor(&self, function: Handle, threads: u32) -> Result<u32>;

    /// Launches a kernel with one argument, in the order of a stream. The argument may change as soon as this returns.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for no blocks or threads, or too many; `CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES` if not one block fits
    /// on a multiprocessor. What goes wrong in the kernel a later call says.
    ///
    /// # Safety
    /// The kernel takes one argument of `argument`'s bytes, and all memory that it reaches through it is there until it is done.
    unsafe fn launch(&self, function: Handle, blocks: u32, threads: u32, stream: Handle, argument: &[u8])
    -> Result<()>;
}
