//! Kernels.

use crate::driver::{Handle, Result};
use crate::jit::Source;

/// Driver calls for kernels and their launches.
pub trait Kernels {
    /// Loads a module: the kernels of a data type and accumulator, with the module's name and its image, which is
    /// machine code for some devices, PTX, or both.
    ///
    /// # Errors
    /// Those of [`DriverError::is_image_error`](crate::driver::DriverError::is_image_error) if no part of it is for this
    /// device and driver; `CUDA_ERROR_OUT_OF_MEMORY`.
    fn load(&self, name: &str, image: &[u8]) -> Result<Handle>;

    /// Loads the image of a source that was compiled ahead of time.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    fn load_ahead_of_time(&self, source: &Source, image: &[u8]) -> Result<Handle> {
        self.load(source.name(), image)
    }

    /// Looks up a kernel in a module and loads it, so that its first launch loads nothing more and may be captured.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_FOUND` if there is no kernel of this name.
    fn function(&self, module: Handle, name: &str) -> Result<Handle>;

    /// Unloads a module. None of its kernels is pending or part of a graph that will be launched.
    ///
    /// # Errors
    /// Only those of every call.
    fn unload(&self, module: Handle) -> Result<()>;

    /// Returns how many blocks of a kernel with this number of threads are co-resident on one multiprocessor; 0 if not
    /// even one is.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for 0 threads.
    fn blocks_per_multiprocessor(&self, function: Handle, threads: u32) -> Result<u32>;

    /// Launches a kernel with one argument, in the order of a stream. The caller may change the argument as soon as
    /// this returns.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE` for 0 blocks or threads, or too many of them; `CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES` if
    /// not even one block fits on a multiprocessor. Errors of the kernel are reported by a later call.
    ///
    /// # Safety
    /// The kernel must take one argument of `argument`'s size, and all memory that it accesses through it must exist
    /// until it is complete.
    unsafe fn launch(&self, function: Handle, blocks: u32, threads: u32, stream: Handle, argument: &[u8])
    -> Result<()>;
}
