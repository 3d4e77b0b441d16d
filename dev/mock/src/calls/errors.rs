//! Names of results.

use std::ffi::c_char;

use super::calls;
use crate::code::{self, Code};

calls! {
    fn cuGetErrorName(error: Code, name: *mut *const c_char) -> name {
        code::texts(error).map(|(name, _)| name.as_ptr()).ok_or(code::INVALID_VALUE)
    }

    fn cuGetErrorString(error: Code, text: *mut *const c_char) -> text {
        code::texts(error).map(|(_, text)| text.as_ptr()).ok_or(code::INVALID_VALUE)
    }
}
