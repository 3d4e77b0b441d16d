//! A device: its driver, the kernels that were loaded on it, memory and streams.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::abi;
use super::driver::{Handle, Properties, SharedDriver};
use super::images::{CAPABILITY, image};
use super::jit::{self, Cache, Module, Source};
use super::memory::DeviceMemory;
use super::real::{self, Cuda};
use super::unavailable::Unavailable;
use crate::dtype::DataType;
use crate::error::Error;
use crate::numeric::Accumulate;

/// A CUDA device. Cheap to clone; clones are the same device.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    driver: SharedDriver,
    /// Modules that were loaded; few, so a list does.
    kernels: Mutex<Vec<(DataType, Accumulate, Kernels)>>,
    /// Images that were compiled at run time.
    cache: Cache,
    /// Modules that were, by their source. They stay: work under way may use them.
    modules: Mutex<Vec<(Source, Module)>>,
}

/// The kernels of a type and accumulator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernels {
    module: Handle,
    pub(super) execute: Handle,
    pub(super) divide: Handle,
}

/// Number of CUDA devices.
///
/// # Errors
/// [`Unavailable`] if there is no driver, or none that works. Never panics.
pub fn device_count() -> Result<u32, Unavailable> {
    real::count()
}

impl Device {
    /// The device of a number, counted from 0.
    ///
    /// # Errors
    /// [`Unavailable`], also for devices before compute capability 8.0. Never panics.
    pub fn new(ordinal: u32) -> Result<Self, Unavailable> {
        let device = Self::with_driver(Arc::new(Cuda::new(ordinal)?));
        let Properties { name, capability, .. } = device.properties();
        if *capability < (8, 0) {
            return Err(Unavailable::TooOld { name: name.clone(), capability: *capability });
        }
        Ok(device)
    }

    /// A device behind another driver than CUDA's: a simulator.
    pub fn with_driver(driver: SharedDriver) -> Self {
        Self::with_cache(driver, Cache::from_environment())
    }

    /// The same, with a cache of its own for what is compiled at run time.
    pub fn with_cache(driver: SharedDriver, cache: Cache) -> Self {
        let (kernels, modules) = (Mutex::default(), Mutex::default());
        Self { inner: Arc::new(Inner { driver, kernels, cache, modules }) }
    }

    /// Kernels of a source: those that were loaded before, else compiled (or taken from the cache) and loaded. They stay
    /// loaded as long as the device is there.
    ///
    /// # Errors
    /// [`Error::Jit`] if there is no compiler, or the source does not compile; [`Error::Driver`].
    pub fn module(&self, source: &Source) -> Result<Module, Error> {
        let mut modules = self.inner.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, module)) = modules.iter().find(|(known, _)| known == source) {
            return Ok(module.clone());
        }
        let driver = self.driver();
        let image = jit::compile(driver.compiler()?, &self.inner.cache, source)?;
        let module = Module::new(driver.clone(), driver.load(source.name(), &image.code)?, image.log);
        modules.push((source.clone(), module.clone()));
        Ok(module)
    }

    /// What compiles for this device at run time.
    ///
    /// # Errors
    /// [`Error::Jit`] with the reason why there is nothing.
    pub fn compiler(&self) -> Result<&dyn jit::Compiler, Error> {
        Ok(self.driver().compiler()?)
    }

    /// Facts about it.
    pub fn properties(&self) -> &Properties {
        self.inner.driver.properties()
    }

    /// A new stream.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn stream(&self) -> Result<Stream, Error> {
        let handle = self.driver().create_stream()?;
        Ok(Stream { driver: self.driver().clone(), handle, owned: true })
    }

    pub(super) fn driver(&self) -> &SharedDriver {
        &self.inner.driver
    }

    /// The kernels of a type, loaded when they are first asked for.
    pub(super) fn kernels(&self, dtype: DataType, accumulate: Accumulate) -> Result<Kernels, Error> {
        let mut kernels = self.inner.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., found)) = kernels.iter().find(|(d, a, _)| (*d, *a) == (dtype, accumulate)) {
            return Ok(*found);
        }
        let driver = self.driver();
        let module = self.load_kernels(dtype, accumulate)?;
        let find = |name| driver.function(module, name);
        let open = || -> Result<Kernels, Error> {
            self.check_abi(find("mscclpp_abi")?)?;
            Ok(Kernels { module, execute: find("mscclpp_execute")?, divide: find("mscclpp_divide")? })
        };
        match open() {
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

    /// Loads the kernels that were built beforehand; or, on a device for which that is only text, those that NVRTC makes for
    /// exactly this device, if it can.
    fn load_kernels(&self, dtype: DataType, accumulate: Accumulate) -> Result<Handle, Error> {
        let (name, prebuilt) = image(dtype, accumulate).ok_or(Error::Accumulator { dtype, accumulate })?;
        let driver = self.driver();
        let exact = || -> Result<Handle, Error> {
            let source = Source::executor(dtype, accumulate).ok_or(Error::Accumulator { dtype, accumulate })?;
            let image = jit::compile(driver.compiler()?, &self.inner.cache, &source)?;
            Ok(driver.load(name, &image.code)?)
        };
        if self.properties().capability != CAPABILITY {
            match exact() {
                Ok(module) => return Ok(module),
                Err(error) => log::info!("{name}: left to the driver's compiler: {error}"),
            }
        }
        Ok(driver.load(name, prebuilt)?)
    }

    /// Asks the kernels what they believe about shared structs.
    fn check_abi(&self, function: Handle) -> Result<(), Error> {
        let driver = self.driver();
        let answer = DeviceMemory::zeroed(driver, 8)?;
        let stream = self.stream()?;
        // SAFETY: the kernel writes 8 bytes to the address that it gets, which are there until the stream is done.
        unsafe { driver.launch(function, 1, 1, stream.handle, &answer.address().to_le_bytes())? };
        stream.synchronize()?;
        let mut hash = [0; 8];
        driver.download(&mut hash, answer.address())?;
        let (expected, found) = (abi::HASH, u64::from_le_bytes(hash));
        if expected == found {
            return Ok(());
        }
        Err(Error::Internal(format!("kernels of another build: structs {found:#x}, expected {expected:#x}")))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for (.., kernels) in self.kernels.get_mut().unwrap_or_else(PoisonError::into_inner) {
            // A failure cannot be mended here.
            let _ = self.driver.unload(kernels.module);
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(self.properties()).finish()
    }
}

/// A queue of work on a device. What is put on it is done in that order, while the caller goes on.
pub struct Stream {
    driver: SharedDriver,
    pub(super) handle: Handle,
    owned: bool,
}

impl Stream {
    /// A stream that somebody else made, and gives back: `CUstream` of the driver's interface.
    ///
    /// # Safety
    /// It is a stream of this device's primary context and is there as long as the result is used.
    pub unsafe fn from_raw(device: &Device, stream: usize) -> Self {
        Self { driver: device.driver().clone(), handle: Handle(stream), owned: false }
    }

    /// Waits until everything on it is done. Says nothing about collectives that gave up: [`Run::synchronize`] does.
    ///
    /// [`Run::synchronize`]: super::Run::synchronize
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn synchronize(&self) -> Result<(), Error> {
        Ok(self.driver.synchronize(self.handle)?)
    }

    /// Records what `record` puts on this stream, instead of doing it.
    ///
    /// # Errors
    /// What `record` gives, and [`Error::Driver`].
    pub fn capture(&self, record: impl FnOnce(&Self) -> Result<(), Error>) -> Result<Graph, Error> {
        self.driver.begin_capture(self.handle)?;
        let recorded = record(self);
        let graph = self.driver.end_capture(self.handle).map(|handle| Graph { driver: self.driver.clone(), handle });
        recorded?;
        Ok(graph?)
    }

    /// Puts an event on it that keeps time.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn event(&self) -> Result<Event, Error> {
        let event = Event { driver: self.driver.clone(), handle: self.driver.create_event()? };
        self.driver.record(event.handle, self.handle)?;
        Ok(event)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned {
            // A failure cannot be mended here.
            let _ = self.driver.destroy_stream(self.handle);
        }
    }
}

/// Launches that were recorded. Holds no buffers: whoever launches it sees to it that they are still there.
pub struct Graph {
    driver: SharedDriver,
    handle: Handle,
}

impl Graph {
    /// Does what was recorded, in the order of a stream.
    ///
    /// # Errors
    /// [`Error::Driver`].
    ///
    /// # Safety
    /// All buffers and runs whose launches were recorded are still there, until the stream is done with it.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), Error> {
        Ok(self.driver.launch_graph(self.handle, stream.handle)?)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A failure cannot be mended here.
        let _ = self.driver.destroy_graph(self.handle);
    }
}

/// A point on a stream.
pub struct Event {
    driver: SharedDriver,
    handle: Handle,
}

impl Event {
    /// Microseconds from an earlier event to this one; both must be done.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn microseconds_since(&self, earlier: &Self) -> Result<f64, Error> {
        Ok(self.driver.elapsed_us(earlier.handle, self.handle)?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // A failure cannot be mended here.
        let _ = self.driver.destroy_event(self.handle);
    }
}
