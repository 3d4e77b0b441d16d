//! A call as functions of a program get it: the `mscclppCall_t` of `include/mscclpp.h`.

use std::ffi::{CString, NulError, c_char, c_int};

use mscclpp_select::Request;

/// The header's `mscclppCall_t`.
#[repr(C)]
pub(crate) struct CallInfo {
    size: usize,
    collective: *const c_char,
    dtype: *const c_char,
    operation: *const c_char,
    order: *const c_char,
    input_bytes: u64,
    output_bytes: u64,
    root: c_int,
    ranks: c_int,
    ranks_per_node: c_int,
    in_place: c_int,
    symmetric: c_int,
    captured: c_int,
}

/// The texts of a call, for [`CallInfo`].
pub(crate) struct CallTexts {
    collective: CString,
    dtype: CString,
    operation: Option<CString>,
    order: CString,
}

impl CallTexts {
    pub(crate) fn new(request: &Request) -> std::result::Result<Self, NulError> {
        let Request { collective, dtype, op, order, .. } = *request;
        Ok(Self {
            collective: CString::new(collective.name())?,
            dtype: CString::new(dtype.name())?,
            operation: op.map(|op| CString::new(op.name())).transpose()?,
            order: CString::new(order.name())?,
        })
    }

    /// Returns what the program gets, which is valid as long as the texts are.
    pub(crate) fn info(&self, request: &Request, is_captured: bool) -> CallInfo {
        let [input_bytes, output_bytes] = request.input_and_output_bytes();
        CallInfo {
            size: size_of::<CallInfo>(),
            collective: self.collective.as_ptr(),
            dtype: self.dtype.as_ptr(),
            operation: self.operation.as_ref().map_or(std::ptr::null(), |operation| operation.as_ptr()),
            order: self.order.as_ptr(),
            input_bytes,
            output_bytes,
            root: request.root as c_int,
            ranks: request.num_ranks as c_int,
            ranks_per_node: request.ranks_per_node as c_int,
            in_place: request.in_place.into(),
            symmetric: request.registered.into(),
            captured: is_captured.into(),
        }
    }
}
