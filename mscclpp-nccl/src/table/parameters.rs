//! Parameters: the variables of the environment that NCCL reads.

use std::ffi::{c_char, c_int, c_void};

use super::{Class, Function, functions};
use crate::entry::{self, Failure, Result, check_pointer, write};
use crate::params;

functions! {
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
}
