//! The functions of the driver that the runtime calls, found in `libcuda.so.1`.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::error::{self, Code};

/// `CUipcMemHandle`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct IpcHandle(pub(crate) [u8; 64]);

fn library() -> Result<&'static Library, Code> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: the mock driver, whose initialization has no effects.
    let open = || unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_LOCAL) }.ok();
    LIBRARY.get_or_init(open).as_ref().ok_or(error::INSUFFICIENT_DRIVER)
}

/// Returns the newest variant of a function of the driver, or null.
pub(crate) fn function(name: &CStr) -> Result<*mut c_void, Code> {
    let library = library()?;
    let variant = |suffix: &str| {
        let name = [name.to_bytes(), suffix.as_bytes()].concat();
        // SAFETY: the address is not used here.
        unsafe { library.get::<*mut c_void>(name.as_slice()) }.ok().map(|symbol| symbol.into_raw())
    };
    Ok(["_v3", "_v2", ""].into_iter().find_map(variant).unwrap_or(std::ptr::null_mut()))
}

/// Declares functions of the driver. Those with a result return it by their first parameter, or by their last one (`last`);
/// the safety of others depends on their `pointers`.
macro_rules! driver {
    ($($(#[$kind:ident])? fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $out:ty)?;)*) => {
        $(driver!(@one [$($kind)?] $name ($($argument: $type),*) $($out)?);)*
    };
    (@one [pointers] $name:ident ($($argument:ident: $type:ty),*)) => {
        /// # Safety
        /// Pointers must be valid for the function's use of them.
        pub(crate) unsafe fn $name($($argument: $type),*) -> Result<(), Code> {
            let function = driver!(@find $name, ($($type),*))?;
            // SAFETY: the function has this type; guaranteed by the caller.
            error::of(unsafe { function($($argument),*) })
        }
    };
    (@one [] $name:ident ($($argument:ident: $type:ty),*)) => {
        pub(crate) fn $name($($argument: $type),*) -> Result<(), Code> {
            let function = driver!(@find $name, ($($type),*))?;
            // SAFETY: the function has this type; it checks handles and addresses.
            error::of(unsafe { function($($argument),*) })
        }
    };
    (@one [] $name:ident ($($argument:ident: $type:ty),*) $out:ty) => {
        pub(crate) fn $name($($argument: $type),*) -> Result<$out, Code> {
            let function = driver!(@find $name, (*mut $out $(, $type)*))?;
            let mut result = MaybeUninit::<$out>::zeroed();
            // SAFETY: the function has this type; it checks handles and addresses, and its result is plain data.
            error::of(unsafe { function(result.as_mut_ptr() $(, $argument)*) }).map(|()| unsafe { result.assume_init() })
        }
    };
    (@one [last] $name:ident ($($argument:ident: $type:ty),*) $out:ty) => {
        pub(crate) fn $name($($argument: $type),*) -> Result<$out, Code> {
            let function = driver!(@find $name, ($($type,)* *mut $out))?;
            let mut result = MaybeUninit::<$out>::zeroed();
            // SAFETY: as above.
            error::of(unsafe { function($($argument,)* result.as_mut_ptr()) }).map(|()| unsafe { result.assume_init() })
        }
    };
    (@find $name:ident, ($($type:ty),*)) => {{
        type Function = unsafe extern "C" fn($($type),*) -> Code;
        static FOUND: OnceLock<Option<Function>> = OnceLock::new();
        let library = library()?;
        // SAFETY: the function has this type.
        let find = || unsafe { library.get::<Function>(stringify!($name).as_bytes()) }.ok().map(|symbol| *symbol);
        (*FOUND.get_or_init(find)).ok_or(error::INSUFFICIENT_DRIVER)
    }};
}

driver! {
    fn cuInit(flags: c_uint);
    fn cuDriverGetVersion() -> c_int;
    fn cuDeviceGetCount() -> c_int;
    #[pointers] fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int);
    fn cuDeviceGetUuid_v2(device: c_int) -> [u8; 16];
    fn cuDeviceTotalMem_v2(device: c_int) -> usize;
    fn cuDeviceGetAttribute(attribute: c_int, device: c_int) -> c_int;
    fn cuDeviceCanAccessPeer(device: c_int, peer: c_int) -> c_int;
    fn cuDevicePrimaryCtxRetain(device: c_int) -> usize;
    fn cuCtxGetCurrent() -> usize;
    fn cuCtxSetCurrent(context: usize);
    fn cuCtxSynchronize();
    fn cuCtxEnablePeerAccess(context: usize, flags: c_uint);
    #[pointers] fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);

    fn cuMemAlloc_v2(bytes: usize) -> u64;
    fn cuMemFree_v2(address: u64);
    fn cuMemAllocAsync(bytes: usize, stream: usize) -> u64;
    fn cuMemFreeAsync(address: u64, stream: usize);
    fn cuMemHostAlloc(bytes: usize, flags: c_uint) -> usize;
    fn cuMemFreeHost(memory: usize);
    fn cuMemHostRegister_v2(memory: usize, bytes: usize, flags: c_uint);
    fn cuMemHostUnregister(memory: usize);
    #[pointers] fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    fn cuPointerGetAttribute(attribute: c_int, address: u64) -> u64;
    fn cuMemsetD8Async(address: u64, value: u8, bytes: usize, stream: usize);
    #[pointers] fn cuMemcpyHtoDAsync_v2(to: u64, from: *const u8, bytes: usize, stream: usize);
    #[pointers] fn cuMemcpyDtoHAsync_v2(to: *mut u8, from: u64, bytes: usize, stream: usize);
    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize);
    fn cuIpcGetMemHandle(base: u64) -> [u8; 64];
    fn cuIpcOpenMemHandle_v2(handle: IpcHandle, flags: c_uint) -> u64;
    fn cuIpcCloseMemHandle(address: u64);

    fn cuStreamCreateWithPriority(flags: c_uint, priority: c_int) -> usize;
    fn cuStreamDestroy_v2(stream: usize);
    fn cuStreamSynchronize(stream: usize);
    fn cuStreamQuery(stream: usize);
    fn cuStreamWaitEvent(stream: usize, event: usize, flags: c_uint);
    #[last] fn cuStreamGetPriority(stream: usize) -> c_int;
    fn cuEventCreate(flags: c_uint) -> usize;
    fn cuEventDestroy_v2(event: usize);
    fn cuEventRecord(event: usize, stream: usize);
    fn cuEventRecordWithFlags(event: usize, stream: usize, flags: c_uint);
    fn cuEventQuery(event: usize);
    fn cuEventSynchronize(event: usize);
    fn cuEventElapsedTime(start: usize, end: usize) -> f32;

    #[last] fn cuStreamIsCapturing(stream: usize) -> c_int;
    fn cuStreamBeginCapture_v2(stream: usize, mode: c_int);
    #[last] fn cuStreamEndCapture(stream: usize) -> usize;
    #[pointers] fn cuStreamGetCaptureInfo_v3(
        stream: usize, status: *mut c_int, id: *mut u64, graph: *mut usize, dependencies: *mut *const usize,
        edges: *mut *const c_void, count: *mut usize
    );
    #[pointers] fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int);
    fn cuGraphInstantiateWithFlags(graph: usize, flags: u64) -> usize;
    fn cuGraphLaunch(graph: usize, stream: usize);
    fn cuGraphExecDestroy(graph: usize);
    fn cuGraphDestroy(graph: usize);
    #[pointers] fn cuGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize);
}
