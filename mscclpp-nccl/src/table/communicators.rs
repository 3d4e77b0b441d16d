//! Creation, queries and ends of communicators, and what concerns the whole library.

use std::ffi::{c_char, c_int, c_void};

use super::{Class, Function, functions, passed};
use crate::abi::{self, Handle, UniqueId};
use crate::entry::{self, Failure, Result, check_pointer, write};
use crate::{comm, debug, forward, params};

functions! {
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
    214 Ours ncclCommFinalize pncclCommFinalize(of: Handle) => { comm::finalize(&comm::find(of)?) }
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
    229 Ours ncclCommSuspend pncclCommSuspend(of: Handle, flags: c_int) => {
        match flags {
            1 => comm::suspend(&*comm::find(of)?),
            _ => Err(Failure::argument(format!("flags: expected NCCL_SUSPEND_MEM, found {flags:#x}"))),
        }
    }
    229 Ours ncclCommResume pncclCommResume(of: Handle) => { comm::resume(&*comm::find(of)?) }
    232 Forwarded ncclSetEncryption pncclSetEncryption(config: *const c_void) => {
        let library = passed("ncclSetEncryption", "control messages are always authenticated, and MSCCLPP_AUTHENTICATE_DATA=1 authenticates data between nodes")?;
        // SAFETY: guaranteed by the caller.
        let code = unsafe { forward::call!(library, "ncclSetEncryption", fn(*const c_void), config) };
        library.check("ncclSetEncryption", 0, code)
    }
}
