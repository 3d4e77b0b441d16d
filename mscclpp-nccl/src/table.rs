//! The functions of NCCL: the one table from which the exported symbols and [`FUNCTIONS`] are made. Each has the version of NCCL
//! that introduced it, and how it is served.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::abi::{self, Handle, StreamHandle, Team, UniqueId};
use crate::call::Arguments;
use crate::comm::window::Of;
use crate::comm::{OneSided, Put};
use crate::config::{Answer, CallConfig};
use crate::entry::{self, Failure, Result, check_pointer, write};
use crate::forward::PutSignal;
use crate::kind::Kind;
use crate::{comm, debug, forward, group, open_group, params};

/// How a function is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// By this library.
    Ours,
    /// By the NCCL that `MSCCLPP_NCCL_LIB_PATH` names, if it has the function; otherwise as [`Loud`](Self::Loud).
    Forwarded,
    /// Not at all: it returns an error with a text that says so and what to do.
    Loud,
}

/// A function of NCCL.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Function {
    /// Its name; with a `p` before it, that of its twin for profilers.
    pub name: &'static str,
    /// The version that introduced it, times 100: 2.18 is 218.
    pub since: u32,
    /// How it is served.
    pub class: Class,
    /// Whether it has a twin.
    pub has_twin: bool,
}

/// Defines functions. After `=>`: the function returns a code, and the body is a [`Result`].
macro_rules! functions {
    ($($since:literal $class:ident $name:ident $twin:ident ($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $(=> $checked:block)? $($body:block)?)*) => {
        /// All functions of the header of NCCL 2.32.3.
        pub const FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            since: $since,
            class: Class::$class,
            has_twin: functions!(@is_twin $twin),
        },)*];
        $(functions!(@both $name $twin ($($argument: $type),*) $(-> $output)? $(=> $checked)? $($body)?);)*
    };
    (@is_twin none) => { false };
    (@is_twin $twin:ident) => { true };
    (@both $name:ident none $($rest:tt)*) => { functions!(@one $name $name $($rest)*); };
    (@both $name:ident $twin:ident $($rest:tt)*) => {
        functions!(@one $name $name $($rest)*);
        functions!(@one $name $twin $($rest)*);
    };
    (@one $name:ident $symbol:ident ($($argument:ident: $type:ty),*) => $checked:block) => {
        /// # Safety
        /// As NCCL documents the function: pointers must be null where it allows that, or else valid for its use of them.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($argument: $type),*) -> c_int {
            entry::call(stringify!($name), || -> Result<()> { $checked })
        }
    };
    (@one $name:ident $symbol:ident ($($argument:ident: $type:ty),*) $(-> $output:ty)? $body:block) => {
        /// # Safety
        /// As NCCL documents the function.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $symbol($($argument: $type),*) $(-> $output)? $body
    };
}

/// The failure of a function that is not served.
fn loud(name: &str, instead: &str) -> Failure {
    let (major, minor, patch) = (abi::HEADER / 10_000, abi::HEADER / 100 % 100, abi::HEADER % 100);
    Failure::usage(format!("{name} of NCCL {major}.{minor}.{patch} is not served by mscclpp-nccl: {instead}"))
}

/// Returns the library for a function that only the real NCCL serves.
///
/// # Errors
/// As [`loud`] if no NCCL is named; why it cannot be loaded.
fn passed(name: &str, instead: &str) -> Result<&'static forward::Library> {
    match forward::library() {
        None => Err(loud(name, &format!("name a NCCL with {}; without it, {instead}", forward::VARIABLE))),
        Some(library) => library.as_ref().map_err(Clone::clone),
    }
}

/// What to do instead of kernels that communicate by NCCL's device interface.
const NO_DEVICE_API: &str = "it fills or reads structures that NVIDIA's device headers, compiled into the program's kernels, define for one \
     version of NVIDIA's library alone; start the program without the preloaded library, or use mscclpp's own channels for kernels";

/// Writes an address of a window; null for a rank that this device does not access, and without multicast.
///
/// # Safety
/// As for [`write`].
unsafe fn device_pointer(window: *mut c_void, offset: usize, of: Of, out: *mut *mut c_void) -> Result<()> {
    check_pointer("outPtr", out)?;
    let address = comm::window::device_pointer(window, offset, of)?.unwrap_or(0);
    // SAFETY: guaranteed by the caller.
    unsafe { write("outPtr", out, address as *mut c_void) }
}

/// Makes a call with the configuration of a caller.
///
/// # Safety
/// As for [`CallConfig::read`].
unsafe fn configured(kind: Kind, arguments: Arguments, config: *const c_void) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    group::call(kind, arguments, &unsafe { CallConfig::read(config) }?)
}

/// Makes a call.
fn plain(kind: Kind, arguments: Arguments) -> Result<()> {
    group::call(kind, arguments, &CallConfig::default())
}

/// Returns the team of a communicator, or one without ranks.
fn team(name: &'static str, find: impl FnOnce() -> Result<Team>) -> Team {
    let mut team = Team { num_ranks: 0, rank: -1, stride: 0 };
    entry::call(name, || {
        team = find()?;
        Ok(())
    });
    team
}

/// Returns the number of a rank, or -1.
fn rank(name: &'static str, find: impl FnOnce() -> Result<c_int>) -> c_int {
    let mut rank = -1;
    entry::call(name, || {
        rank = find()?;
        Ok(())
    });
    rank
}

functions! {
    219 Ours ncclMemAlloc pncclMemAlloc(ptr: *mut *mut c_void, size: usize) => {
        check_pointer("ptr", ptr)?;
        let address = comm::memory::alloc(size)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("ptr", ptr, address as *mut c_void) }
    }
    219 Ours ncclMemFree pncclMemFree(ptr: *mut c_void) => { comm::memory::free(ptr) }

    200 Ours ncclGetVersion pncclGetVersion(version: *mut c_int) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("version", version, params::version()?) }
    }
    200 Ours ncclGetUniqueId pncclGetUniqueId(id: *mut UniqueId) => {
        debug::init(params::version_line);
        check_pointer("uniqueId", id)?;
        let new = comm::unique_id()?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("uniqueId", id, new) }
    }
    214 Ours ncclCommInitRankConfig pncclCommInitRankConfig(out: *mut Handle, ranks: c_int, id: UniqueId, rank: c_int, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { comm::init_rank("ncclCommInitRankConfig", out, ranks, &id, rank, config) }
    }
    200 Ours ncclCommInitRank pncclCommInitRank(out: *mut Handle, ranks: c_int, id: UniqueId, rank: c_int) => {
        // SAFETY: guaranteed by the caller.
        unsafe { comm::init_rank("ncclCommInitRank", out, ranks, &id, rank, std::ptr::null()) }
    }
    223 Ours ncclCommInitRankScalable pncclCommInitRankScalable(out: *mut Handle, ranks: c_int, rank: c_int, num_ids: c_int, ids: *mut UniqueId, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { comm::init_scalable(out, ranks, rank, num_ids, ids, config) }
    }
    200 Ours ncclCommInitAll pncclCommInitAll(out: *mut Handle, devices: c_int, list: *const c_int) => {
        // SAFETY: guaranteed by the caller.
        unsafe { comm::init_all(out, devices, list) }
    }
    214 Ours ncclCommFinalize pncclCommFinalize(of: Handle) => { comm::finalize(&*comm::find(of)?) }
    200 Ours ncclCommDestroy pncclCommDestroy(of: Handle) => {
        if of.is_null() { Ok(()) } else { comm::destroy(comm::find(of)?) }
    }
    204 Ours ncclCommAbort pncclCommAbort(of: Handle) => {
        if of.is_null() { Ok(()) } else { comm::abort(comm::find(of)?) }
    }
    228 Ours ncclCommRevoke pncclCommRevoke(of: Handle, flags: c_int) => {
        match flags {
            0 => comm::revoke(&*comm::find(of)?),
            _ => Err(Failure::argument(format!("revokeFlags: expected 0, found {flags}"))),
        }
    }
    218 Ours ncclCommSplit pncclCommSplit(of: Handle, color: c_int, key: c_int, out: *mut Handle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { comm::split(&comm::find(of)?, color, key, out, config) }
    }
    227 Ours ncclCommShrink pncclCommShrink(of: Handle, excluded: *mut c_int, count: c_int, out: *mut Handle, config: *const c_void, flags: c_int) => {
        // SAFETY: guaranteed by the caller.
        unsafe { comm::shrink(&comm::find(of)?, excluded, count, out, config, flags) }
    }
    229 Ours ncclCommGetUniqueId pncclCommGetUniqueId(of: Handle, id: *mut UniqueId) => {
        check_pointer("uniqueId", id)?;
        let new = comm::newcomers_id(&*comm::find(of)?)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("uniqueId", id, new) }
    }
    229 Ours ncclCommGrow pncclCommGrow(of: Handle, ranks: c_int, id: *const UniqueId, rank: c_int, out: *mut Handle, config: *const c_void) => {
        let of = if of.is_null() { None } else { Some(comm::find(of)?) };
        if !id.is_null() {
            check_pointer("uniqueId", id)?;
        }
        // SAFETY: guaranteed by the caller.
        unsafe { comm::grow(of.as_ref(), ranks, id.as_ref(), rank, out, config) }
    }

    200 Ours ncclGetErrorString pncclGetErrorString(code: c_int) -> *const c_char {
        let text = usize::try_from(code).ok().and_then(|code| abi::TEXTS.get(code).copied());
        text.unwrap_or(c"unknown result code").as_ptr()
    }
    213 Ours ncclGetLastError pncclGetLastError(of: Handle) -> *const c_char {
        let of_comm = comm::find(of).ok().and_then(|comm| comm.failure_text());
        of_comm.unwrap_or_else(entry::last_error).as_ptr()
    }
    224 Ours ncclResetDebugInit pncclResetDebugInit() { debug::reset() }
    228 Ours ncclResetDebugInitInternal none() { debug::reset() }
    204 Ours ncclCommGetAsyncError pncclCommGetAsyncError(of: Handle, error: *mut c_int) => {
        check_pointer("asyncError", error)?;
        let code = comm::async_error(&*comm::find(of)?);
        // SAFETY: guaranteed by the caller.
        unsafe { write("asyncError", error, code as c_int) }
    }
    200 Ours ncclCommCount pncclCommCount(of: Handle, count: *mut c_int) => {
        let ranks = comm::find(of)?.ready()?.num_ranks();
        // SAFETY: guaranteed by the caller.
        unsafe { write("count", count, ranks as c_int) }
    }
    200 Ours ncclCommCuDevice pncclCommCuDevice(of: Handle, device: *mut c_int) => {
        let ordinal = comm::find(of)?.device.ordinal();
        // SAFETY: guaranteed by the caller.
        unsafe { write("device", device, ordinal as c_int) }
    }
    200 Ours ncclCommUserRank pncclCommUserRank(of: Handle, rank: *mut c_int) => {
        let own = comm::find(of)?.ready()?.rank();
        // SAFETY: guaranteed by the caller.
        unsafe { write("rank", rank, own as c_int) }
    }
    229 Ours ncclCommQueryProperties pncclCommQueryProperties(of: Handle, properties: *mut c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { comm::properties(&*comm::find(of)?, properties) }
    }

    219 Ours ncclCommRegister pncclCommRegister(of: Handle, buffer: *mut c_void, size: usize, handle: *mut *mut c_void) => {
        check_pointer("handle", handle)?;
        let new = comm::memory::register(&*comm::find(of)?, buffer, size)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("handle", handle, new as *mut c_void) }
    }
    219 Ours ncclCommDeregister pncclCommDeregister(of: Handle, handle: *mut c_void) => {
        comm::memory::deregister(&*comm::find(of)?, handle)
    }
    229 Ours ncclCommSuspend pncclCommSuspend(of: Handle, flags: c_int) => {
        match flags {
            1 => comm::suspend(&*comm::find(of)?),
            _ => Err(Failure::argument(format!("flags: expected NCCL_SUSPEND_MEM, found {flags:#x}"))),
        }
    }
    229 Ours ncclCommResume pncclCommResume(of: Handle) => { comm::resume(&*comm::find(of)?) }
    229 Ours ncclCommMemStats pncclCommMemStats(of: Handle, statistic: c_int, value: *mut u64) => {
        check_pointer("value", value)?;
        let bytes = comm::memory_statistic(&*comm::find(of)?, statistic)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("value", value, bytes) }
    }
    227 Ours ncclCommWindowRegister pncclCommWindowRegister(of: Handle, buffer: *mut c_void, size: usize, window: *mut *mut c_void, flags: c_int) => {
        check_pointer("win", window)?;
        let new = comm::window::register_window(&*comm::find(of)?, buffer, size, flags)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("win", window, new as *mut c_void) }
    }
    227 Ours ncclCommWindowDeregister pncclCommWindowDeregister(of: Handle, window: *mut c_void) => {
        if window.is_null() { Ok(()) } else { comm::window::deregister_window(&*comm::find(of)?, window) }
    }
    229 Ours ncclWinGetUserPtr pncclWinGetUserPtr(of: Handle, window: *mut c_void, pointer: *mut *mut c_void) => {
        check_pointer("outUserPtr", pointer)?;
        let base = comm::window::user_pointer(&*comm::find(of)?, window)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("outUserPtr", pointer, base as *mut c_void) }
    }

    211 Ours ncclRedOpCreatePreMulSum pncclRedOpCreatePreMulSum(op: *mut c_int, scalar: *mut c_void, dtype: c_int, residence: c_int, comm: Handle) => {
        check_pointer("op", op)?;
        // SAFETY: guaranteed by the caller.
        let new = unsafe { comm::reduction::create(&*comm::find(comm)?, scalar, dtype, residence) }?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("op", op, new) }
    }
    211 Ours ncclRedOpDestroy pncclRedOpDestroy(op: c_int, comm: Handle) => { comm::reduction::destroy(&*comm::find(comm)?, op) }

    200 Ours ncclReduce pncclReduce(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Reduce(op, root), Arguments { send, recv, count, dtype, comm, stream })
    }
    200 Ours ncclBcast pncclBcast(buffer: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Broadcast(root), Arguments { send: buffer, recv: buffer, count, dtype, comm, stream })
    }
    202 Ours ncclBroadcast pncclBroadcast(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Broadcast(root), Arguments { send, recv, count, dtype, comm, stream })
    }
    200 Ours ncclAllReduce pncclAllReduce(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::AllReduce(op), Arguments { send, recv, count, dtype, comm, stream })
    }
    200 Ours ncclReduceScatter pncclReduceScatter(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::ReduceScatter(op), Arguments { send, recv, count, dtype, comm, stream })
    }
    200 Ours ncclAllGather pncclAllGather(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::AllGather, Arguments { send, recv, count, dtype, comm, stream })
    }
    228 Ours ncclAlltoAll pncclAlltoAll(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::AllToAll, Arguments { send, recv, count, dtype, comm, stream })
    }
    228 Ours ncclGather pncclGather(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Gather(root), Arguments { send, recv, count, dtype, comm, stream })
    }
    228 Ours ncclScatter pncclScatter(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Scatter(root), Arguments { send, recv, count, dtype, comm, stream })
    }
    231 Ours ncclAllReduceConfig pncclAllReduceConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::AllReduce(op), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclBroadcastConfig pncclBroadcastConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::Broadcast(root), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclReduceConfig pncclReduceConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, root: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::Reduce(op, root), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclAllGatherConfig pncclAllGatherConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::AllGather, Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclReduceScatterConfig pncclReduceScatterConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, op: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::ReduceScatter(op), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclAlltoAllConfig pncclAlltoAllConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::AllToAll, Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclGatherConfig pncclGatherConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::Gather(root), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    231 Ours ncclScatterConfig pncclScatterConfig(send: *const c_void, recv: *mut c_void, count: usize, dtype: c_int, root: c_int, comm: Handle, stream: StreamHandle, config: *const c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { configured(Kind::Scatter(root), Arguments { send, recv, count, dtype, comm, stream }, config) }
    }
    207 Ours ncclSend pncclSend(send: *const c_void, count: usize, dtype: c_int, peer: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Send(peer), Arguments { send, recv: std::ptr::null_mut(), count, dtype, comm, stream })
    }
    207 Ours ncclRecv pncclRecv(recv: *mut c_void, count: usize, dtype: c_int, peer: c_int, comm: Handle, stream: StreamHandle) => {
        plain(Kind::Recv(peer), Arguments { send: std::ptr::null(), recv, count, dtype, comm, stream })
    }

    229 Ours ncclPutSignal pncclPutSignal(local: *const c_void, count: usize, dtype: c_int, peer: c_int, window: *mut c_void, offset: usize, signal: c_int, context: c_int, flags: c_uint, of: Handle, stream: StreamHandle) => {
        let (comm, stream) = (comm::find(of)?, stream as usize);
        if comm.nested().is_none() {
            let put = Put { local, count, dtype, peer, window, offset, signal, context, flags };
            return group::one_sided(OneSided::put(&comm, &put, stream)?);
        }
        let window = comm::nested_window(window)?;
        let put = PutSignal { local: local as usize, count, dtype, peer, window, offset, signal, context, flags, stream };
        group::pass(comm, move |nested| nested.put_signal(&put))
    }
    229 Ours ncclSignal pncclSignal(peer: c_int, signal: c_int, context: c_int, flags: c_uint, of: Handle, stream: StreamHandle) => {
        let (comm, stream) = (comm::find(of)?, stream as usize);
        match comm.nested() {
            None => group::one_sided(OneSided::signal(&comm, peer, [signal, context], flags, stream)?),
            Some(_) => group::pass(comm, move |nested| nested.signal(peer, signal, context, flags, stream)),
        }
    }
    229 Ours ncclWaitSignal pncclWaitSignal(count: c_int, signals: *mut c_void, of: Handle, stream: StreamHandle) => {
        let (comm, stream) = (comm::find(of)?, stream as usize);
        // SAFETY: guaranteed by the caller.
        let mut signals = unsafe { comm::descriptions(count, signals) }?;
        match comm.nested() {
            None => group::one_sided(OneSided::wait(&comm, &signals, stream)?),
            Some(_) => group::pass(comm, move |nested| nested.wait_signal(&mut signals, stream)),
        }
    }

    200 Ours ncclGroupStart pncclGroupStart() => {
        open_group::begin();
        Ok(())
    }
    200 Ours ncclGroupEnd pncclGroupEnd() => { group::end() }
    222 Ours ncclGroupSimulateEnd pncclGroupSimulateEnd(info: *mut c_void) => {
        group::discard()?;
        if !info.is_null() {
            // SAFETY: guaranteed by the caller. No time is estimated: NCCL's undefined number.
            unsafe { Answer::open("simInfo", info, 0x7468_5283) }?.set(16, &(-1.0_f32).to_ne_bytes());
        }
        Ok(())
    }
    232 Forwarded ncclSetEncryption pncclSetEncryption(config: *const c_void) => {
        let library = passed("ncclSetEncryption", "control messages are always authenticated, and MSCCLPP_AUTHENTICATE_DATA=1 authenticates data between nodes")?;
        // SAFETY: guaranteed by the caller.
        let code = unsafe { forward::call!(library, "ncclSetEncryption", fn(*const c_void), config) };
        library.check("ncclSetEncryption", 0, code)
    }

    230 Ours ncclParamBind pncclParamBind(out: *mut *mut c_void, key: *const c_char) => {
        check_pointer("out", out)?;
        // SAFETY: guaranteed by the caller.
        let handle = params::bind(&unsafe { params::key(key) }?)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, handle as *mut c_void) }
    }
    230 Ours ncclParamGetI8 pncclParamGetI8(of: *mut c_void, out: *mut i8) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, params::number(of)?) }
    }
    230 Ours ncclParamGetI16 pncclParamGetI16(of: *mut c_void, out: *mut i16) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, params::number(of)?) }
    }
    230 Ours ncclParamGetI32 pncclParamGetI32(of: *mut c_void, out: *mut i32) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, params::number(of)?) }
    }
    230 Ours ncclParamGetI64 pncclParamGetI64(of: *mut c_void, out: *mut i64) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, params::number(of)?) }
    }
    230 Ours ncclParamGetU8 pncclParamGetU8(of: *mut c_void, out: *mut u8) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, params::number(of)?) }
    }
    230 Ours ncclParamGetU16 pncclParamGetU16(of: *mut c_void, out: *mut u16) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, params::number(of)?) }
    }
    230 Ours ncclParamGetU32 pncclParamGetU32(of: *mut c_void, out: *mut u32) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, params::number(of)?) }
    }
    230 Ours ncclParamGetU64 pncclParamGetU64(of: *mut c_void, out: *mut u64) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, params::number(of)?) }
    }
    230 Ours ncclParamGetStr pncclParamGetStr(of: *mut c_void, out: *mut *const c_char) => {
        // SAFETY: guaranteed by the caller.
        unsafe { write("out", out, params::text(of)?.as_ptr()) }
    }
    230 Ours ncclParamGet pncclParamGet(of: *mut c_void, out: *mut c_void, max_len: c_int, len: *mut c_int) => {
        check_pointer("out", out.cast::<u8>())?;
        check_pointer("len", len)?;
        let value = params::text(of)?.to_bytes_with_nul();
        if usize::try_from(max_len).is_ok_and(|room| room >= value.len()) {
            // SAFETY: guaranteed by the caller: there is room for `max_len` bytes.
            unsafe { value.as_ptr().copy_to_nonoverlapping(out.cast(), value.len()) };
            // SAFETY: guaranteed by the caller.
            return unsafe { write("len", len, value.len() as c_int) };
        }
        Err(Failure::argument(format!("maxLen: expected at least {}, found {max_len}", value.len())))
    }
    230 Ours ncclParamGetParameter pncclParamGetParameter(key: *const c_char, value: *mut *const c_char, len: *mut c_int) => {
        check_pointer("value", value)?;
        check_pointer("valueLen", len)?;
        // SAFETY: guaranteed by the caller.
        let text = params::value(&unsafe { params::key(key) }?)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("value", value, text.as_ptr())? };
        // SAFETY: guaranteed by the caller.
        unsafe { write("valueLen", len, text.count_bytes() as c_int) }
    }
    230 Ours ncclParamGetAllParameterKeys pncclParamGetAllParameterKeys(table: *mut *const *const c_char, len: *mut c_int) => {
        check_pointer("table", table)?;
        check_pointer("tableLen", len)?;
        let keys = params::keys();
        // SAFETY: guaranteed by the caller.
        unsafe { write("table", table, keys.as_ptr().cast())? };
        // SAFETY: guaranteed by the caller.
        unsafe { write("tableLen", len, keys.len() as c_int) }
    }
    230 Ours ncclParamDumpAll pncclParamDumpAll() { params::dump() }

    228 Forwarded ncclDevCommCreate pncclDevCommCreate(of: Handle, requirements: *const c_void, out: *mut c_void) => {
        let library = passed("ncclDevCommCreate", NO_DEVICE_API)?;
        let comm = comm::nested_handle(of)?;
        // SAFETY: guaranteed by the caller.
        let code = unsafe { forward::call!(library, "ncclDevCommCreate", fn(usize, *const c_void, *mut c_void), comm, requirements, out) };
        library.check("ncclDevCommCreate", comm, code)
    }
    228 Forwarded ncclDevCommDestroy pncclDevCommDestroy(of: Handle, device: *const c_void) => {
        let library = passed("ncclDevCommDestroy", NO_DEVICE_API)?;
        let comm = comm::nested_handle(of)?;
        // SAFETY: guaranteed by the caller.
        let code = unsafe { forward::call!(library, "ncclDevCommDestroy", fn(usize, *const c_void), comm, device) };
        library.check("ncclDevCommDestroy", comm, code)
    }
    229 Ours ncclGetLsaMultimemDevicePointer pncclGetLsaMultimemDevicePointer(window: *mut c_void, offset: usize, out: *mut *mut c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { device_pointer(window, offset, Of::All, out) }
    }
    229 Loud ncclGetMultimemDevicePointer pncclGetMultimemDevicePointer(_window: *mut c_void, _offset: usize, _multimem: *mut c_void, _out: *mut *mut c_void) => {
        Err(loud("ncclGetMultimemDevicePointer", NO_DEVICE_API))
    }
    229 Ours ncclGetLsaDevicePointer pncclGetLsaDevicePointer(window: *mut c_void, offset: usize, rank: c_int, out: *mut *mut c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { device_pointer(window, offset, Of::Local(rank), out) }
    }
    229 Ours ncclGetPeerDevicePointer pncclGetPeerDevicePointer(window: *mut c_void, offset: usize, peer: c_int, out: *mut *mut c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { device_pointer(window, offset, Of::Peer(peer), out) }
    }
    231 Loud ncclGetMultimemDeviceLeInfo pncclGetMultimemDeviceLeInfo(_window: *mut c_void, _offset: usize, _id: *mut c_void, _at: *mut usize) => {
        Err(loud("ncclGetMultimemDeviceLeInfo", NO_DEVICE_API))
    }
    231 Loud ncclGetCftDeviceLeInfo pncclGetCftDeviceLeInfo(_window: *mut c_void, _offset: usize, _peer: c_int, _team: Team, _id: *mut c_void, _at: *mut usize) => {
        Err(loud("ncclGetCftDeviceLeInfo", NO_DEVICE_API))
    }
    231 Loud ncclGetPeerDeviceLeInfo pncclGetPeerDeviceLeInfo(_window: *mut c_void, _offset: usize, _peer: c_int, _id: *mut c_void, _at: *mut usize) => {
        Err(loud("ncclGetPeerDeviceLeInfo", NO_DEVICE_API))
    }
    228 Ours ncclTeamWorld pncclTeamWorld(of: Handle) -> Team { team("ncclTeamWorld", || comm::team_world(&*comm::find(of)?)) }
    228 Ours ncclTeamLsa pncclTeamLsa(of: Handle) -> Team { team("ncclTeamLsa", || comm::team_lsa(&*comm::find(of)?)) }
    228 Ours ncclTeamRail pncclTeamRail(of: Handle) -> Team { team("ncclTeamRail", || comm::team_rail(&*comm::find(of)?)) }
    231 Loud ncclTeamCft pncclTeamCft(_comm: Handle, _mode: c_int) -> Team { team("ncclTeamCft", || Err(loud("ncclTeamCft", NO_DEVICE_API))) }
    231 Loud ncclTeamCftMultimem pncclTeamCftMultimem(_comm: Handle) -> Team {
        team("ncclTeamCftMultimem", || Err(loud("ncclTeamCftMultimem", NO_DEVICE_API)))
    }
    228 Ours ncclTeamRankToWorld pncclTeamRankToWorld(of: Handle, team: Team, number: c_int) -> c_int {
        rank("ncclTeamRankToWorld", || comm::to_world(&*comm::find(of)?, team, number))
    }
    228 Ours ncclTeamRankToLsa pncclTeamRankToLsa(of: Handle, team: Team, number: c_int) -> c_int {
        rank("ncclTeamRankToLsa", || comm::to_lsa(&*comm::find(of)?, team, number))
    }
    228 Loud ncclLsaBarrierCreateRequirement pncclLsaBarrierCreateRequirement(_team: Team, _count: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclLsaBarrierCreateRequirement", NO_DEVICE_API))
    }
    228 Loud ncclGinBarrierCreateRequirement pncclGinBarrierCreateRequirement(_comm: Handle, _team: Team, _count: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclGinBarrierCreateRequirement", NO_DEVICE_API))
    }
    229 Loud ncclGinOutboxCreateRequirement pncclGinOutboxCreateRequirement(_blocks: c_int, _size: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclGinOutboxCreateRequirement", NO_DEVICE_API))
    }
    229 Loud ncclGinInboxA2ACreateRequirement pncclGinInboxA2ACreateRequirement(_team: Team, _blocks: c_int, _size: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclGinInboxA2ACreateRequirement", NO_DEVICE_API))
    }
    228 Loud ncclLLA2ACalcSlots pncclLLA2ACalcSlots(_elements: c_int, _size: c_int) -> c_int {
        entry::call("ncclLLA2ACalcSlots", || Err(loud("ncclLLA2ACalcSlots", NO_DEVICE_API)));
        0
    }
    228 Loud ncclLLA2ACreateRequirement pncclLLA2ACreateRequirement(_blocks: c_int, _slots: c_int, _handle: *mut c_void, _out: *mut c_void) => {
        Err(loud("ncclLLA2ACreateRequirement", NO_DEVICE_API))
    }
}
