//! Kernels that were compiled at run time, loaded.

use std::fmt;
use std::sync::Arc;

use crate::cuda::driver::{Handle, SharedDriver};
use crate::cuda::stream::Stream;
use crate::error::Error;

/// A module of a device: kernels. Cheap to clone; unloaded with the last clone, and functions keep it.
#[derive(Clone)]
pub struct Module {
    loaded: Arc<Loaded>,
}

struct Loaded {
    driver: SharedDriver,
    handle: Handle,
    log: String,
}

impl Module {
    pub(in crate::cuda) fn new(driver: SharedDriver, handle: Handle, log: String) -> Self {
        Self { loaded: Arc::new(Loaded { driver, handle, log }) }
    }

    /// What the compiler said: registers, stack and spills of each kernel.
    pub fn log(&self) -> &str {
        &self.loaded.log
    }

    /// A kernel, by its name. Kernels are `extern "C"`: names of C++ are mangled.
    ///
    /// # Errors
    /// [`Error::Driver`] if there is no such kernel.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        let handle = self.loaded.driver.function(self.loaded.handle, name)?;
        Ok(Function { module: self.clone(), handle })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // A failure cannot be mended here.
        let _ = self.driver.unload(self.handle);
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Module").field(&self.loaded.handle).finish()
    }
}

/// A kernel of a [`Module`].
#[derive(Clone, Debug)]
pub struct Function {
    module: Module,
    pub(in crate::cuda) handle: Handle,
}

impl Function {
    /// Blocks of so many threads that run at once on the whole device.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn max_resident_blocks(&self, threads: u32) -> Result<u32, Error> {
        let driver = &self.module.loaded.driver;
        Ok(driver.blocks_per_multiprocessor(self.handle, threads)? * driver.properties().multiprocessors)
    }

    /// Puts a launch with one argument on a stream, and returns at once. The argument is a struct that host and device
    /// declare alike; it is copied before this returns.
    ///
    /// # Errors
    /// [`Error::NoStream`] if it is a stream of other devices; [`Error::Driver`].
    ///
    /// # Safety
    /// The kernel takes one argument of this layout. All memory that it reaches through it is there, and used by nobody else, until
    /// the stream is done with it; if the launch is captured, until the last launch of the graph is. Blocks that wait for one
    /// another all run at once: there are not more than [`max_resident_blocks`](Self::blocks_at_once).
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        blocks: u32,
        threads: u32,
        argument: &impl bytemuck::NoUninit,
    ) -> Result<(), Error> {
        let (driver, argument) = (&self.module.loaded.driver, bytemuck::bytes_of(argument));
        // SAFETY: the caller's promise.
        unsafe { driver.launch(self.handle, blocks, threads, stream.on(driver)?.handle(), argument)? };
        Ok(())
    }
}
