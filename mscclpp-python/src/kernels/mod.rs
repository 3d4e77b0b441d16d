//! Custom kernels: CUDA source that is compiled at run time, and launched on memory that callers name by address.
//!
//! Kernels are not checked: whoever launches one guarantees that it accesses existing memory only.

mod channels;
mod regions;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use mscclpp_exec::Error;
use mscclpp_exec::cuda::Device;
use mscclpp_exec::cuda::Stream;
use mscclpp_exec::cuda::jit::{Cache, Function, Module, Nvrtc, Source, compile};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

pub(crate) use self::channels::KernelChannels;
pub(crate) use self::regions::{KernelRegions, KernelWindow};
use crate::address::{device, failed};
use crate::failure::Failure;

/// Bytes of the argument that the driver may read: no kernel has a longer one.
const MAX_ARGUMENT_BYTES: usize = 32 << 10;

/// Name of the operation in failures.
const COMPILE: &str = "compile_native";

/// Devices on which kernels were loaded. They are kept until the process ends: launches may be pending when Python drops a kernel.
static DEVICES: Mutex<BTreeMap<u32, Device>> = Mutex::new(BTreeMap::new());

/// A text and its name, as pairs of Python.
type Texts = Vec<(String, String)>;

fn source(name: &str, text: &str, headers: Texts, defines: Texts) -> Source {
    let source = headers.into_iter().fold(Source::new(name, text), |source, (name, text)| source.header(name, text));
    defines.into_iter().fold(source, |source, (name, value)| source.define(name, value))
}

/// Compiles a source for devices of a compute capability, which this machine need not have. Returns the image and the output of the
/// compiler. `headers` and `defines` are pairs of a name and a text.
///
/// Raises `Error` if NVRTC is missing, or with its messages.
#[pyfunction]
pub(crate) fn compile_image<'py>(
    py: Python<'py>,
    name: &str,
    text: &str,
    headers: Texts,
    defines: Texts,
    capability: (u32, u32),
) -> PyResult<(Bound<'py, PyBytes>, String)> {
    let source = source(name, text, headers, defines);
    let made = py.detach(|| compile(&Nvrtc::new(capability)?, &Cache::from_environment(), &source));
    let image = made.map_err(|error| Failure::from(Error::from(error)))?;
    Ok((PyBytes::new(py, &image.code), image.log))
}

/// Kernels that are loaded on the current device.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct KernelModule {
    device: Device,
    module: Module,
}

#[pymethods]
impl KernelModule {
    /// Compiles a source for the current device and loads it; an image in the cache is not compiled again.
    ///
    /// Raises `UnsupportedError` on a machine without devices, `Error` if NVRTC is missing, or with its messages.
    #[new]
    fn new(py: Python<'_>, name: &str, text: &str, headers: Texts, defines: Texts) -> PyResult<Self> {
        let Some(device) = device()? else {
            let message = "expected a CUDA device, found none: kernels run on devices; compile for a device of another machine with \
                           `capability`";
            return Err(Failure::of_kind("unsupported", COMPILE, message.into()).into());
        };
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        let device = devices.entry(device.ordinal()).or_insert(device).clone();
        drop(devices);
        let source = source(name, text, headers, defines);
        let module = py.detach(|| device.module(&source)).map_err(failed)?;
        Ok(Self { device, module })
    }

    /// The output of the compiler: registers, stack and spills of each kernel.
    #[getter]
    fn log(&self) -> &str {
        self.module.log()
    }

    /// The number of the device.
    #[getter]
    fn device(&self) -> u32 {
        self.device.ordinal()
    }

    /// Returns a kernel, which is `extern "C"`. Raises `Error` if there is none of this name.
    fn function(&self, name: &str) -> PyResult<Kernel> {
        let function = self.module.function(name).map_err(failed)?;
        Ok(Kernel { device: self.device.clone(), function, name: name.to_owned() })
    }
}

/// A kernel of a module.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct Kernel {
    device: Device,
    function: Function,
    name: String,
}

#[pymethods]
impl Kernel {
    /// The name of the kernel.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The driver's handle of the kernel, for launches by code of the host. It is valid as long as this object exists.
    #[getter]
    fn handle(&self) -> usize {
        self.function.handle()
    }

    /// Returns the number of thread blocks of `threads` threads that the device can run at the same time.
    fn max_resident_blocks(&self, threads: u32) -> PyResult<u32> {
        self.check_threads(threads)?;
        self.function.max_resident_blocks(threads).map_err(failed)
    }

    /// Enqueues a launch on a stream of the device; 0 is the default stream. `argument`: the bytes of the kernel's one argument.
    ///
    /// The caller guarantees that the argument has the layout that the kernel declares, that the memory that the kernel accesses exists until
    /// the launch is complete, and that `stream` is 0 or a stream of the device. Raises `InvalidInputError` for numbers of blocks and threads
    /// that no device has, and for an argument that is longer than that of any kernel.
    fn launch(&self, py: Python<'_>, stream: usize, blocks: u32, threads: u32, argument: &[u8]) -> PyResult<()> {
        self.check_threads(threads)?;
        if blocks == 0 || i32::try_from(blocks).is_err() {
            return Err(self.invalid(format!("expected 1 to {} thread blocks, found {blocks}", i32::MAX)).into());
        }
        let mut padded = [0_u8; MAX_ARGUMENT_BYTES];
        let Some(to) = padded.get_mut(..argument.len()) else {
            let found = argument.len();
            return Err(self
                .invalid(format!("expected an argument of at most {MAX_ARGUMENT_BYTES} bytes, found {found}"))
                .into());
        };
        to.copy_from_slice(argument);
        let launch = || {
            // SAFETY: callers pass 0 or a stream of the device, in its primary context, which exists during the call.
            let stream = unsafe { Stream::from_raw(&self.device, stream) };
            // SAFETY: the driver reads no more than the longest argument of a kernel, which `padded` has; callers guarantee what the kernel
            // accesses through it.
            unsafe { self.function.launch(&stream, blocks, threads, &padded) }
        };
        py.detach(launch).map_err(failed)
    }
}

impl Kernel {
    fn invalid(&self, message: String) -> Failure {
        Failure::invalid(&format!("launch of kernel `{}`", self.name), message)
    }

    fn check_threads(&self, threads: u32) -> Result<(), Failure> {
        match threads {
            1..=1024 => Ok(()),
            _ => Err(self.invalid(format!("expected 1 to 1024 threads per block, found {threads}"))),
        }
    }
}
