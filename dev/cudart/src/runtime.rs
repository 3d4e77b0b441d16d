//! Definition of the runtime's functions.

use crate::error::{self, Code};

/// Stores the result of a call.
///
/// # Safety
/// `at` must be null or valid for writes.
pub(crate) unsafe fn give<T>(at: *mut T, value: Result<T, Code>) -> Result<(), Code> {
    if at.is_null() {
        return Err(error::INVALID_VALUE);
    }
    // SAFETY: guaranteed by the caller.
    value.map(|value| unsafe { at.write(value) })
}

/// Defines functions of the runtime with the signatures of `cuda_runtime_api.h`, enumerations as integers; `-> at` names the
/// pointer to the result. The context of the thread's device is current in the body.
macro_rules! runtime {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $out:ident)? $body:block)*) => {$(
        /// # Safety
        /// As in CUDA's runtime: pointers must be valid for the function's use of them.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $crate::error::Code {
            let result = || $body;
            let result = $crate::devices::enter().and_then(|()| runtime!(@give $($out)? result()));
            $crate::error::finish(result)
        }
    )*};
    (@give $result:expr) => { $result };
    (@give $out:ident $result:expr) => {{
        let result = $result;
        // SAFETY: guaranteed by the caller.
        unsafe { $crate::runtime::give($out, result) }
    }};
}
pub(crate) use runtime;
