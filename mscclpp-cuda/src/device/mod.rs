//! A device: its driver, its streams, and the kernels that are loaded on it.

mod background;
mod module;
pub mod stream;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi;
use crate::driver::calls::Priority;
use crate::driver::{Handle, Peer, Properties, SharedDriver};
use crate::free_counters::FreeCounters;
use crate::images;
use crate::jit::{self, Cache, Image, Source};
use crate::libcuda::{self, Cuda};
use crate::slice::DeviceSlice;
use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_base::error::unavailable::CudaUnavailable;
use mscclpp_base::numeric::AccumType;

pub use self::background::Compilation;
pub use self::module::{Function, Module};
use self::stream::Stream;

/// A CUDA device. Cheap to clone; clones are the same device.
///
/// `Send` and `Sync`: the driver may be called from any thread, and the tables of loaded kernels are locked.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

static_assertions::assert_impl_all!(Device: Send, Sync);

struct Inner {
    driver: SharedDriver,
    /// Kernels that are loaded; few, so that a list suffices.
    kernels: Mutex<Vec<(DataType, AccumType, Kernels)>>,
    /// Cache of images that are compiled at run time.
    cache: Cache,
    /// Loaded modules that were compiled at run time, by their source. They stay loaded: pending work may use them.
    modules: Mutex<Vec<(Source, Module)>>,
    counters: Mutex<FreeCounters>,
}

/// The kernels of a type and accumulator.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// Module to unload with the device; none if it is one of the modules that were compiled at run time.
    module: Option<Handle>,
    pub execute: Handle,
    pub divide: Handle,
}

/// Returns the number of CUDA devices.
///
/// # Errors
/// [`CudaUnavailable`] if there is no driver, or it does not work. Never panics.
pub fn device_count() -> Result<u32, CudaUnavailable> {
    libcuda::count()
}

/// Returns the number of the device whose context is current in this thread, as `cudaSetDevice` makes it; none without a
/// context.
///
/// # Errors
/// As [`device_count`].
pub fn current_device() -> Result<Option<u32>, CudaUnavailable> {
    libcuda::current()
}

impl Device {
    /// Opens the device with this number, counted from 0.
    ///
    /// # Errors
    /// [`CudaUnavailable`], also for devices before compute capability 8.0. Never panics.
    pub fn new(ordinal: u32) -> Result<Self, CudaUnavailable> {
        let device = Self::with_driver(Arc::new(Cuda::new(ordinal)?));
        let Properties { name, capability, .. } = device.properties();
        if *capability < (8, 0) {
            return Err(CudaUnavailable::TooOld { name: name.clone(), capability: *capability });
        }
        Ok(device)
    }

    /// Opens a device of another driver than CUDA's, such as a simulator.
    #[doc(hidden)]
    pub fn with_driver(driver: SharedDriver) -> Self {
        Self::with_cache(driver, Cache::from_environment())
    }

    /// Opens a device of another driver, with a separate cache for what is compiled at run time.
    #[doc(hidden)]
    pub fn with_cache(driver: SharedDriver, cache: Cache) -> Self {
        let (kernels, modules, counters) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { inner: Arc::new(Inner { driver, kernels, cache, modules, counters }) }
    }

    /// Returns the kernels of a source, which the first call compiles (or reads from the cache) and loads. They stay
    /// loaded as long as the device exists.
    ///
    /// # Errors
    /// [`Error::Jit`] if there is no compiler, or the source does not compile; [`Error::Driver`].
    pub fn module(&self, source: &Source) -> Result<Module, Error> {
        let mut modules = self.inner.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, module)) = modules.iter().find(|(known, _)| known == source) {
            return Ok(module.clone());
        }
        let image = jit::compile(self.driver().compiler()?, &self.inner.cache, source)?;
        self.load(&mut modules, source, image)
    }

    /// Compiles a source in the background, unless the cache has its image.
    #[doc(hidden)]
    pub fn compile_later(&self, source: Source) -> Compilation {
        Compilation::start(self.driver(), &self.inner.cache, source)
    }

    /// Does what [`module`](Self::module) does, with an image that was compiled in the background.
    #[doc(hidden)]
    pub fn compiled_module(&self, source: &Source, image: &Image) -> Result<Module, Error> {
        let mut modules = self.inner.modules.lock().unwrap_or_else(PoisonError::into_inner);
        match modules.iter().find(|(known, _)| known == source) {
            Some((_, module)) => Ok(module.clone()),
            None => self.load(&mut modules, source, image.clone()),
        }
    }

    /// Loads the image of a source that was compiled ahead of time, and returns its kernel.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver does not take the image, or it has no such kernel; nothing stays loaded then.
    #[doc(hidden)]
    pub fn ahead_of_time(&self, source: &Source, kernel: &str) -> Result<Option<Function>, Error> {
        #[cfg(feature = "images")]
        if let Some(image) = crate::ahead_of_time::find(source, self.properties()) {
            let mut modules = self.inner.modules.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, module)) = modules.iter().find(|(known, _)| known == source) {
                return module.function(kernel).map(Some);
            }
            let driver = self.driver();
            let module = Module::new(driver.clone(), driver.load_ahead_of_time(source, image)?, String::new());
            let function = module.function(kernel)?;
            modules.push((source.clone(), module));
            return Ok(Some(function));
        }
        _ = (source, kernel);
        Ok(None)
    }

    fn load(&self, modules: &mut Vec<(Source, Module)>, source: &Source, image: Image) -> Result<Module, Error> {
        let driver = self.driver();
        let module = Module::new(driver.clone(), driver.load(source.name(), &image.code)?, image.log);
        modules.push((source.clone(), module.clone()));
        Ok(module)
    }

    /// Returns the compiler for this device.
    ///
    /// # Errors
    /// [`Error::Jit`] with the reason why there is none.
    #[doc(hidden)]
    pub fn compiler(&self) -> Result<&dyn jit::Compiler, Error> {
        Ok(self.driver().compiler()?)
    }

    /// Returns the properties of the device.
    pub fn properties(&self) -> &Properties {
        self.inner.driver.properties()
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn stream(&self) -> Result<Stream, Error> {
        Stream::new(self)
    }

    /// Creates a stream of the highest priority: for work that work on other streams waits for. Streams of one priority may
    /// share a queue of the device.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    pub fn priority_stream(&self) -> Result<Stream, Error> {
        Stream::with_priority(self, Priority::Highest)
    }

    /// Creates a stream for transfers for which streams of callers wait, and which may wait for work on streams of the highest priority.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    pub fn transfer_stream(&self) -> Result<Stream, Error> {
        Stream::with_priority(self, Priority::Second)
    }

    /// Returns whether the device supports multicast objects, with which one store reaches all devices of a switch and
    /// one load combines their values. Switch channels use them if all of their members are on such devices
    /// (`exec::cuda::SwitchPath`). `NCCL_NVLS_ENABLE=0` and `MSCCLPP_FORCE_DISABLE_NVLS=1` forbid them.
    pub fn is_nvls_supported(&self) -> bool {
        self.properties().multicast
    }

    /// Returns the other devices that this process sees, and whether this one can access their memory.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    pub fn peers(&self) -> Result<Vec<Peer>, Error> {
        Ok(self.driver().peers()?)
    }

    /// Returns whether both ends of memory, which is not empty, are in allocations that the driver knows.
    #[doc(hidden)]
    pub fn is_allocated(&self, memory: DeviceSlice) -> bool {
        let ends = [Some(memory.address), memory.address.checked_add(memory.bytes.saturating_sub(1))];
        ends.into_iter().all(|end| end.is_some_and(|address| self.driver().allocation(address).is_ok()))
    }

    /// Returns the number of the device, counted from 0.
    pub fn ordinal(&self) -> u32 {
        self.properties().ordinal
    }

    /// Returns whether both are the same device, whether opened once or several times.
    #[doc(hidden)]
    pub fn is_same(&self, other: &Self) -> bool {
        self.properties().uuid == other.properties().uuid
    }

    /// Describes the device for messages.
    #[doc(hidden)]
    pub fn label(&self) -> String {
        self.properties().label()
    }

    #[doc(hidden)]
    pub fn driver(&self) -> &SharedDriver {
        &self.inner.driver
    }

    pub(super) fn counters(&self) -> MutexGuard<'_, FreeCounters> {
        self.inner.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the kernels of a type; the first call loads them.
    #[doc(hidden)]
    pub fn kernels(&self, dtype: DataType, accumulate: AccumType) -> Result<Kernels, Error> {
        let mut kernels = self.inner.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., found)) = kernels.iter().find(|(d, a, _)| (*d, *a) == (dtype, accumulate)) {
            return Ok(*found);
        }
        let driver = self.driver();
        let module = self.load_kernels(dtype, accumulate)?;
        match self.open_kernels(Some(module), |name| Ok(driver.function(module, name)?)) {
            Ok(loaded) => {
                kernels.push((dtype, accumulate, loaded));
                Ok(loaded)
            }
            Err(error) => {
                driver.unload(module)?;
                Err(error)
            }
        }
    }

    /// Replaces the interpreter's kernels for a type by those of a source, in plans that are prepared from now on; for
    /// measurements.
    ///
    /// # Errors
    /// Those of [`module`](Self::module), also if a kernel is missing; [`Error::Internal`] if they were built with
    /// other shared structs.
    ///
    /// # Safety
    /// The kernels must have the names and arguments of those of [`Source::executor`], and access either the same
    /// memory in the same order or memory that exists as long as the device.
    #[doc(hidden)]
    pub unsafe fn replace_kernels(&self, dtype: DataType, accumulate: AccumType, source: &Source) -> Result<(), Error> {
        let module = self.module(source)?;
        let opened = self.open_kernels(None, |name| Ok(module.function(name)?.handle))?;
        let mut kernels = self.inner.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        // Inserted before the loaded kernels, which stay: prepared plans may use them.
        kernels.insert(0, (dtype, accumulate, opened));
        Ok(())
    }

    /// Looks up the kernels of a loaded module.
    fn open_kernels(
        &self,
        module: Option<Handle>,
        find: impl Fn(&str) -> Result<Handle, Error>,
    ) -> Result<Kernels, Error> {
        let name = abi::kernel_name();
        find(&name).map_err(|error| match error {
            Error::Driver(error) if error.is_missing() => {
                Error::Internal(format!("kernels of another build: expected `{name}` among them: {error}"))
            }
            error => error,
        })?;
        Ok(Kernels { module, execute: find("mscclpp_execute")?, divide: find("mscclpp_divide")? })
    }

    /// Loads the first kernels that the driver accepts: prebuilt machine code, of the latest toolkit first; where there is none for the
    /// device, what NVRTC compiles for exactly this device; prebuilt PTX; and at last what NVRTC compiles if all of these were refused.
    fn load_kernels(&self, dtype: DataType, accumulate: AccumType) -> Result<Handle, Error> {
        let unsupported = || Error::UnsupportedAccumulator { dtype, accumulate };
        let name = images::name(dtype, accumulate).ok_or_else(unsupported)?;
        let (driver, properties) = (self.driver(), self.properties());
        let prebuilt = images::accepted(name, properties.driver, properties.capability);
        let compiled = || -> Result<Handle, Error> {
            let source = Source::executor(dtype, accumulate).ok_or_else(unsupported)?;
            let image = jit::compile(driver.compiler()?, &self.inner.cache, &source)?;
            Ok(driver.load(name, &image.code)?)
        };
        let mut none = None;
        if !prebuilt.first().is_some_and(|images| images.have_code_for(properties.capability)) {
            match compiled() {
                Ok(module) => return Ok(module),
                Err(error) => {
                    log::info!("{name}: left to the driver's compiler: {error}");
                    none = Some(error);
                }
            }
        }
        let mut refused = None;
        for images in prebuilt {
            match driver.load(name, images.find(name).unwrap_or_default()) {
                Err(error) if error.is_image_error() => {
                    log::info!("{name}: the driver refuses what toolkit {} has built: {error}", images.toolkit);
                    refused = Some(Box::new(error));
                }
                loaded => return Ok(loaded?),
            }
        }
        let none = match none.map_or_else(compiled, Err) {
            Ok(module) => return Ok(module),
            Err(error) => error.to_string(),
        };
        Err(CudaUnavailable::Kernels { device: self.label(), kernels: name, driver: properties.driver, refused, none }
            .into())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let kernels = self.kernels.get_mut().unwrap_or_else(PoisonError::into_inner);
        for module in kernels.iter().filter_map(|(.., kernels)| kernels.module) {
            // A destructor cannot report a failure.
            let _ = self.driver.unload(module);
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(self.properties()).finish()
    }
}
