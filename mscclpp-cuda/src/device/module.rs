//! Loaded modules of kernels that were compiled at run time.

use std::fmt;
use std::sync::Arc;

use crate::device::stream::Stream;
use crate::driver::{Handle, SharedDriver};
use mscclpp_base::error::Error;

/// A module of a device: kernels. Cheap to clone; unloaded with the last clone, and functions keep it loaded.
///
/// `Send` and `Sync`: a loaded module does not change.
#[derive(Clone)]
pub struct Module {
    loaded: Arc<Loaded>,
}

static_assertions::assert_impl_all!(Module: Send, Sync);

struct Loaded {
    driver: SharedDriver,
    handle: Handle,
    log: String,
}

impl Module {
    pub(crate) fn new(driver: SharedDriver, handle: Handle, log: String) -> Self {
        Self { loaded: Arc::new(Loaded { driver, handle, log }) }
    }

    /// Returns the output of the compiler: registers, stack and spills of each kernel.
    #[doc(hidden)]
    pub fn log(&self) -> &str {
        &self.loaded.log
    }

    /// Returns a kernel by its name. Kernels are `extern "C"`: C++ would mangle their names.
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
        // A destructor cannot report a failure.
        let _ = self.driver.unload(self.handle);
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Module").field(&self.loaded.handle).finish()
    }
}

/// A kernel of a [`Module`].
///
/// `Send` and `Sync`, like its module.
#[derive(Clone, Debug)]
pub struct Function {
    module: Module,
    #[doc(hidden)]
    pub handle: Handle,
}

static_assertions::assert_impl_all!(Function: Send, Sync);

impl Function {
    /// Returns the number of co-resident blocks, with this number of threads each, of the whole device.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    pub fn max_resident_blocks(&self, threads: u32) -> Result<u32, Error> {
        let driver = &self.module.loaded.driver;
        Ok(driver.blocks_per_multiprocessor(self.handle, threads)? * driver.properties().multiprocessors)
    }

    /// Returns the driver's handle of the kernel, for launches by other code. It is valid as long as this exists.
    #[doc(hidden)]
    pub fn handle(&self) -> usize {
        self.handle.0
    }

    /// Enqueues a launch with one argument on a stream, and returns immediately. The argument is a struct that host and
    /// device declare with the same layout; it is copied before this returns.
    ///
    /// # Errors
    /// [`Error::StreamDeviceMismatch`] if it is a stream of other devices; [`Error::Driver`].
    ///
    /// # Safety
    /// The kernel must take one argument of this layout. All memory that it accesses through the argument must exist
    /// and not be used by other work until the stream has completed the launch; if the launch is captured, until the
    /// last launch of the graph is complete. Blocks that wait for one another must be co-resident: there are no more
    /// than [`max_resident_blocks`](Self::max_resident_blocks).
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        blocks: u32,
        threads: u32,
        argument: &impl bytemuck::NoUninit,
    ) -> Result<(), Error> {
        let (driver, argument) = (&self.module.loaded.driver, bytemuck::bytes_of(argument));
        // SAFETY: guaranteed by the caller.
        unsafe { driver.launch(self.handle, blocks, threads, stream.on(driver)?.handle(), argument)? };
        Ok(())
    }
}
