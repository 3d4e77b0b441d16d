//! The functions, in the order of the driver's manual. Signatures are those of `cuda.h`, enumerations as integers.

#![allow(non_snake_case)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::slice;

use mscclpp_exec::cuda::{Driver, DriverError, Export, Handle, Mapped, Mapping};
use mscclpp_kernels::argument_bytes;

use crate::code::{self, Code, said};
use crate::images::name_of;
use crate::multicast;
use crate::physical::{self, Stage};
use crate::state::{self, DEVICES, called, called_anywhere, called_here};

// Attributes of devices.
const MULTIPROCESSOR_COUNT: c_int = 16;
const COMPUTE_CAPABILITY_MAJOR: c_int = 75;
const COMPUTE_CAPABILITY_MINOR: c_int = 76;
const VIRTUAL_MEMORY_SUPPORTED: c_int = 102;
const MEMORY_POOLS_SUPPORTED: c_int = 115;
const FILES_SUPPORTED: c_int = 103;
const MULTICAST_SUPPORTED: c_int = 132;

/// Flags of `cuMemHostAlloc`: all contexts know it, and devices see it.
const PORTABLE_AND_MAPPED: c_uint = 1 | 2;

/// Flags of streams that do not wait for the default one.
const NON_BLOCKING: c_uint = 1;

/// A thread's way with captures: its calls disturb none.
const RELAXED: c_int = 2;

/// An attribute of pointers.
const BUFFER_ID: c_int = 7;

/// A flag of `cuIpcOpenMemHandle`.
const LAZY_ENABLE_PEER_ACCESS: c_uint = 1;

/// Physical memory comes in units of so many bytes.
const UNIT: usize = 1 << 16;

/// A kind of handle that is exported.
const POSIX_FILE_DESCRIPTOR: c_uint = 1;

/// An event that is not done.
const NOT_READY: Code = 600;

/// `CUipcMemHandle`.
#[repr(C)]
struct IpcHandle {
    bytes: [u8; 64],
}

/// `CUmemAllocationProp`.
#[derive(PartialEq)]
#[repr(C)]
struct Wanted {
    kind: c_uint,
    handle_types: c_uint,
    place: c_uint,
    device: c_int,
    description: usize,
    flags: [u8; 8],
}

impl Wanted {
    /// Pinned memory of a device, which is exported as files: the only kind that the simulator has.
    fn check(&self) -> Result<(), Code> {
        let device = self.device;
        ordinal(device)?;
        let file = POSIX_FILE_DESCRIPTOR;
        let expected = Self { kind: 1, handle_types: file, place: 1, device, description: 0, flags: [0; 8] };
        valid(*self == expected)
    }
}

/// An error unless arguments are as they must be; also said to standard error, as some callers cannot make anything of it.
#[track_caller]
fn valid(are_right: bool) -> Result<(), Code> {
    if are_right {
        return Ok(());
    }
    eprintln!("{}: arguments that a driver refuses", std::panic::Location::caller());
    Err(code::INVALID_VALUE)
}

/// Stores what a call gives back.
///
/// # Safety
/// `at` may be written.
pub(crate) unsafe fn give<T>(at: *mut T, value: Result<T, Code>) -> Code {
    match value {
        Ok(value) => {
            // SAFETY: as the caller promises.
            unsafe { at.write(value) };
            code::SUCCESS
        }
        Err(code) => code,
    }
}

/// A call of the current context's simulator.
pub(crate) fn ask<T>(call: impl FnOnce(&dyn Driver) -> Result<T, DriverError>) -> Result<T, Code> {
    call(&*state::driver()?).map_err(said)
}

/// Checks a device's number.
fn ordinal(device: c_int) -> Result<usize, Code> {
    usize::try_from(device).ok().filter(|&device| device < DEVICES).ok_or(code::INVALID_DEVICE)
}

/// The next stage of addresses.
fn go(address: u64, bytes: usize, from: &[Stage], to: Stage) -> Result<(), Code> {
    let gone = multicast::go(address, bytes, from, to).or_else(|| physical::go(address, bytes, from, to));
    gone.unwrap_or(Err(code::INVALID_VALUE))
}

/// Defines functions of the driver; `-> at` says where the result goes.
macro_rules! calls {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $out:ident)? $body:block)*) => {$(
        /// # Safety
        /// As CUDA's driver: pointers are good for what the function does with them.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> Code {
            let result = || $body;
            calls!(@give $($out)? result())
        }
    )*};
    (@give $result:expr) => { $crate::code::of($result) };
    (@give $out:ident $result:expr) => {{
        let result = $result;
        // SAFETY: the caller's promise.
        unsafe { $crate::calls::give($out, result) }
    }};
}
pub(crate) use calls;

calls! {
    fn cuInit(flags: c_uint) {
        called_anywhere("cuInit")?;
        valid(flags == 0)
    }

    fn cuDriverGetVersion(version: *mut c_int) -> version { called_anywhere("cuDriverGetVersion").map(|()| 13_000) }

    fn cuDeviceGetCount(count: *mut c_int) -> count {
        called_anywhere("cuDeviceGetCount").map(|()| DEVICES as c_int)
    }

    fn cuDeviceGet(device: *mut c_int, number: c_int) -> device {
        called(ordinal(number)?, "cuDeviceGet")?;
        Ok(number)
    }

    fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) {
        called(ordinal(device)?, "cuDeviceGetName")?;
        let text = c"simulated device".to_bytes_with_nul();
        if text.len() > len.max(0) as usize {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: there is room for `len` bytes.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        Ok(())
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) -> value {
        called(ordinal(device)?, "cuDeviceGetAttribute")?;
        match attribute {
            MULTIPROCESSOR_COUNT => Ok(132),
            COMPUTE_CAPABILITY_MAJOR => Ok(9),
            COMPUTE_CAPABILITY_MINOR => Ok(0),
            MULTICAST_SUPPORTED => Ok(c_int::from(state::has_multicast(ordinal(device)?))),
            VIRTUAL_MEMORY_SUPPORTED | FILES_SUPPORTED => Ok(1),
            MEMORY_POOLS_SUPPORTED => Ok(0),
            _ => Err(code::INVALID_VALUE),
        }
    }

    fn cuDeviceGetUuid_v2(uuid: *mut u128, device: c_int) -> uuid {
        let device = ordinal(device)?;
        called(device, "cuDeviceGetUuid")?;
        Ok(u128::from(std::process::id()) << 32 | device as u128)
    }

    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> bytes {
        called(ordinal(device)?, "cuDeviceTotalMem")?;
        Ok(1 << 34)
    }

    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) -> context {
        let device = ordinal(device)?;
        called(device, "cuDevicePrimaryCtxRetain")?;
        state::retain(device)?;
        Ok(device + 1)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        let device = ordinal(device)?;
        // It is done all the same, or the device would not begin anew.
        let failed = called(device, "cuDevicePrimaryCtxRelease");
        state::release(device).and(failed)
    }

    fn cuCtxSetCurrent(context: usize) { state::enter(context) }

    fn cuCtxGetCurrent(context: *mut usize) -> context {
        called_anywhere("cuCtxGetCurrent").map(|()| state::context())
    }

    fn cuCtxSynchronize() {
        state::set_stores(false)?;
        ask(|driver| driver.wait_idle())
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> can {
        let (device, peer) = (ordinal(device)?, ordinal(peer)?);
        match state::number_in_machine(device, peer) {
            // Of another machine.
            None => Ok(0),
            Some(peer) => state::driver_of(device)?.can_access(peer).map(c_int::from).map_err(said),
        }
    }

    fn cuCtxEnablePeerAccess(context: usize, flags: c_uint) {
        valid(flags == 0)?;
        let peer = context.checked_sub(1).ok_or(code::INVALID_CONTEXT)?;
        let peer = state::number_in_machine(state::current()?, peer).ok_or(code::INVALID_CONTEXT)?;
        ask(|driver| driver.enable_access(peer))?;
        state::connect(peer)
    }

    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> address { ask(|driver| driver.alloc(bytes as u64)) }

    fn cuMemFree_v2(address: u64) { ask(|driver| driver.free(address)) }

    fn cuMemGetAddressRange_v2(base: *mut u64, bytes: *mut usize, address: u64) {
        let found = ask(|driver| driver.allocation(address))?;
        // SAFETY: the caller's promise.
        unsafe {
            base.write(found.base);
            bytes.write(found.bytes as usize);
        }
        Ok(())
    }

    fn cuPointerGetAttribute(value: *mut u64, attribute: c_int, address: u64) -> value {
        if attribute != BUFFER_ID {
            return Err(code::INVALID_VALUE);
        }
        ask(|driver| driver.allocation(address)).map(|found| found.id)
    }

    fn cuIpcGetMemHandle(handle: *mut [u8; 64], base: u64) -> handle {
        match ask(|driver| driver.export(base))? {
            Export::Ipc(handle) => Ok(handle),
            Export::File(_) => Err(code::INVALID_VALUE),
        }
    }

    fn cuIpcOpenMemHandle_v2(address: *mut u64, handle: IpcHandle, flags: c_uint) -> address {
        if flags != LAZY_ENABLE_PEER_ACCESS {
            return Err(code::INVALID_VALUE);
        }
        ask(|driver| driver.import(Export::Ipc(handle.bytes), 0)).map(|import| import.address)
    }

    fn cuIpcCloseMemHandle(address: u64) {
        ask(|driver| driver.close(Mapping { address, bytes: 0, is_file: false }))
    }

    fn cuMemGetAllocationGranularity(unit: *mut usize, wanted: *const Wanted, option: c_uint) -> unit {
        called_here("cuMemGetAllocationGranularity")?;
        // SAFETY: the caller's struct.
        unsafe { &*wanted }.check()?;
        valid(option < 2)?;
        Ok(UNIT)
    }

    fn cuMulticastGetGranularity(unit: *mut usize, wanted: *const multicast::Wanted, _option: c_uint) -> unit {
        // SAFETY: the caller's struct.
        let multicast::Wanted { devices, bytes, .. } = unsafe { wanted.read() };
        ask(|driver| driver.multicast_unit(devices, bytes as u64)).map(|unit| unit as usize)
    }

    fn cuMulticastCreate(object: *mut u64, wanted: *const multicast::Wanted) -> object {
        // SAFETY: the caller's struct.
        let multicast::Wanted { devices, bytes, handle_types, flags } = unsafe { wanted.read() };
        if (handle_types, flags) != (u64::from(POSIX_FILE_DESCRIPTOR), 0) {
            return Err(code::INVALID_VALUE);
        }
        let made = ask(|driver| driver.create_multicast(devices, bytes as u64))?;
        multicast::add(made, bytes as u64)
    }

    fn cuMulticastAddDevice(object: u64, device: c_int) {
        let object = multicast::handle(object)?;
        state::driver_of(ordinal(device)?)?.join_multicast(object).map_err(said)
    }

    fn cuMulticastBindMem(object: u64, at: usize, memory: u64, from: usize, bytes: usize, flags: u64) {
        valid((at, from, flags) == (0, 0, 0) && physical::is_handle(memory))?;
        let object = multicast::handle(object)?;
        ask(|driver| driver.bind_multicast(object, memory, bytes as u64))
    }

    fn cuMulticastUnbind(object: u64, device: c_int, at: usize, bytes: usize) {
        valid(at == 0 && bytes.is_multiple_of(UNIT))?;
        let object = multicast::handle(object)?;
        state::driver_of(ordinal(device)?)?.unbind_multicast(object, bytes as u64).map_err(said)
    }

    fn cuMemCreate(memory: *mut u64, bytes: usize, wanted: *const Wanted, flags: u64) -> memory {
        // SAFETY: the caller's struct.
        unsafe { &*wanted }.check()?;
        valid(flags == 0 && bytes > 0 && bytes.is_multiple_of(UNIT))?;
        // For all devices: which of them it is mapped for is said later.
        let all: Vec<u32> = (0..DEVICES as u32).collect();
        ask(|driver| driver.alloc_shared(bytes as u64, &all)).map(physical::add)
    }

    fn cuMemRelease(memory: u64) {
        called_here("cuMemRelease")?;
        if multicast::is_one(memory) {
            return multicast::release(memory);
        }
        physical::release(memory)
    }

    fn cuMemRetainAllocationHandle(memory: *mut u64, address: u64) -> memory {
        called_here("cuMemRetainAllocationHandle")?;
        physical::retain(address)
    }

    fn cuMemExportToShareableHandle(file: *mut c_int, memory: u64, kind: c_uint, flags: u64) -> file {
        called_here("cuMemExportToShareableHandle")?;
        valid(flags == 0 && (multicast::is_one(memory) || physical::is_handle(memory)))?;
        if multicast::is_one(memory) && kind == POSIX_FILE_DESCRIPTOR {
            let object = multicast::handle(memory)?;
            return ask(|driver| driver.export_multicast(object)).map(IntoRawFd::into_raw_fd);
        }
        match (kind, ask(|driver| driver.export(memory))?) {
            (POSIX_FILE_DESCRIPTOR, Export::File(file)) => Ok(file.into_raw_fd()),
            _ => Err(code::INVALID_VALUE),
        }
    }

    fn cuMemImportFromShareableHandle(memory: *mut u64, file: usize, kind: c_uint) -> memory {
        called_here("cuMemImportFromShareableHandle")?;
        if kind != POSIX_FILE_DESCRIPTOR {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: the caller's descriptor, which is open during the call.
        let file = unsafe { BorrowedFd::borrow_raw(file as c_int) }.try_clone_to_owned();
        let file = std::fs::File::from(file.map_err(|_| code::INVALID_VALUE)?);
        let bytes = file.metadata().map_err(|_| code::INVALID_VALUE)?.len();
        // Physical memory comes in whole units.
        if !bytes.is_multiple_of(UNIT as u64) {
            let object = ask(|driver| driver.import_multicast(file.into()))?;
            return multicast::add(object, 0);
        }
        ask(|driver| driver.import(Export::File(file.into()), bytes)).map(physical::add)
    }

    fn cuMemAddressReserve(address: *mut u64, bytes: usize, align: usize, wish: u64, flags: u64) -> address {
        called_here("cuMemAddressReserve")?;
        valid(bytes.is_multiple_of(UNIT) && align.is_power_of_two() && (wish, flags) == (0, 0))?;
        physical::reserve(bytes as u64).or_else(|_| multicast::reserve(bytes as u64))
    }

    fn cuMemAddressFree(address: u64, bytes: usize) {
        called_here("cuMemAddressFree")?;
        go(address, bytes, &[Stage::Reserved], Stage::Free)
    }

    fn cuMemMap(address: u64, bytes: usize, offset: usize, memory: u64, flags: u64) {
        called_here("cuMemMap")?;
        let is_one = if multicast::is_one(memory) { multicast::is_of(address, memory) } else { address == memory };
        valid(is_one && (offset, flags) == (0, 0) && (multicast::is_one(memory) || physical::is_handle(memory)))?;
        go(address, bytes, &[Stage::Reserved], Stage::Mapped)
    }

    fn cuMemSetAccess(address: u64, bytes: usize, access: *const [u32; 3], count: usize) {
        called_here("cuMemSetAccess")?;
        // SAFETY: there are so many descriptions: kind of place, its number, read and write.
        let all = unsafe { slice::from_raw_parts(access, count) };
        let is_device = |number: u32| c_int::try_from(number).is_ok_and(|number| ordinal(number).is_ok());
        valid(count > 0 && all.iter().all(|&[place, number, access]| (place, access) == (1, 3) && is_device(number)))?;
        go(address, bytes, &[Stage::Mapped, Stage::Open], Stage::Open)
    }

    fn cuMemUnmap(address: u64, bytes: usize) {
        called_here("cuMemUnmap")?;
        go(address, bytes, &[Stage::Mapped, Stage::Open], Stage::Reserved)
    }

    fn cuMemHostAlloc(memory: *mut usize, bytes: usize, flags: c_uint) -> memory {
        valid(flags == PORTABLE_AND_MAPPED)?;
        let mapped = ask(|driver| driver.alloc_mapped(bytes as u64))?;
        // A driver does not clear it.
        // SAFETY: just allocated with so many bytes.
        unsafe { (mapped.host as *mut u8).write_bytes(0xcd, bytes) };
        Ok(mapped.host)
    }

    fn cuMemHostGetDevicePointer_v2(address: *mut u64, memory: usize, _flags: c_uint) -> address {
        called_here("cuMemHostGetDevicePointer")?;
        Ok(memory as u64)
    }

    fn cuMemFreeHost(memory: usize) {
        ask(|driver| driver.free_mapped(Mapped { host: memory, device: memory as u64 }))
    }

    fn cuMemsetD8_v2(address: u64, value: u8, bytes: usize) {
        if value != 0 {
            return Err(code::INVALID_VALUE);
        }
        ask(|driver| driver.zero(address, bytes as u64))?;
        state::set_stores(true)
    }

    fn cuMemsetD8Async(address: u64, value: u8, bytes: usize, stream: usize) {
        if value != 0 {
            return Err(code::INVALID_VALUE);
        }
        ask(|driver| driver.zero_on(address, bytes as u64, Handle(stream)))
    }

    fn cuMemcpyHtoD_v2(to: u64, from: *const u8, bytes: usize) {
        valid(bytes > 0)?;
        // SAFETY: the caller's memory.
        let from = unsafe { slice::from_raw_parts(from, bytes) };
        ask(|driver| driver.upload(to, from))?;
        state::set_stores(true)
    }

    fn cuMemcpyDtoH_v2(to: *mut u8, from: u64, bytes: usize) {
        valid(bytes > 0)?;
        // SAFETY: the caller's memory.
        let to = unsafe { slice::from_raw_parts_mut(to, bytes) };
        ask(|driver| driver.download(to, from))?;
        state::set_stores(false)
    }

    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: usize) {
        state::after_stores()?;
        ask(|driver| driver.copy(to, from, bytes as u64, Handle(stream)))
    }

    fn cuModuleLoadData(module: *mut usize, image: *const c_void) -> module {
        // SAFETY: an image.
        let name = unsafe { name_of(image) }.ok_or(code::INVALID_IMAGE)?;
        ask(|driver| driver.load(name, &[])).map(|module| module.0)
    }

    fn cuModuleUnload(module: usize) {
        state::unload(module)?;
        ask(|driver| driver.unload(Handle(module)))
    }

    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) -> function {
        // SAFETY: a text.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let function = ask(|driver| driver.function(Handle(module), &name))?.0;
        state::set_argument(module, function, argument_bytes(&name).ok_or(code::INVALID_VALUE)?)?;
        Ok(function)
    }

    fn cuFuncLoad(function: usize) {
        called_here("cuFuncLoad")?;
        state::load(function)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: usize, threads: c_int, _shared: usize)
        -> blocks
    {
        let blocks = ask(|driver| driver.blocks_per_multiprocessor(Handle(function), threads as u32))?;
        Ok(blocks as c_int)
    }

    fn cuLaunchKernel(
        function: usize,
        blocks: c_uint,
        blocks_y: c_uint,
        blocks_z: c_uint,
        threads: c_uint,
        threads_y: c_uint,
        threads_z: c_uint,
        shared: c_uint,
        stream: usize,
        arguments: *const *const u8,
        extra: *const c_void,
    ) {
        valid([blocks_y, blocks_z, threads_y, threads_z] == [1; 4] && extra.is_null())?;
        valid(blocks > 0 && (1..=1024).contains(&threads) && shared == 0)?;
        state::after_stores()?;
        let bytes = state::argument(function)?;
        // SAFETY: our kernels take one argument of so many bytes.
        let argument = unsafe { slice::from_raw_parts(*arguments, bytes) };
        // SAFETY: the caller's promise.
        ask(|driver| unsafe { driver.launch(Handle(function), blocks, threads, Handle(stream), argument) })
    }

    fn cuStreamCreate(stream: *mut usize, flags: c_uint) -> stream {
        valid(flags == NON_BLOCKING)?;
        ask(|driver| driver.create_stream()).map(|stream| stream.0)
    }

    fn cuStreamDestroy_v2(stream: usize) { ask(|driver| driver.destroy_stream(Handle(stream))) }

    fn cuStreamSynchronize(stream: usize) {
        if stream == 0 {
            called_here("cuStreamSynchronize")?;
            return state::set_stores(false);
        }
        ask(|driver| driver.synchronize(Handle(stream)))
    }

    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) -> status {
        ask(|driver| driver.is_capturing(Handle(stream))).map(c_int::from)
    }

    fn cuStreamBeginCapture_v2(stream: usize, _mode: c_int) { ask(|driver| driver.begin_capture(Handle(stream))) }

    fn cuStreamEndCapture(stream: usize, graph: *mut usize) -> graph {
        ask(|driver| driver.end_capture(Handle(stream))).map(|graph| graph.0)
    }

    fn cuStreamWaitEvent(stream: usize, event: usize, _flags: c_uint) {
        ask(|driver| driver.wait_event(Handle(stream), Handle(event)))
    }

    fn cuStreamWriteValue64_v2(stream: usize, address: u64, value: u64, flags: c_uint) {
        valid(flags == 0 && address.is_multiple_of(8))?;
        ask(|driver| driver.write_value(address, value, Handle(stream)))
    }

    // The simulator's graphs are ready when they are made: instantiating hands over, destroying the first handle is nothing.
    fn cuGraphInstantiateWithFlags(made: *mut usize, graph: usize, _flags: u64) -> made {
        if let Err(code) = called_here("cuGraphInstantiate") {
            // The handle that is left is destroyed, and with it the graph.
            ask(|driver| driver.destroy_graph(Handle(graph)))?;
            return Err(code);
        }
        Ok(graph)
    }

    fn cuGraphDestroy(_graph: usize) { Ok(()) }

    fn cuGraphExecDestroy(graph: usize) { ask(|driver| driver.destroy_graph(Handle(graph))) }

    fn cuGraphLaunch(graph: usize, stream: usize) {
        state::after_stores()?;
        ask(|driver| driver.launch_graph(Handle(graph), Handle(stream)))
    }

    fn cuEventCreate(event: *mut usize, flags: c_uint) -> event {
        // With its own time or without.
        valid([0, 2].contains(&flags))?;
        ask(|driver| driver.create_event()).map(|event| event.0)
    }

    fn cuEventDestroy_v2(event: usize) { ask(|driver| driver.destroy_event(Handle(event))) }

    fn cuEventRecord(event: usize, stream: usize) { ask(|driver| driver.record(Handle(event), Handle(stream))) }

    fn cuEventQuery(event: usize) {
        match ask(|driver| driver.is_done(Handle(event)))? {
            true => Ok(()),
            false => Err(NOT_READY),
        }
    }

    fn cuEventElapsedTime(milliseconds: *mut f32, from: usize, to: usize) -> milliseconds {
        ask(|driver| driver.elapsed_us(Handle(from), Handle(to))).map(|us| us as f32 / 1e3)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) {
        // SAFETY: the caller's place for a mode.
        let before = unsafe { mode.replace(0) };
        valid(before == RELAXED)?;
        ask(|driver| driver.enter_helper_thread())
    }

    fn cuGetErrorName(error: Code, name: *mut *const c_char) -> name {
        code::texts(error).map(|(name, _)| name.as_ptr()).ok_or(code::INVALID_VALUE)
    }

    fn cuGetErrorString(error: Code, text: *mut *const c_char) -> text {
        code::texts(error).map(|(_, text)| text.as_ptr()).ok_or(code::INVALID_VALUE)
    }
}
