//! Calls, operators and windows of a communicator of the real NCCL.

use std::ffi::{c_int, c_uint, c_void};

use super::library::{Library, call};
use super::nested::Nested;
use crate::entry::Result;
use crate::kind::Kind;

/// Address of a caller's memory for a function of C.
fn pointer(address: usize) -> *mut c_void {
    address as *mut c_void
}

/// The arguments of a call of one rank, as its caller has passed them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded {
    pub(crate) kind: Kind,
    pub(crate) send: usize,
    pub(crate) recv: usize,
    pub(crate) count: usize,
    pub(crate) dtype: c_int,
    pub(crate) stream: usize,
    /// The scalar of an operator that the program has created: its address, and whether that is an address of the host.
    pub(crate) scalar: Option<Scalar>,
}

/// The scalar of an operator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scalar {
    /// Its address in device memory.
    Device(u64),
    /// Its bytes.
    Immediate(u64),
}

impl Nested {
    /// Makes a call.
    ///
    /// # Errors
    /// Those of the library; an invalid usage if it lacks the function.
    pub(crate) fn make(&self, call: &Forwarded) -> Result<()> {
        match call.scalar {
            None => self.make_with(call, call.kind.operator().unwrap_or(0)),
            Some(scalar) => {
                let op = self.create_operator(scalar, call.dtype)?;
                let made = self.make_with(call, op);
                // NCCL keeps the operator for calls that have returned.
                made.and(self.destroy_operator(op))
            }
        }
    }

    /// Makes a call with an operator of the library.
    fn make_with(&self, of: &Forwarded, op: c_int) -> Result<()> {
        let (library, handle) = (self.library, self.handle()?);
        let comm = pointer(handle);
        let Forwarded { kind, count, dtype, .. } = *of;
        let [send, recv, stream] = [of.send, of.recv, of.stream].map(pointer);
        type P = *mut c_void;
        // SAFETY: the arguments are those of the caller, for a function of NCCL with these parameters; the communicator
        // exists, and the operator is one of it.
        let (name, code) = unsafe {
            match kind {
                Kind::AllReduce(_) => (
                    "ncclAllReduce",
                    call!(
                        library,
                        "ncclAllReduce",
                        fn(P, P, usize, c_int, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        op,
                        comm,
                        stream
                    ),
                ),
                Kind::ReduceScatter(_) => (
                    "ncclReduceScatter",
                    call!(
                        library,
                        "ncclReduceScatter",
                        fn(P, P, usize, c_int, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        op,
                        comm,
                        stream
                    ),
                ),
                Kind::Reduce(_, root) => (
                    "ncclReduce",
                    call!(
                        library,
                        "ncclReduce",
                        fn(P, P, usize, c_int, c_int, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        op,
                        root,
                        comm,
                        stream
                    ),
                ),
                Kind::Broadcast(root) => (
                    "ncclBroadcast",
                    call!(
                        library,
                        "ncclBroadcast",
                        fn(P, P, usize, c_int, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        root,
                        comm,
                        stream
                    ),
                ),
                Kind::Gather(root) => (
                    "ncclGather",
                    call!(
                        library,
                        "ncclGather",
                        fn(P, P, usize, c_int, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        root,
                        comm,
                        stream
                    ),
                ),
                Kind::Scatter(root) => (
                    "ncclScatter",
                    call!(
                        library,
                        "ncclScatter",
                        fn(P, P, usize, c_int, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        root,
                        comm,
                        stream
                    ),
                ),
                Kind::AllGather => (
                    "ncclAllGather",
                    call!(
                        library,
                        "ncclAllGather",
                        fn(P, P, usize, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        comm,
                        stream
                    ),
                ),
                Kind::AllToAll => (
                    "ncclAlltoAll",
                    call!(
                        library,
                        "ncclAlltoAll",
                        fn(P, P, usize, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        comm,
                        stream
                    ),
                ),
                Kind::Send(peer) => (
                    "ncclSend",
                    call!(
                        library,
                        "ncclSend",
                        fn(P, usize, c_int, c_int, P, P),
                        send,
                        count,
                        dtype,
                        peer,
                        comm,
                        stream
                    ),
                ),
                Kind::Recv(peer) => (
                    "ncclRecv",
                    call!(
                        library,
                        "ncclRecv",
                        fn(P, usize, c_int, c_int, P, P),
                        recv,
                        count,
                        dtype,
                        peer,
                        comm,
                        stream
                    ),
                ),
            }
        };
        library.check(name, handle, code)
    }

    fn create_operator(&self, scalar: Scalar, dtype: c_int) -> Result<c_int> {
        const NAME: &str = "ncclRedOpCreatePreMulSum";
        let (handle, mut op) = (self.handle()?, 0);
        let (address, residence) = match &scalar {
            Scalar::Device(address) => (pointer(*address as usize), 0),
            Scalar::Immediate(bytes) => ((&raw const *bytes).cast_mut().cast(), 1),
        };
        // SAFETY: the function writes a number, and reads an element of the host or keeps an address of the device.
        let code = unsafe {
            call!(
                self.library,
                "ncclRedOpCreatePreMulSum",
                fn(*mut c_int, *mut c_void, c_int, c_int, *mut c_void),
                &raw mut op,
                address,
                dtype,
                residence,
                pointer(handle)
            )
        };
        self.library.check(NAME, handle, code)?;
        Ok(op)
    }

    fn destroy_operator(&self, op: c_int) -> Result<()> {
        let handle = self.handle()?;
        // SAFETY: the operator is one of the communicator, which exists.
        let code = unsafe { call!(self.library, "ncclRedOpDestroy", fn(c_int, *mut c_void), op, pointer(handle)) };
        self.library.check("ncclRedOpDestroy", handle, code)
    }

    /// Registers memory, and returns the library's handle; none if it has no use for it.
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn register(&self, at: *mut c_void, bytes: usize) -> Result<Option<usize>> {
        if !self.library.has("ncclCommRegister") {
            return Ok(None);
        }
        let (handle, mut registration) = (self.handle()?, std::ptr::null_mut());
        // SAFETY: the function writes a handle; the memory is the caller's, who registers it.
        let code = unsafe {
            call!(
                self.library,
                "ncclCommRegister",
                fn(*mut c_void, *mut c_void, usize, *mut *mut c_void),
                pointer(handle),
                at,
                bytes,
                &raw mut registration
            )
        };
        self.library.check("ncclCommRegister", handle, code)?;
        // Null: the library has nothing to register.
        Ok(Some(registration as usize).filter(|registration| *registration != 0))
    }

    /// Registers memory as a window, and returns the library's handle; none if it has no use for it. A call of all ranks.
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn register_window(&self, at: *mut c_void, bytes: usize, flags: c_int) -> Result<Option<usize>> {
        if !self.library.has("ncclCommWindowRegister") {
            return Ok(None);
        }
        let (handle, mut window) = (self.handle()?, std::ptr::null_mut());
        // SAFETY: as for `register`.
        let code = unsafe {
            call!(
                self.library,
                "ncclCommWindowRegister",
                fn(*mut c_void, *mut c_void, usize, *mut *mut c_void, c_int),
                pointer(handle),
                at,
                bytes,
                &raw mut window,
                flags
            )
        };
        self.library.check("ncclCommWindowRegister", handle, code)?;
        // Null: the library has no windows of this memory.
        Ok(Some(window as usize).filter(|window| *window != 0))
    }

    /// Ends a registration of [`register`](Self::register).
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn deregister(&self, registration: usize) -> Result<()> {
        let handle = self.handle()?;
        // SAFETY: the registration is one of the communicator, which exists.
        let code = unsafe {
            call!(
                self.library,
                "ncclCommDeregister",
                fn(*mut c_void, *mut c_void),
                pointer(handle),
                pointer(registration)
            )
        };
        self.library.check("ncclCommDeregister", handle, code)
    }

    /// Ends a registration of [`register_window`](Self::register_window).
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn deregister_window(&self, window: usize) -> Result<()> {
        let handle = self.handle()?;
        // SAFETY: as for `deregister`.
        let code = unsafe {
            call!(
                self.library,
                "ncclCommWindowDeregister",
                fn(*mut c_void, *mut c_void),
                pointer(handle),
                pointer(window)
            )
        };
        self.library.check("ncclCommWindowDeregister", handle, code)
    }

    /// Writes memory of this rank to a peer's window, and signals.
    ///
    /// # Errors
    /// Those of the library; an invalid usage if it lacks the function.
    pub(crate) fn put_signal(&self, put: &PutSignal) -> Result<()> {
        let PutSignal { local, count, dtype, peer, window, offset, signal, context, flags, stream } = *put;
        let handle = self.handle()?;
        let (local, window, comm, stream) = (pointer(local), pointer(window), pointer(handle), pointer(stream));
        type P = *mut c_void;
        // SAFETY: as for `make`; the window is one of the library.
        let code = unsafe {
            call!(
                self.library,
                "ncclPutSignal",
                fn(P, usize, c_int, c_int, P, usize, c_int, c_int, c_uint, P, P),
                local,
                count,
                dtype,
                peer,
                window,
                offset,
                signal,
                context,
                flags,
                comm,
                stream
            )
        };
        self.library.check("ncclPutSignal", handle, code)
    }

    /// Signals a peer.
    ///
    /// # Errors
    /// As [`put_signal`](Self::put_signal).
    pub(crate) fn signal(
        &self,
        peer: c_int,
        signal: c_int,
        context: c_int,
        flags: c_uint,
        stream: usize,
    ) -> Result<()> {
        let handle = self.handle()?;
        // SAFETY: as for `make`.
        let code = unsafe {
            call!(
                self.library,
                "ncclSignal",
                fn(c_int, c_int, c_int, c_uint, *mut c_void, *mut c_void),
                peer,
                signal,
                context,
                flags,
                pointer(handle),
                pointer(stream)
            )
        };
        self.library.check("ncclSignal", handle, code)
    }

    /// Waits for signals.
    ///
    /// # Errors
    /// As [`put_signal`](Self::put_signal).
    pub(crate) fn wait_signal(&self, signals: &mut [[c_int; 4]], stream: usize) -> Result<()> {
        let handle = self.handle()?;
        // SAFETY: as for `make`; there are as many descriptions.
        let code = unsafe {
            call!(
                self.library,
                "ncclWaitSignal",
                fn(c_int, *mut c_void, *mut c_void, *mut c_void),
                signals.len() as c_int,
                signals.as_mut_ptr().cast(),
                pointer(handle),
                pointer(stream)
            )
        };
        self.library.check("ncclWaitSignal", handle, code)
    }
}

/// The arguments of `ncclPutSignal`; the window is one of the library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutSignal {
    pub(crate) local: usize,
    pub(crate) count: usize,
    pub(crate) dtype: c_int,
    pub(crate) peer: c_int,
    pub(crate) window: usize,
    pub(crate) offset: usize,
    pub(crate) signal: c_int,
    pub(crate) context: c_int,
    pub(crate) flags: c_uint,
    pub(crate) stream: usize,
}

/// Makes calls in one group of the library.
///
/// # Errors
/// The first one of the calls and of the group.
pub(crate) fn group(library: &Library, calls: impl FnOnce() -> Result<()>) -> Result<()> {
    // SAFETY: the function has no parameters.
    library.check("ncclGroupStart", 0, unsafe { call!(library, "ncclGroupStart", fn()) })?;
    let made = calls();
    // SAFETY: as above. It ends the group also if a call has failed.
    let ended = library.check("ncclGroupEnd", 0, unsafe { call!(library, "ncclGroupEnd", fn()) });
    made.and(ended)
}
