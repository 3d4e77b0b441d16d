//! Registered memory, windows and one-sided calls of a communicator of the real NCCL.

use std::ffi::{c_int, c_uint, c_void};

use super::calls::pointer;
use super::library::call;
use super::nested::Nested;
use crate::entry::Result;

impl Nested {
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
