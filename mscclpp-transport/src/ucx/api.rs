//! The part of UCX's C interface (libucp) that the engine calls.
//!
//! Structures have a mask of the fields that are set, and later versions only append fields and bits, so those of 1.13 hold
//! for all later versions of API 1. `layout_is_that_of_the_headers` has the offsets that a C compiler reports.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Version of the interface that is asked for: the oldest one that is supported.
pub(super) const API: (c_uint, c_uint) = (1, 13);

/// First version whose [`EndpointAttr`] has transports.
pub(super) const API_WITH_TRANSPORTS: (c_uint, c_uint) = (1, 14);

/// `ucs_status_t`, an enumeration of one byte.
pub(super) type Status = i8;
pub(super) const OK: Status = 0;
pub(super) const IN_PROGRESS: Status = 1;
/// The last error: as pointers, the errors are the addresses from here on.
const LAST_ERROR: isize = -100;

/// `ucs_status_ptr_t`: null, a request, or an error.
pub(super) type StatusPtr = *mut c_void;

/// Returns the error that a pointer represents.
pub(super) fn status_of(pointer: StatusPtr) -> Option<Status> {
    let value = pointer as isize;
    (LAST_ERROR..0).contains(&value).then_some(value as Status)
}

pub(super) const FEATURE_AM: u64 = 1 << 6;
pub(super) const PARAM_FEATURES: u64 = 1;
pub(super) const PARAM_MT_WORKERS_SHARED: u64 = 1 << 5;
pub(super) const WORKER_PARAM_THREAD_MODE: u64 = 1;
pub(super) const THREAD_MODE_SERIALIZED: c_int = 1;
pub(super) const EP_PARAM_ADDRESS: u64 = 1;
pub(super) const EP_PARAM_ERR_MODE: u64 = 1 << 1;
pub(super) const EP_PARAM_ERR_HANDLER: u64 = 1 << 2;
pub(super) const ERR_MODE_NONE: c_int = 0;
pub(super) const ERR_MODE_PEER: c_int = 1;
pub(super) const EP_ATTR_TRANSPORTS: u64 = 1 << 3;
pub(super) const OP_FLAGS: u32 = 1 << 4;
pub(super) const OP_MEMORY_TYPE: u32 = 1 << 6;
/// `ucs_memory_type_t`.
pub(super) type MemoryType = c_int;
pub(super) const MEMORY_TYPE_HOST: MemoryType = 0;
pub(super) const MEMORY_TYPE_CUDA: MemoryType = 1;
pub(super) const CONTEXT_ATTR_MEMORY_TYPES: u64 = 1 << 2;
pub(super) const AM_SEND_EAGER: u32 = 1 << 1;
pub(super) const AM_SEND_RNDV: u32 = 1 << 2;
pub(super) const AM_RECV_RNDV: u64 = 1 << 17;
pub(super) const AM_HANDLER_ID: u64 = 1;
pub(super) const AM_HANDLER_FLAGS: u64 = 1 << 1;
pub(super) const AM_HANDLER_CB: u64 = 1 << 2;
pub(super) const AM_HANDLER_ARG: u64 = 1 << 3;
pub(super) const AM_WHOLE_MSG: u32 = 1;
pub(super) const EP_CLOSE_FORCE: u32 = 1;

/// `ucp_params_t`. UCX reads only fields of the mask, so what later versions append need not be there.
#[repr(C)]
pub(super) struct Params {
    pub(super) field_mask: u64,
    pub(super) features: u64,
    pub(super) request_size: usize,
    pub(super) request_init: usize,
    pub(super) request_cleanup: usize,
    pub(super) tag_sender_mask: u64,
    pub(super) mt_workers_shared: c_int,
    pub(super) rest: [u64; 8],
}

/// `ucp_context_attr_t`.
#[repr(C)]
pub(super) struct ContextAttr {
    pub(super) field_mask: u64,
    pub(super) request_size: usize,
    pub(super) thread_mode: c_int,
    /// A bit for each type of memory that UCX supports.
    pub(super) memory_types: u64,
    pub(super) rest: [u64; 16],
}

/// `ucp_worker_params_t`.
#[repr(C)]
pub(super) struct WorkerParams {
    pub(super) field_mask: u64,
    pub(super) thread_mode: c_int,
    pub(super) rest: [u64; 31],
}

/// `ucp_ep_params_t`.
#[repr(C)]
pub(super) struct EndpointParams {
    pub(super) field_mask: u64,
    pub(super) address: *const c_void,
    pub(super) err_mode: c_int,
    pub(super) err_handler: ErrorHandler,
    pub(super) err_arg: *mut c_void,
    pub(super) rest: [u64; 16],
}

/// `ucp_request_param_t`.
#[repr(C)]
pub(super) struct RequestParam {
    pub(super) op_attr_mask: u32,
    pub(super) flags: u32,
    pub(super) request: *mut c_void,
    pub(super) callback: usize,
    pub(super) datatype: u64,
    pub(super) user_data: *mut c_void,
    pub(super) reply_buffer: *mut c_void,
    pub(super) memory_type: MemoryType,
    pub(super) rest: [u64; 9],
}

/// `ucp_am_handler_param_t`.
#[repr(C)]
pub(super) struct AmHandlerParam {
    pub(super) field_mask: u64,
    pub(super) id: c_uint,
    pub(super) flags: u32,
    pub(super) callback: AmHandler,
    pub(super) arg: *mut c_void,
}

/// `ucp_am_recv_param_t`.
#[repr(C)]
pub(super) struct AmRecvParam {
    pub(super) recv_attr: u64,
    pub(super) reply_ep: *mut c_void,
}

/// `ucp_ep_attr_t`.
#[repr(C)]
pub(super) struct EndpointAttr {
    pub(super) field_mask: u64,
    pub(super) name_and_addresses: [u64; 36],
    pub(super) entries: *mut TransportEntry,
    pub(super) num_entries: c_uint,
    pub(super) entry_size: usize,
    pub(super) rest: [u64; 8],
}

/// `ucp_transport_entry_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct TransportEntry {
    pub(super) transport_name: *const c_char,
    pub(super) device_name: *const c_char,
}

/// `ucp_err_handler_cb_t`.
pub(super) type ErrorHandler = extern "C" fn(*mut c_void, *mut c_void, Status);

/// `ucp_am_recv_callback_t`.
pub(super) type AmHandler =
    extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void, usize, *const AmRecvParam) -> Status;

/// Declares the table of functions and how each is looked up.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions of a loaded library.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Looks up all functions.
            ///
            /// # Errors
            /// The name of one that is missing.
            ///
            /// # Safety
            /// `library` is UCX's libucp, or has no function of these names.
            pub(super) unsafe fn of(library: &libloading::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    // SAFETY: the function has this type in UCX's headers, as the caller guarantees that it is UCX's.
                    $($name: *unsafe { library.get(stringify!($name)) }.map_err(|_| stringify!($name))?,)*
                })
            }
        }
    };
}

functions! {
    ucp_get_version: fn(*mut c_uint, *mut c_uint, *mut c_uint);
    ucp_get_version_string: fn() -> *const c_char;
    ucp_config_read: fn(*const c_char, *const c_char, *mut *mut c_void) -> Status;
    ucp_config_release: fn(*mut c_void);
    ucp_init_version: fn(c_uint, c_uint, *const Params, *const c_void, *mut *mut c_void) -> Status;
    ucp_context_query: fn(*mut c_void, *mut ContextAttr) -> Status;
    ucp_worker_create: fn(*mut c_void, *const WorkerParams, *mut *mut c_void) -> Status;
    ucp_worker_destroy: fn(*mut c_void);
    ucp_worker_progress: fn(*mut c_void) -> c_uint;
    ucp_worker_get_address: fn(*mut c_void, *mut *mut c_void, *mut usize) -> Status;
    ucp_worker_release_address: fn(*mut c_void, *mut c_void);
    ucp_worker_set_am_recv_handler: fn(*mut c_void, *const AmHandlerParam) -> Status;
    ucp_ep_create: fn(*mut c_void, *const EndpointParams, *mut *mut c_void) -> Status;
    ucp_ep_query: fn(*mut c_void, *mut EndpointAttr) -> Status;
    ucp_ep_close_nbx: fn(*mut c_void, *const RequestParam) -> StatusPtr;
    ucp_ep_flush_nbx: fn(*mut c_void, *const RequestParam) -> StatusPtr;
    ucp_am_send_nbx: fn(*mut c_void, c_uint, *const c_void, usize, *const c_void, usize, *const RequestParam) -> StatusPtr;
    ucp_am_recv_data_nbx: fn(*mut c_void, *mut c_void, *mut c_void, usize, *const RequestParam) -> StatusPtr;
    ucp_am_data_release: fn(*mut c_void, *mut c_void);
    ucp_request_check_status: fn(*mut c_void) -> Status;
    ucp_request_free: fn(*mut c_void);
}

/// `ucs_status_string` of libucs, which libucp links.
pub(super) type StatusString = unsafe extern "C" fn(Status) -> *const c_char;

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// Offsets that a C compiler reports for the headers of 1.13.1 and of 1.22.0, and sizes that are at least those of 1.22.0.
    #[test]
    fn layout_is_that_of_the_headers() {
        assert_eq!((offset_of!(Params, features), offset_of!(Params, mt_workers_shared)), (8, 48));
        assert_eq!((offset_of!(ContextAttr, thread_mode), offset_of!(ContextAttr, memory_types)), (16, 24));
        assert_eq!(offset_of!(WorkerParams, thread_mode), 8);
        let endpoint = [offset_of!(EndpointParams, address), offset_of!(EndpointParams, err_mode)];
        assert_eq!(endpoint, [8, 16]);
        assert_eq!((offset_of!(EndpointParams, err_handler), offset_of!(EndpointParams, err_arg)), (24, 32));
        assert_eq!((offset_of!(RequestParam, flags), offset_of!(RequestParam, memory_type)), (4, 48));
        assert_eq!((offset_of!(AmHandlerParam, callback), offset_of!(AmHandlerParam, arg)), (16, 24));
        assert_eq!(offset_of!(AmRecvParam, reply_ep), 8);
        let attr = [
            offset_of!(EndpointAttr, entries),
            offset_of!(EndpointAttr, num_entries),
            offset_of!(EndpointAttr, entry_size),
        ];
        assert_eq!(attr, [296, 304, 312]);
        let sizes = [size_of::<Params>(), size_of::<WorkerParams>(), size_of::<EndpointParams>()];
        assert!(sizes.iter().zip([88, 200, 104]).all(|(own, theirs)| *own >= theirs), "{sizes:?}");
        assert!(size_of::<RequestParam>() >= 96 && size_of::<EndpointAttr>() >= 328);
    }

    #[test]
    fn statuses_are_read_from_pointers() {
        assert_eq!(status_of(std::ptr::null_mut()), None);
        assert_eq!(status_of(-1_isize as StatusPtr), Some(-1));
        assert_eq!(status_of(-100_isize as StatusPtr), Some(-100));
        assert_eq!(status_of(-101_isize as StatusPtr), None);
    }
}
