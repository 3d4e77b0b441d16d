//! A worker of UCX, its endpoints and its requests, with the lifetimes that UCX requires.
//!
//! # Why this is sound
//!
//! - A worker is used by one thread at a time: it is not `Sync`, and UCX is told that threads may alternate. What shares its
//!   cells (endpoints, transfers) belongs to the engine; the thread of `progress` only lets UCX work, under the worker's lock.
//! - UCX calls back only within its functions, in the same thread. The callbacks touch the [`Inbox`] and the state of an
//!   endpoint, which no other code borrows while it calls UCX.
//! - Memory of a request is owned by a [`Transfer`] until UCX reports that the request is complete. Transfers that are dropped
//!   earlier go to the worker, which frees them when they are complete. Endpoints that detect losses complete all requests when they
//!   are closed; what remains of others is never freed, because another process may still read and write it by its address.
//! - Of a region, UCX gets addresses at which this process accesses nothing, so that it may access them while a plan accesses the same
//!   memory, and after a launch has failed, when the owner's pages at its own addresses are other ones (`process::buffer`).
//! - A buffer in memory of a device belongs to a transfer as one of the host does. UCX is told the type of its memory, and the host does
//!   not access it.
//! - A copy of the process, made by `fork`, leaves everything as it is.

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::rc::Rc;
use std::time::Duration;

use mscclpp_bootstrap::ActiveTimeout;

use super::api::*;
use super::inbox::{self, Arrived, Descriptor, Inbox, Token};
use super::library::{Context, Library};
use super::transfer::{Abandoned, Content, Memory, Outgoing, Request, Transfer};
use crate::Buffer;
use mscclpp_base::shm::ProcessMark;

/// Identifies the active messages of the engine among those of a worker.
const AM_ID: c_uint = 1;

/// Maximum duration of the destructor's wait for UCX to send what is on its way, and to end what it has begun.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// A worker.
pub(super) struct Worker {
    library: &'static Library,
    handle: *mut c_void,
    supports_cuda: bool,
    pub(super) inbox: Box<Inbox>,
    abandoned: Abandoned,
    /// Endpoints that are being closed.
    closing: RefCell<Vec<Request>>,
    /// What the error handlers of endpoints write to.
    errors: RefCell<Vec<Rc<Cell<Status>>>>,
    /// Number of times that UCX has done something.
    num_events: Cell<u64>,
    mark: ProcessMark,
}

// SAFETY: UCX's objects may be used by threads that alternate (`THREAD_MODE_SERIALIZED`), and so may the worker's cells. Its `Rc`
// is shared only with endpoints and transfers, which the engine owns together with the worker.
unsafe impl Send for Worker {}

/// An endpoint: the way to another worker.
pub(super) struct Endpoint {
    handle: *mut c_void,
    /// The error that UCX has reported.
    error: Rc<Cell<Status>>,
    detects_loss: bool,
    is_closed: bool,
}

// SAFETY: as for the worker, in whose engine the endpoint is.
unsafe impl Send for Endpoint {}

/// Notes the error of an endpoint. UCX calls it within its functions.
extern "C" fn fail(arg: *mut c_void, _endpoint: *mut c_void, status: Status) {
    // SAFETY: `arg` is the cell of an endpoint, which is freed after the worker is destroyed.
    unsafe { &*arg.cast::<Cell<Status>>() }.set(status);
}

/// Parameters of a request.
fn param(flags: u32, memory_type: MemoryType) -> RequestParam {
    RequestParam {
        op_attr_mask: OP_FLAGS | OP_MEMORY_TYPE,
        flags,
        request: null_mut(),
        callback: 0,
        datatype: 0,
        user_data: null_mut(),
        reply_buffer: null_mut(),
        memory_type,
        rest: [0; _],
    }
}

impl Worker {
    /// Creates a worker.
    ///
    /// # Errors
    /// UCX's reason.
    pub(super) fn new(library: &'static Library, context: Context) -> Result<Self, String> {
        let params = WorkerParams {
            field_mask: WORKER_PARAM_THREAD_MODE,
            thread_mode: THREAD_MODE_SERIALIZED as c_int,
            rest: [0; _],
        };
        let mut handle = null_mut();
        // SAFETY: the context is valid as long as the process; writes one pointer.
        library.check(unsafe { (library.functions.ucp_worker_create)(context.handle, &params, &mut handle) })?;
        let worker = Self {
            library,
            handle,
            supports_cuda: context.supports_cuda,
            inbox: Box::default(),
            abandoned: Abandoned::default(),
            closing: RefCell::default(),
            errors: RefCell::default(),
            num_events: Cell::default(),
            mark: ProcessMark::new(),
        };
        let handler = AmHandlerParam {
            field_mask: AM_HANDLER_ID | AM_HANDLER_FLAGS | AM_HANDLER_CB | AM_HANDLER_ARG,
            id: AM_ID,
            flags: AM_WHOLE_MSG,
            callback: inbox::receive,
            arg: (&raw const *worker.inbox).cast_mut().cast(),
        };
        // SAFETY: the inbox does not move, and is freed after the worker.
        library.check(unsafe { (library.functions.ucp_worker_set_am_recv_handler)(handle, &handler) })?;
        Ok(worker)
    }

    /// Returns whether UCX supports memory of CUDA devices.
    pub(super) fn supports_cuda(&self) -> bool {
        self.supports_cuda
    }

    /// Returns the address that peers connect to.
    pub(super) fn address(&self) -> Result<Vec<u8>, String> {
        let ucx = &self.library.functions;
        let (mut address, mut len) = (null_mut(), 0);
        // SAFETY: writes a pointer and a length.
        self.library.check(unsafe { (ucx.ucp_worker_get_address)(self.handle, &mut address, &mut len) })?;
        // SAFETY: UCX has returned an address of this length.
        let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), len) }.to_vec();
        // SAFETY: the address is not used any more.
        unsafe { (ucx.ucp_worker_release_address)(self.handle, address) };
        Ok(bytes)
    }

    /// Lets UCX work, and returns whether it did anything.
    pub(super) fn progress(&self) -> bool {
        if self.mark.is_copy() {
            return false;
        }
        // SAFETY: the worker is valid, and its inbox not borrowed.
        let has_worked = unsafe { (self.library.functions.ucp_worker_progress)(self.handle) != 0 };
        self.num_events.set(self.num_events.get() + u64::from(has_worked));
        has_worked
    }

    /// Returns the number of times that UCX has done something.
    pub(super) fn num_events(&self) -> u64 {
        self.num_events.get()
    }

    /// Accepts no more messages of a connection.
    pub(super) fn forget(&self, token: &Token) {
        for arrived in self.inbox.forget(token) {
            if let Arrived::Offer(_, _, descriptor, _) = arrived {
                self.release(descriptor);
            }
        }
    }

    /// Receives nothing of a rendezvous, so that its sender continues.
    pub(super) fn release(&self, descriptor: Descriptor) {
        if !self.mark.is_copy() {
            // SAFETY: the descriptor was not used before.
            unsafe { (self.library.functions.ucp_am_data_release)(self.handle, descriptor.0) };
        }
    }

    /// Creates an endpoint to the worker with an address. UCX trusts the address.
    ///
    /// `detects_loss`: whether UCX has to detect the loss of the peer. Transports over shared memory cannot.
    pub(super) fn connect(&self, address: &[u8], detects_loss: bool) -> Result<Endpoint, String> {
        let error = Rc::new(Cell::new(OK));
        self.errors.borrow_mut().push(Rc::clone(&error));
        let params = EndpointParams {
            field_mask: EP_PARAM_ADDRESS | EP_PARAM_ERR_MODE | EP_PARAM_ERR_HANDLER,
            address: address.as_ptr().cast(),
            err_mode: if detects_loss { ERR_MODE_PEER } else { ERR_MODE_NONE },
            err_handler: fail,
            err_arg: Rc::as_ptr(&error).cast_mut().cast(),
            rest: [0; _],
        };
        let mut handle = null_mut();
        // SAFETY: the worker has the cell of the error until it is destroyed; the address comes from a worker.
        let status = unsafe { (self.library.functions.ucp_ep_create)(self.handle, &params, &mut handle) };
        self.library.check(status)?;
        Ok(Endpoint { handle, error, detects_loss, is_closed: false })
    }

    pub(super) fn library(&self) -> &'static Library {
        self.library
    }

    /// Returns whether UCX says what an endpoint uses.
    pub(super) fn reports_transports(&self) -> bool {
        self.library.reports_transports()
    }

    /// Returns the transports and devices of an endpoint; `None` if UCX cannot say.
    pub(super) fn transports(&self, endpoint: &Endpoint) -> Option<Vec<(String, String)>> {
        if !self.reports_transports() || endpoint.is_closed {
            return None;
        }
        let mut entries = [TransportEntry { transport_name: null(), device_name: null() }; 32];
        let mut attr = EndpointAttr {
            field_mask: EP_ATTR_TRANSPORTS,
            name_and_addresses: [0; _],
            entries: entries.as_mut_ptr(),
            num_entries: entries.len() as c_uint,
            entry_size: size_of::<TransportEntry>(),
            rest: [0; _],
        };
        // SAFETY: the endpoint is valid; UCX writes at most the stated number of entries.
        let status = unsafe { (self.library.functions.ucp_ep_query)(endpoint.handle, &mut attr) };
        self.library.check(status).ok()?;
        // SAFETY: UCX has returned strings that live as long as the endpoint, or null.
        let text = |text: *const std::ffi::c_char| match text.is_null() {
            true => String::new(),
            // SAFETY: as above.
            false => unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        };
        let entries = entries.iter().take(attr.num_entries as usize);
        Some(entries.map(|entry| (text(entry.transport_name), text(entry.device_name))).collect())
    }

    /// Returns what carries the messages of an endpoint, for people.
    pub(super) fn describe(&self, endpoint: &Endpoint) -> String {
        let transports = match self.transports(endpoint) {
            Some(found) => found.iter().map(|(name, device)| format!("{name}/{device}")).collect::<Vec<_>>().join(", "),
            None => "its version does not report transports".into(),
        };
        format!("{}: {transports}", self.library.identity())
    }

    /// Sends an active message.
    ///
    /// # Panics
    /// If the header has more than `MAX_HEADER_BYTES`.
    pub(super) fn send<B: Buffer + 'static>(
        &self,
        endpoint: &Endpoint,
        header: &[u8],
        content: Content<B>,
    ) -> Transfer<Outgoing<B>> {
        let mut outgoing = Outgoing { header: [0; _], content };
        outgoing.header[..header.len()].copy_from_slice(header);
        let memory = Box::into_raw(Box::new(outgoing));
        // SAFETY: the pointer is from `Box::into_raw`, and only this function has it so far.
        let content = unsafe { &mut (*memory).content };
        let flag = match content {
            Content::Batch(_) => AM_SEND_EAGER,
            Content::Offer(..) => AM_SEND_RNDV,
        };
        let (bytes, len, memory_type) = content.bytes();
        let param = param(flag, memory_type);
        let pointer = match endpoint.is_closed {
            true => LOST,
            // SAFETY: the endpoint is valid. Header and content stay where they are until the request is complete: only the transfer has
            // the pointer to their owner. This process changes neither, except for a region, whose bytes it does not access here.
            false => unsafe {
                let (header, header_bytes) = ((&raw const (*memory).header).cast(), header.len());
                let send = self.library.functions.ucp_am_send_nbx;
                send(endpoint.handle, AM_ID, header, header_bytes, bytes.cast(), len, &param)
            },
        };
        Transfer::new(pointer, memory, &self.abandoned)
    }

    /// Receives the bytes of a rendezvous into memory.
    ///
    /// # Panics
    /// If the memory is shorter than `len`.
    pub(super) fn receive<B: Buffer + 'static>(
        &self,
        descriptor: Descriptor,
        len: usize,
        memory: Memory<B>,
    ) -> Transfer<Memory<B>> {
        let memory = Box::into_raw(Box::new(memory));
        // SAFETY: the pointer is from `Box::into_raw`, and only this function has it so far.
        let (bytes, param) = unsafe { ((*memory).base(len), param(0, (*memory).memory_type())) };
        let receive = self.library.functions.ucp_am_recv_data_nbx;
        // SAFETY: the descriptor was not used before. The memory stays where it is until the request is complete: only the
        // transfer has the pointer to its owner.
        let pointer = unsafe { receive(self.handle, descriptor.0, bytes.cast(), len, &param) };
        Transfer::new(pointer, memory, &self.abandoned)
    }

    /// Starts to flush an endpoint: what was sent needs no more calls of this worker when the flush is complete.
    pub(super) fn flush(&self, endpoint: &Endpoint) -> Transfer<()> {
        let pointer = match endpoint.is_closed {
            true => LOST,
            // SAFETY: the endpoint is valid.
            false => unsafe { (self.library.functions.ucp_ep_flush_nbx)(endpoint.handle, &param(0, MEMORY_TYPE_HOST)) },
        };
        Transfer::new(pointer, Box::into_raw(Box::new(())), &self.abandoned)
    }

    /// Returns whether a transfer is complete, and its result then.
    pub(super) fn poll<T: Send>(&self, transfer: &mut Transfer<T>) -> Option<Result<(), String>> {
        transfer.poll(|request| self.status(request)).map(|result| self.library.check(result))
    }

    /// Returns the error that UCX has reported of an endpoint.
    pub(super) fn error(&self, endpoint: &Endpoint) -> Option<String> {
        self.library.check(endpoint.error.get()).err()
    }

    /// Ends an endpoint. Transfers that are on their way end too, if UCX detects losses; otherwise they may remain.
    pub(super) fn close(&self, endpoint: &mut Endpoint) {
        if self.mark.is_copy() || std::mem::replace(&mut endpoint.is_closed, true) {
            return;
        }
        let param = param(if endpoint.detects_loss { EP_CLOSE_FORCE } else { 0 }, MEMORY_TYPE_HOST);
        // SAFETY: the endpoint is valid, and not used after this.
        let pointer = unsafe { (self.library.functions.ucp_ep_close_nbx)(endpoint.handle, &param) };
        if status_of(pointer).is_none() && !pointer.is_null() {
            self.closing.borrow_mut().push(Request(pointer));
        }
    }

    /// Returns whether all endpoints that were ended are destroyed.
    fn is_closed(&self) -> bool {
        self.abandoned.borrow_mut().retain(|(request, _)| self.status(request).is_none());
        self.closing.borrow_mut().retain(|request| self.status(request).is_none());
        self.closing.borrow().is_empty()
    }

    /// Returns the result of a request, and frees it, if it is complete. A caller that gets a result forgets the request.
    fn status(&self, request: &Request) -> Option<Status> {
        let ucx = &self.library.functions;
        // SAFETY: the request is valid until it is freed below.
        let status = unsafe { (ucx.ucp_request_check_status)(request.0) };
        if status == IN_PROGRESS {
            return None;
        }
        // SAFETY: as above; it is complete, and forgotten by the caller.
        unsafe { (ucx.ucp_request_free)(request.0) };
        Some(status)
    }

    /// Lets UCX work until a condition holds, but not for long.
    pub(super) fn progress_until(&self, mut done: impl FnMut(&Self) -> bool) -> bool {
        let mut timeout = ActiveTimeout::new(CLOSE_TIMEOUT);
        loop {
            if done(self) {
                return true;
            }
            if self.mark.is_copy() || timeout.is_expired() {
                return false;
            }
            if !self.progress() {
                std::thread::yield_now();
            }
        }
    }
}

/// The error of a closed endpoint: `UCS_ERR_CONNECTION_RESET`.
const LOST: StatusPtr = -25_isize as StatusPtr;

impl Drop for Worker {
    fn drop(&mut self) {
        // UCX is destroyed by the process that has created it.
        let is_over = !self.mark.is_copy() && self.progress_until(Self::is_closed);
        std::mem::forget(std::mem::take(&mut *self.abandoned.borrow_mut()));
        if is_over {
            // SAFETY: all endpoints are closed, and nothing uses the worker any more.
            unsafe { (self.library.functions.ucp_worker_destroy)(self.handle) };
            return;
        }
        // UCX may still use this memory.
        std::mem::forget(std::mem::take(&mut self.inbox));
        std::mem::forget(std::mem::take(&mut *self.errors.borrow_mut()));
    }
}
