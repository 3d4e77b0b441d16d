//! Calls and operators of a communicator of the real NCCL.

use std::ffi::{c_int, c_void};

use super::library::{Library, call};
use super::nested::Nested;
use crate::entry::Result;
use crate::kind::Kind;

/// Address of a caller's memory for a function of C.
pub(super) fn pointer(address: usize) -> *mut c_void {
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
        let name = kind.function();
        type P = *mut c_void;
        // SAFETY: the arguments are those of the caller, for a function of NCCL with these parameters; the communicator
        // exists, and the operator is one of it.
        let code = unsafe {
            match kind {
                Kind::AllGather | Kind::AllToAll => {
                    call!(library, name, fn(P, P, usize, c_int, P, P), send, recv, count, dtype, comm, stream)
                }
                Kind::Reduce(_, root) => {
                    call!(
                        library,
                        name,
                        fn(P, P, usize, c_int, c_int, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        op,
                        root,
                        comm,
                        stream
                    )
                }
                // An operator or a root.
                Kind::AllReduce(_)
                | Kind::ReduceScatter(_)
                | Kind::Broadcast(_)
                | Kind::Gather(_)
                | Kind::Scatter(_) => {
                    let number = match kind {
                        Kind::Broadcast(root) | Kind::Gather(root) | Kind::Scatter(root) => root,
                        _ => op,
                    };
                    call!(
                        library,
                        name,
                        fn(P, P, usize, c_int, c_int, P, P),
                        send,
                        recv,
                        count,
                        dtype,
                        number,
                        comm,
                        stream
                    )
                }
                Kind::Send(peer) | Kind::Recv(peer) => {
                    let memory = if matches!(kind, Kind::Send(_)) { send } else { recv };
                    call!(library, name, fn(P, usize, c_int, c_int, P, P), memory, count, dtype, peer, comm, stream)
                }
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
