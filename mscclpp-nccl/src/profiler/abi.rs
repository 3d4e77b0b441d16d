//! The interface of plugins, versions 6 and 7 (`ncclProfiler_v6`, `ncclProfiler_v7`), which NCCL 2.32 calls first.
//!
//! The descriptors of version 7 begin with the fields of version 6, so that one struct serves both.

use std::ffi::{c_char, c_int, c_void};

use super::logger::Logger;

/// Bits of the mask of events that a plugin asks for, and types of events.
pub(super) mod event {
    use std::ffi::c_int;

    pub(crate) const GROUP: c_int = 1 << 0;
    pub(crate) const COLL: c_int = 1 << 1;
    pub(crate) const P2P: c_int = 1 << 2;
    pub(crate) const PROXY_OP: c_int = 1 << 3;
    pub(crate) const PROXY_STEP: c_int = 1 << 4;
    pub(crate) const KERNEL_CHANNEL: c_int = 1 << 6;
    pub(crate) const NET_PLUGIN: c_int = 1 << 7;
    pub(crate) const GROUP_API: c_int = 1 << 8;
    pub(crate) const COLL_API: c_int = 1 << 9;
    pub(crate) const P2P_API: c_int = 1 << 10;
    pub(crate) const KERNEL_LAUNCH: c_int = 1 << 11;
    pub(crate) const COPY_ENGINE: c_int = 7 << 12;

    /// Events whose parent is an event of a collective call or of a transfer.
    const BELOW_TASKS: c_int = PROXY_OP | PROXY_STEP | KERNEL_CHANNEL | NET_PLUGIN;

    /// Bits for which NCCL sends events of each type: those of the type itself and of the events below it.
    pub(crate) const FOR_P2P: c_int = P2P | BELOW_TASKS;
    pub(crate) const FOR_COLL: c_int = COLL | BELOW_TASKS;
    pub(crate) const FOR_GROUP: c_int = GROUP | FOR_COLL | FOR_P2P;
    pub(crate) const FOR_P2P_API: c_int = P2P_API | FOR_P2P;
    pub(crate) const FOR_COLL_API: c_int = COLL_API | FOR_COLL | COPY_ENGINE;
    pub(crate) const FOR_GROUP_API: c_int = GROUP_API | KERNEL_LAUNCH | GROUP | FOR_COLL_API | FOR_P2P_API;
}

/// State of the event of a group: its beginning is complete.
pub(super) const GROUP_START_STOPPED: c_int = 23;

/// State of the event of a group: its end begins.
pub(super) const GROUP_END_STARTED: c_int = 24;

/// A group of calls.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct GroupApi {
    pub(super) is_captured: bool,
    /// Depth of groups, with the one that each call opens.
    pub(super) depth: c_int,
}

/// A call of all ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CollApi {
    pub(super) function: *const c_char,
    pub(super) count: usize,
    pub(super) dtype: *const c_char,
    pub(super) root: c_int,
    pub(super) stream: *mut c_void,
    pub(super) is_captured: bool,
    /// Since version 7.
    pub(super) tag: u64,
}

/// A call of a transfer.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct P2pApi {
    pub(super) function: *const c_char,
    pub(super) count: usize,
    pub(super) dtype: *const c_char,
    pub(super) stream: *mut c_void,
    pub(super) is_captured: bool,
    /// Since version 7.
    pub(super) tag: u64,
}

/// A launch.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KernelLaunch {
    pub(super) stream: *mut c_void,
}

/// A call of all ranks that was enqueued.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Coll {
    pub(super) sequence: u64,
    pub(super) function: *const c_char,
    pub(super) send: *const c_void,
    pub(super) recv: *mut c_void,
    pub(super) count: usize,
    pub(super) root: c_int,
    pub(super) dtype: *const c_char,
    pub(super) num_channels: u8,
    pub(super) num_warps: u8,
    pub(super) algorithm: *const c_char,
    pub(super) protocol: *const c_char,
    pub(super) group: *mut c_void,
    /// Since version 7, as the fields that follow.
    pub(super) kernel_variant: *const c_char,
    pub(super) is_symmetric: bool,
    pub(super) tag: u64,
}

/// A transfer that was enqueued.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct P2p {
    pub(super) function: *const c_char,
    pub(super) buffer: *mut c_void,
    pub(super) dtype: *const c_char,
    pub(super) count: usize,
    pub(super) peer: c_int,
    pub(super) num_channels: u8,
    pub(super) group: *mut c_void,
    /// Since version 7.
    pub(super) tag: u64,
}

/// What is specific to a type of events. [`Coll`] is the largest one of either version.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Detail {
    pub(super) group_api: GroupApi,
    pub(super) coll_api: CollApi,
    pub(super) p2p_api: P2pApi,
    pub(super) kernel_launch: KernelLaunch,
    pub(super) coll: Coll,
    pub(super) p2p: P2p,
}

impl Detail {
    /// No detail: zeros, so that plugins which copy whole descriptors read no uninitialized fields.
    pub(super) const NONE: Self = Self {
        coll: Coll {
            sequence: 0,
            function: std::ptr::null(),
            send: std::ptr::null(),
            recv: std::ptr::null_mut(),
            count: 0,
            root: 0,
            dtype: std::ptr::null(),
            num_channels: 0,
            num_warps: 0,
            algorithm: std::ptr::null(),
            protocol: std::ptr::null(),
            group: std::ptr::null_mut(),
            kernel_variant: std::ptr::null(),
            is_symmetric: false,
            tag: 0,
        },
    };
}

/// Description of an event.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) kind: u64,
    pub(super) parent: *mut c_void,
    pub(super) rank: c_int,
    pub(super) detail: Detail,
}

type Init = unsafe extern "C" fn(
    context: *mut *mut c_void,
    communicator: u64,
    mask: *mut c_int,
    name: *const c_char,
    num_nodes: c_int,
    num_ranks: c_int,
    rank: c_int,
    logger: Logger,
) -> c_int;
type StartEvent =
    unsafe extern "C" fn(context: *mut c_void, event: *mut *mut c_void, descriptor: *mut Descriptor) -> c_int;
type StopEvent = unsafe extern "C" fn(event: *mut c_void) -> c_int;
type RecordEventState = unsafe extern "C" fn(event: *mut c_void, state: c_int, arguments: *mut c_void) -> c_int;
type Finalize = unsafe extern "C" fn(context: *mut c_void) -> c_int;

/// What a plugin exports as `ncclProfiler_v6` or `ncclProfiler_v7`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Table {
    pub(super) name: *const c_char,
    pub(super) init: Option<Init>,
    pub(super) start_event: Option<StartEvent>,
    pub(super) stop_event: Option<StopEvent>,
    pub(super) record_event_state: Option<RecordEventState>,
    pub(super) finalize: Option<Finalize>,
}
