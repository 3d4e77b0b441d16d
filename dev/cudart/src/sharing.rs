//! Memory shared between processes, by handles.

use std::ffi::c_uint;

use crate::driver::{self, IpcHandle};
use crate::runtime::runtime;

runtime! {
    fn cudaIpcGetMemHandle(handle: *mut [u8; 64], address: u64) -> handle { driver::cuIpcGetMemHandle(address) }

    fn cudaIpcOpenMemHandle(address: *mut u64, handle: IpcHandle, flags: c_uint) -> address {
        driver::cuIpcOpenMemHandle_v2(handle, flags)
    }

    fn cudaIpcCloseMemHandle(address: u64) { driver::cuIpcCloseMemHandle(address) }
}
