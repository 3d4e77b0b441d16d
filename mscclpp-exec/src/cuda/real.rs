//! CUDA's driver, loaded when it is first asked for. Without one every call here is an error, never a panic: nothing touches
//! a symbol before the library and the device have been found.

use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use cudarc::driver::result::{self, DriverError as Cudarc};
use cudarc::driver::sys;

use super::driver::{Allocation, Driver, DriverError, Export, Handle, Mapped, Mapping, Properties, Result};
use super::jit::{Compiler, JitError, Nvrtc};
use super::unavailable::Unavailable;
use super::{functions, multicast_calls, share};

/// One CUDA device, through its primary context.
pub(super) struct Cuda {
    device: sys::CUdevice,
    context: sys::CUcontext,
    properties: Properties,
    /// Looked for when it is first asked for.
    compiler: OnceLock<std::result::Result<Nvrtc, JitError>>,
}

// SAFETY: a primary context may be current in any number of threads, and the driver's calls are thread-safe. The raw
// handle is only ever passed to the driver.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

/// Attaches the driver's words to a failed call.
pub(super) fn named<T>(call: &'static str, result: std::result::Result<T, Cudarc>) -> Result<T> {
    result.map_err(|error| {
        let text = |text: std::result::Result<&std::ffi::CStr, Cudarc>| {
            text.map_or_else(
                |_| "an error unknown to this driver".to_owned(),
                |text| text.to_string_lossy().into_owned(),
            )
        };
        DriverError { call, code: error.0 as i32, name: text(error.error_name()), text: text(error.error_string()) }
    })
}

/// The oldest driver that has all functions called here.
const OLDEST: u32 = 12_040;

/// Version of CUDA that the driver is for.
fn version() -> Result<u32> {
    let mut version = 0;
    // SAFETY: writes one integer.
    named("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) }.result())?;
    Ok(version as u32)
}

/// Number of devices.
///
/// # Errors
/// [`Unavailable`] if there is no driver, or none that works.
pub(super) fn count() -> std::result::Result<u32, Unavailable> {
    // SAFETY: opens the library by the names the vendor gives it and looks at nothing in it.
    if !unsafe { sys::is_culib_present() } {
        return Err(Unavailable::NoDriver);
    }
    let whole =
        |missing: Option<&'static str>| missing.map_or(Ok(()), |function| Err(Unavailable::Foreign { function }));
    whole(functions::missing_at_first())?;
    match result::init() {
        Err(Cudarc(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Err(Unavailable::NoDevice),
        Err(Cudarc(sys::CUresult::CUDA_ERROR_STUB_LIBRARY)) => return Err(Unavailable::Stub),
        initialised => named("cuInit", initialised).map_err(Unavailable::Driver)?,
    }
    let version = version().map_err(Unavailable::Driver)?;
    if version < OLDEST {
        return Err(Unavailable::OldDriver { version });
    }
    whole(functions::missing_later())?;
    match named("cuDeviceGetCount", result::device::get_count()).map_err(Unavailable::Driver)? {
        0 => Err(Unavailable::NoDevice),
        count => Ok(count as u32),
    }
}

impl Cuda {
    /// # Errors
    /// [`Unavailable`] if there is no such device.
    pub(super) fn new(ordinal: u32) -> std::result::Result<Self, Unavailable> {
        let count = count()?;
        if ordinal >= count {
            return Err(Unavailable::NoSuchDevice { ordinal, count });
        }
        let open = || -> Result<Self> {
            let device = named("cuDeviceGet", result::device::get(ordinal as i32))?;
            // SAFETY: the device was just found.
            let attribute = |attribute| unsafe {
                named("cuDeviceGetAttribute", result::device::get_attribute(device, attribute))
                    .map(|value| value as u32)
            };
            use sys::CUdevice_attribute_enum as Attribute;
            let properties = Properties {
                ordinal,
                uuid: {
                    let mut uuid = sys::CUuuid { bytes: [0; 16] };
                    // SAFETY: writes 16 bytes.
                    named("cuDeviceGetUuid", unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, device) }.result())?;
                    uuid.bytes.map(|byte| byte as u8)
                },
                name: named("cuDeviceGetName", result::device::get_name(device))?,
                capability: (
                    attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                    attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
                ),
                multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
                // SAFETY: as above.
                memory: named("cuDeviceTotalMem", unsafe { result::device::total_mem(device) })? as u64,
                driver: version()?,
                shareable: attribute(Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED)? != 0
                    && attribute(Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)? != 0,
                multicast: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)? != 0
                    && functions::has_multicast(),
            };
            // SAFETY: the device was just found; released when this is dropped.
            let context = named("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
            Ok(Self { device, context, properties, compiler: OnceLock::new() })
        };
        open().map_err(Unavailable::Driver)
    }

    /// Makes the context current in this thread until the result is dropped: every call needs that, and it costs next to
    /// nothing.
    fn enter(&self) -> Result<Entered> {
        let before = named("cuCtxGetCurrent", result::ctx::get_current())?.unwrap_or_else(std::ptr::null_mut);
        // SAFETY: the context is retained as long as `self` lives.
        named("cuCtxSetCurrent", unsafe { result::ctx::set_current(self.context) })?;
        Ok(Entered { before: (before != self.context).then_some(before) })
    }
}

/// A thread that uses a context. What was current before is so again after it: to the caller, who may use other devices
/// through other libraries, that is the device at hand.
#[must_use = "the context is only current as long as this is there"]
struct Entered {
    before: Option<sys::CUcontext>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: it was current, or it is null. A failure cannot be mended here.
            let _ = unsafe { result::ctx::set_current(before) };
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: retained once in `new`. A failure cannot be mended here.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

fn stream(handle: Handle) -> sys::CUstream {
    handle.0 as sys::CUstream
}

fn event(handle: Handle) -> sys::CUevent {
    handle.0 as sys::CUevent
}

// SAFETY: memory comes from the driver as the trait's contract asks; `alloc_mapped` clears what it hands out, and the driver
// aligns host memory to pages.
unsafe impl Driver for Cuda {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn process(&self) -> u64 {
        static NUMBER: OnceLock<u64> = OnceLock::new();
        *NUMBER.get_or_init(|| {
            let mut bytes = [0; 8];
            // Without random bytes there is the process's number.
            let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
            got.map_or_else(|_| u64::from(std::process::id()), |_| u64::from_ne_bytes(bytes))
        })
    }

    fn allocation(&self, address: u64) -> Result<Allocation> {
        let _current = self.enter()?;
        share::allocation(address)
    }

    fn export(&self, base: u64) -> Result<Export> {
        let _current = self.enter()?;
        share::export(base)
    }

    fn import(&self, export: Export, bytes: u64) -> Result<Mapping> {
        let _current = self.enter()?;
        share::import(export, bytes, self.device)
    }

    fn alloc_shared(&self, bytes: u64, peers: &[u32]) -> Result<Mapping> {
        let _current = self.enter()?;
        share::alloc(bytes, self.device, peers)
    }

    fn multicast_unit(&self, devices: u32, bytes: u64) -> Result<u64> {
        let _current = self.enter()?;
        multicast_calls::unit(devices, bytes)
    }

    fn create_multicast(&self, devices: u32, bytes: u64) -> Result<Handle> {
        let _current = self.enter()?;
        multicast_calls::create(devices, bytes)
    }

    fn export_multicast(&self, object: Handle) -> Result<OwnedFd> {
        let _current = self.enter()?;
        multicast_calls::export(object)
    }

    fn import_multicast(&self, file: OwnedFd) -> Result<Handle> {
        let _current = self.enter()?;
        multicast_calls::import(&file)
    }

    fn join_multicast(&self, object: Handle) -> Result<()> {
        let _current = self.enter()?;
        multicast_calls::join(object, self.device)
    }

    fn bind_multicast(&self, object: Handle, base: u64, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        multicast_calls::bind(object, base, bytes)
    }

    fn unbind_multicast(&self, object: Handle, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        multicast_calls::unbind(object, self.device, bytes)
    }

    fn map_multicast(&self, object: Handle, bytes: u64, peers: &[u32]) -> Result<u64> {
        let _current = self.enter()?;
        multicast_calls::map(object, bytes, self.device, peers)
    }

    fn unmap_multicast(&self, address: u64, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        self.wait_idle()?;
        multicast_calls::unmap(address, bytes)
    }

    fn release_multicast(&self, object: Handle) -> Result<()> {
        let _current = self.enter()?;
        multicast_calls::release(object)
    }

    fn close(&self, import: Mapping) -> Result<()> {
        let _current = self.enter()?;
        self.wait_idle()?;
        share::close(import)
    }

    fn can_access(&self, peer: u32) -> Result<bool> {
        let peer = named("cuDeviceGet", result::device::get(peer as i32))?;
        let mut can = 0;
        // SAFETY: two devices that are there; writes one integer.
        let asked = unsafe { sys::cuDeviceCanAccessPeer(&mut can, self.device, peer) };
        named("cuDeviceCanAccessPeer", asked.result()).map(|()| can != 0)
    }

    fn enable_access(&self, peer: u32) -> Result<()> {
        let _current = self.enter()?;
        let peer = named("cuDeviceGet", result::device::get(peer as i32))?;
        // SAFETY: a device that is there; released below. Whoever has its memory keeps the context.
        let context = named("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(peer) })?;
        // SAFETY: a context that is there.
        let enabled = unsafe { sys::cuCtxEnablePeerAccess(context, 0) }.result();
        // SAFETY: retained above.
        let released = named("cuDevicePrimaryCtxRelease", unsafe { result::primary_ctx::release(peer) });
        match enabled {
            Err(Cudarc(sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)) => released,
            enabled => named("cuCtxEnablePeerAccess", enabled).and(released),
        }
    }

    fn wait_idle(&self) -> Result<()> {
        let _current = self.enter()?;
        named("cuCtxSynchronize", result::ctx::synchronize())
    }

    fn alloc(&self, bytes: u64) -> Result<u64> {
        let _current = self.enter()?;
        // SAFETY: a context is current. Not from a pool, so that other processes can map it.
        named("cuMemAlloc", unsafe { result::malloc_sync(bytes.max(1) as usize) })
    }

    fn free(&self, address: u64) -> Result<()> {
        let _current = self.enter()?;
        // Launches under way may use it.
        named("cuCtxSynchronize", result::ctx::synchronize())?;
        // SAFETY: the owner of the address gives it up, and nothing is under way.
        named("cuMemFree", unsafe { result::free_sync(address) })
    }

    fn alloc_mapped(&self, bytes: u64) -> Result<Mapped> {
        let _current = self.enter()?;
        let bytes = bytes.max(1) as usize;
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
        // SAFETY: a context is current.
        let host = named("cuMemHostAlloc", unsafe { result::malloc_host(bytes, flags) })?;
        // SAFETY: just allocated with so many bytes.
        unsafe { std::ptr::write_bytes(host.cast::<u8>(), 0, bytes) };
        let mut device = 0;
        // SAFETY: memory that was allocated as mapped.
        let address = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut device, host, 0) }.result();
        match named("cuMemHostGetDevicePointer", address) {
            Ok(()) => Ok(Mapped { host: host as usize, device }),
            Err(error) => {
                // SAFETY: nobody has seen it.
                let _ = unsafe { result::free_host(host) };
                Err(error)
            }
        }
    }

    fn free_mapped(&self, mapped: Mapped) -> Result<()> {
        let _current = self.enter()?;
        // Launches under way may use it.
        named("cuCtxSynchronize", result::ctx::synchronize())?;
        // SAFETY: the owner gives it up, and nothing is under way.
        named("cuMemFreeHost", unsafe { result::free_host(mapped.host as *mut c_void) })
    }

    fn zero(&self, address: u64, bytes: u64) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory. Waited for, since the call itself does not have to.
        named("cuMemsetD8", unsafe { result::memset_d8_sync(address, 0, bytes as usize) })?;
        named("cuCtxSynchronize", result::ctx::synchronize())
    }

    fn upload(&self, to: u64, from: &[u8]) -> Result<()> {
        // The address of an empty slice is nobody's.
        if from.is_empty() {
            return Ok(());
        }
        let _current = self.enter()?;
        // SAFETY: the caller's memory.
        named("cuMemcpyHtoD", unsafe { result::memcpy_htod_sync(to, from) })?;
        // It returns as soon as the bytes are in a buffer of the driver's. Streams that do not wait for the default one, ours
        // too, would not wait for what is left to do there.
        // SAFETY: the default stream.
        named("cuStreamSynchronize", unsafe { result::stream::synchronize(std::ptr::null_mut()) })
    }

    fn download(&self, to: &mut [u8], from: u64) -> Result<()> {
        if to.is_empty() {
            return Ok(());
        }
        let _current = self.enter()?;
        // SAFETY: the caller's memory.
        named("cuMemcpyDtoH", unsafe { result::memcpy_dtoh_sync(to, from) })
    }

    fn copy(&self, to: u64, from: u64, bytes: u64, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory and stream.
        named("cuMemcpyAsync", unsafe { sys::cuMemcpyAsync(to, from, bytes as usize, stream(on)) }.result())
    }

    fn zero_on(&self, address: u64, bytes: u64, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory and stream.
        named("cuMemsetD8Async", unsafe { result::memset_d8_async(address, 0, bytes as usize, stream(on)) })
    }

    fn load(&self, _name: &str, image: &[u8]) -> Result<Handle> {
        let _current = self.enter()?;
        // SAFETY: a fat binary or text that ends with a zero, made by the build of the kernels.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) };
        named("cuModuleLoadData", module).map(|module| Handle(module as usize))
    }

    fn function(&self, module: Handle, name: &str) -> Result<Handle> {
        let _current = self.enter()?;
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: a module that is loaded.
        let function = unsafe { result::module::get_function(module.0 as sys::CUmodule, name) };
        let function = named("cuModuleGetFunction", function)?;
        // Else the driver does so at the first launch, which may be in a capture, and may wait for kernels that wait for this one.
        // SAFETY: just found.
        named("cuFuncLoad", unsafe { sys::cuFuncLoad(function) }.result())?;
        Ok(Handle(function as usize))
    }

    fn unload(&self, module: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner gives it up.
        named("cuModuleUnload", unsafe { result::module::unload(module.0 as sys::CUmodule) })
    }

    fn blocks_per_multiprocessor(&self, function: Handle, threads: u32) -> Result<u32> {
        let _current = self.enter()?;
        let function = function.0 as sys::CUfunction;
        let mut blocks = 0;
        // SAFETY: a function of a module that is loaded.
        let asked =
            unsafe { sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, threads as i32, 0) };
        named("cuOccupancyMaxActiveBlocksPerMultiprocessor", asked.result())?;
        Ok(blocks.max(0) as u32)
    }

    unsafe fn launch(&self, function: Handle, blocks: u32, threads: u32, on: Handle, argument: &[u8]) -> Result<()> {
        let _current = self.enter()?;
        let mut arguments = [argument.as_ptr().cast_mut().cast::<c_void>()];
        let function = function.0 as sys::CUfunction;
        // SAFETY: the caller's promise. The driver copies the argument before it returns.
        let launched =
            unsafe { result::launch_kernel(function, (blocks, 1, 1), (threads, 1, 1), 0, stream(on), &mut arguments) };
        named("cuLaunchKernel", launched)
    }

    fn create_stream(&self) -> Result<Handle> {
        let _current = self.enter()?;
        let created = result::stream::create(result::stream::StreamKind::NonBlocking);
        named("cuStreamCreate", created).map(|stream| Handle(stream as usize))
    }

    fn destroy_stream(&self, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner gives it up.
        named("cuStreamDestroy", unsafe { result::stream::destroy(stream(handle)) })
    }

    fn synchronize(&self, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's stream.
        named("cuStreamSynchronize", unsafe { result::stream::synchronize(stream(handle)) })
    }

    fn is_capturing(&self, handle: Handle) -> Result<bool> {
        let _current = self.enter()?;
        // SAFETY: the caller's stream.
        let status = named("cuStreamIsCapturing", unsafe { result::stream::is_capturing(stream(handle)) })?;
        Ok(status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    fn begin_capture(&self, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the caller's stream.
        named("cuStreamBeginCapture", unsafe { result::stream::begin_capture(stream(handle), mode) })
    }

    fn end_capture(&self, handle: Handle) -> Result<Handle> {
        let _current = self.enter()?;
        // SAFETY: the caller's stream.
        let graph = named("cuStreamEndCapture", unsafe { result::stream::end_capture(stream(handle)) })?;
        let mut made = MaybeUninit::uninit();
        // SAFETY: the graph was just made; what is launched is a copy of it.
        let instantiated = unsafe {
            let instantiated = sys::cuGraphInstantiateWithFlags(made.as_mut_ptr(), graph, 0).result();
            let _ = result::graph::destroy(graph);
            instantiated
        };
        named("cuGraphInstantiate", instantiated)?;
        // SAFETY: written by the call that succeeded.
        Ok(Handle(unsafe { made.assume_init() } as usize))
    }

    fn launch_graph(&self, graph: Handle, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's graph and stream.
        named("cuGraphLaunch", unsafe { result::graph::launch(graph.0 as sys::CUgraphExec, stream(on)) })
    }

    fn destroy_graph(&self, graph: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner gives it up.
        named("cuGraphExecDestroy", unsafe { result::graph::exec_destroy(graph.0 as sys::CUgraphExec) })
    }

    fn create_event(&self) -> Result<Handle> {
        let _current = self.enter()?;
        let created = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        named("cuEventCreate", created).map(|event| Handle(event as usize))
    }

    fn record(&self, handle: Handle, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's event and stream.
        named("cuEventRecord", unsafe { result::event::record(event(handle), stream(on)) })
    }

    fn wait_event(&self, on: Handle, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the caller's event and stream.
        named("cuStreamWaitEvent", unsafe { result::stream::wait_event(stream(on), event(handle), flags) })
    }

    fn write_value(&self, address: u64, value: u64, on: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the caller's memory and stream.
        named("cuStreamWriteValue64", unsafe { sys::cuStreamWriteValue64_v2(stream(on), address, value, 0) }.result())
    }

    fn is_done(&self, handle: Handle) -> Result<bool> {
        let _current = self.enter()?;
        // SAFETY: the caller's event.
        match unsafe { result::event::query(event(handle)) } {
            Err(Cudarc(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            done => named("cuEventQuery", done).map(|()| true),
        }
    }

    fn elapsed_us(&self, from: Handle, to: Handle) -> Result<f64> {
        let _current = self.enter()?;
        type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
        let mut milliseconds = 0_f32;
        // Not the second version of the function, the only one that cudarc knows: drivers before CUDA 12.8 lack it.
        // SAFETY: with the type that the driver declares.
        let elapsed = match unsafe { sys::culib().get::<Elapsed>(b"cuEventElapsedTime\0") } {
            // SAFETY: a place for a number, and the caller's events.
            Ok(elapsed) => unsafe { elapsed(&mut milliseconds, event(from), event(to)) },
            Err(_) => sys::CUresult::CUDA_ERROR_NOT_FOUND,
        };
        named("cuEventElapsedTime", elapsed.result()).map(|()| f64::from(milliseconds) * 1e3)
    }

    fn destroy_event(&self, handle: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner gives it up.
        named("cuEventDestroy", unsafe { result::event::destroy(event(handle)) })
    }

    fn compiler(&self) -> std::result::Result<&dyn Compiler, JitError> {
        let compiler = self.compiler.get_or_init(|| Nvrtc::new(self.properties.capability)).as_ref();
        compiler.map(|nvrtc| nvrtc as &dyn Compiler).map_err(Clone::clone)
    }

    fn enter_helper_thread(&self) -> Result<()> {
        let _current = self.enter()?;
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: exchanges this thread's mode.
        named(
            "cuThreadExchangeStreamCaptureMode",
            unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.result(),
        )
    }
}
