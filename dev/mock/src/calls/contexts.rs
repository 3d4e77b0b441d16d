//! Primary contexts, and access to the memory of others.

use std::ffi::{c_int, c_uint};

use super::{ask, calls, give_optional, ordinal, valid};
use crate::code::{self, Code, said};
use crate::state::{self, called, called_anywhere};

calls! {
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) -> context {
        let device = ordinal(device)?;
        called(device, "cuDevicePrimaryCtxRetain")?;
        state::retain(device)?;
        Ok(device + 1)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        let device = ordinal(device)?;
        // The context is released even so, or the device would not restart.
        let failed = called(device, "cuDevicePrimaryCtxRelease");
        state::release(device).and(failed)
    }

    fn cuCtxSetCurrent(context: usize) { state::enter(context) }

    fn cuCtxGetCurrent(context: *mut usize) -> context {
        called_anywhere("cuCtxGetCurrent").map(|()| state::context())
    }

    fn cuCtxGetId(context: usize, id: *mut u64) -> id {
        called_anywhere("cuCtxGetId")?;
        let context = if context == 0 { state::context() } else { context };
        if context == 0 { Err(code::INVALID_CONTEXT) } else { Ok(context as u64) }
    }

    fn cuCtxGetDevice(device: *mut c_int) -> device {
        called_anywhere("cuCtxGetDevice")?;
        Ok(state::current()? as c_int)
    }

    fn cuCtxPushCurrent_v2(context: usize) { state::push(context) }

    fn cuCtxPopCurrent_v2(context: *mut usize) {
        let popped = state::pop()?;
        // SAFETY: the caller's pointer, or null.
        unsafe { give_optional(context, popped) };
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) {
        let is_active = state::driver_of(ordinal(device)?).is_ok();
        // SAFETY: guaranteed by the caller.
        unsafe {
            flags.write(0);
            active.write(c_int::from(is_active));
        }
        Ok(())
    }

    fn cuCtxSynchronize() {
        ask(|driver| driver.wait_idle())?;
        state::waited_for(None)
    }

    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> can {
        let (device, peer) = (ordinal(device)?, ordinal(peer)?);
        match state::number_in_machine(device, peer) {
            // A device of another host.
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
}
