//! Memory: allocated, registered, and of windows.

use std::ffi::{c_int, c_void};

use super::{Class, Function, functions};
use crate::abi::Handle;
use crate::comm;
use crate::comm::window::Of;
use crate::entry::{self, Result, check_pointer, write};

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

functions! {
    219 Ours ncclMemAlloc pncclMemAlloc(ptr: *mut *mut c_void, size: usize) => {
        check_pointer("ptr", ptr)?;
        let address = comm::memory::alloc(size)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("ptr", ptr, address as *mut c_void) }
    }
    219 Ours ncclMemFree pncclMemFree(ptr: *mut c_void) => { comm::memory::free(ptr) }
    219 Ours ncclCommRegister pncclCommRegister(of: Handle, buffer: *mut c_void, size: usize, handle: *mut *mut c_void) => {
        check_pointer("handle", handle)?;
        let new = comm::memory::register(&*comm::find(of)?, buffer, size)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("handle", handle, new as *mut c_void) }
    }
    219 Ours ncclCommDeregister pncclCommDeregister(of: Handle, handle: *mut c_void) => {
        comm::memory::deregister(&*comm::find(of)?, handle)
    }
    229 Ours ncclCommMemStats pncclCommMemStats(of: Handle, statistic: c_int, value: *mut u64) => {
        check_pointer("value", value)?;
        let bytes = comm::memory_statistic(&*comm::find(of)?, statistic)?;
        // SAFETY: guaranteed by the caller.
        unsafe { write("value", value, bytes) }
    }
    227 Ours ncclCommWindowRegister pncclCommWindowRegister(of: Handle, buffer: *mut c_void, size: usize, window: *mut *mut c_void, flags: c_int) => {
        check_pointer("win", window)?;
        // SAFETY: guaranteed by the caller.
        unsafe { comm::window::register_window(comm::find(of)?, buffer, size, window, flags) }
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
    229 Ours ncclGetLsaMultimemDevicePointer pncclGetLsaMultimemDevicePointer(window: *mut c_void, offset: usize, out: *mut *mut c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { device_pointer(window, offset, Of::All, out) }
    }
    229 Ours ncclGetLsaDevicePointer pncclGetLsaDevicePointer(window: *mut c_void, offset: usize, rank: c_int, out: *mut *mut c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { device_pointer(window, offset, Of::Local(rank), out) }
    }
    229 Ours ncclGetPeerDevicePointer pncclGetPeerDevicePointer(window: *mut c_void, offset: usize, peer: c_int, out: *mut *mut c_void) => {
        // SAFETY: guaranteed by the caller.
        unsafe { device_pointer(window, offset, Of::Peer(peer), out) }
    }
}
