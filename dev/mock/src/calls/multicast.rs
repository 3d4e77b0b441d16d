//! Multicast objects.

use std::ffi::{c_int, c_uint};

use super::{UNIT, ask, calls, check_handle_types, ordinal, valid};
use crate::code::{self, Code, said};
use crate::{multicast, physical, state};

calls! {
    fn cuMulticastGetGranularity(unit: *mut usize, wanted: *const multicast::Wanted, option: c_uint) -> unit {
        // SAFETY: the caller's struct.
        let multicast::Wanted { devices, bytes, .. } = unsafe { wanted.read() };
        valid(option < 2)?;
        let unit = ask(|driver| driver.multicast_granularity(devices, bytes as u64))?;
        // The recommended one is larger than the minimum.
        Ok(unit as usize * if option == 1 { 8 } else { 1 })
    }

    fn cuMulticastCreate(object: *mut u64, wanted: *const multicast::Wanted) -> object {
        // SAFETY: the caller's struct.
        let multicast::Wanted { devices, bytes, handle_types, flags } = unsafe { wanted.read() };
        valid(flags == 0)?;
        check_handle_types(c_uint::try_from(handle_types).map_err(|_| code::INVALID_VALUE)?)?;
        let made = ask(|driver| driver.create_multicast(devices, bytes as u64))?;
        multicast::add(made, bytes as u64)
    }

    fn cuMulticastAddDevice(object: u64, device: c_int) {
        let object = multicast::handle(object)?;
        state::driver_of(ordinal(device)?)?.multicast_add_device(object).map_err(said)
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
}
