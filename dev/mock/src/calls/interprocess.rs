//! Memory shared between processes, by handles.

use std::ffi::c_uint;

use mscclpp_exec::cuda::{Export, Mapping};

use super::{ask, calls};
use crate::code::{self, Code};

/// A flag of `cuIpcOpenMemHandle`.
const LAZY_ENABLE_PEER_ACCESS: c_uint = 1;

/// `CUipcMemHandle`.
#[repr(C)]
struct IpcHandle {
    bytes: [u8; 64],
}

calls! {
    fn cuIpcGetMemHandle(handle: *mut [u8; 64], base: u64) -> handle {
        match ask(|driver| driver.export(base))? {
            Export::Ipc(handle) => Ok(handle),
            Export::File(_) | Export::Fabric(_) => Err(code::INVALID_VALUE),
        }
    }

    fn cuIpcOpenMemHandle_v2(address: *mut u64, handle: IpcHandle, flags: c_uint) -> address {
        if flags != LAZY_ENABLE_PEER_ACCESS {
            return Err(code::INVALID_VALUE);
        }
        ask(|driver| driver.import(Export::Ipc(handle.bytes), 0)).map(|import| import.address)
    }

    fn cuIpcCloseMemHandle(address: u64) {
        ask(|driver| driver.unmap(Mapping { address, bytes: 0, is_physical: false }))
    }
}
