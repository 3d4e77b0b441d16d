//! The communicator of the real NCCL that belongs to one of this library: of the same ranks, on the same devices.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use mscclpp_communicator::Communicator;
use mscclpp_exec::cuda::Device;

use super::context::with_device;
use super::library::{Library, call};
use crate::abi::{Code, UniqueId};
use crate::entry::{Failure, Result};

/// Maximum number of bytes of a text that ranks send each other.
const MAX_TEXT_BYTES: usize = 1000;

/// A rank's communicator of the real NCCL.
pub(crate) struct Nested {
    pub(super) library: &'static Library,
    /// Its handle; 0 after its end.
    handle: AtomicUsize,
    /// Held while the communicator ends, and while another thread asks it for failures.
    ending: Mutex<()>,
}

impl Nested {
    /// Creates the communicators of all ranks: rank 0 makes the id. If one rank fails, all of them fail with its text. A call of
    /// all ranks.
    ///
    /// # Errors
    /// Those of the library, on all ranks; those of the control plane.
    pub(crate) fn new(library: &'static Library, communicator: &Communicator, device: &Device) -> Result<Self> {
        let (bootstrap, rank) = (communicator.bootstrap(), communicator.rank());
        let made = (rank == 0).then(|| library.unique_id().map(|id| id.0.map(|byte| byte as u8).to_vec()));
        let sent = made.as_ref().map(|made| encode(made.as_ref().map(Vec::as_slice))).unwrap_or_default();
        let received = bootstrap.broadcast(0, &sent)?;
        let id: [u8; 128] =
            decode(0, &received)?.try_into().map_err(|_| internal("rank 0 sent an id of another length"))?;
        let nested = with_device(device, || {
            let mut handle = ptr::null_mut();
            let (ranks, id) = (communicator.num_ranks() as c_int, UniqueId(id.map(|byte| byte as c_char)));
            // SAFETY: the function writes a handle; the id is passed by value, as its callers do.
            let code = unsafe {
                call!(
                    library,
                    "ncclCommInitRank",
                    fn(*mut *mut c_void, c_int, UniqueId, c_int),
                    &raw mut handle,
                    ranks,
                    id,
                    rank as c_int
                )
            };
            library.check("ncclCommInitRank", 0, code)?;
            Ok(Self { library, handle: AtomicUsize::new(handle as usize), ending: Mutex::default() })
        });
        let reports = bootstrap.all_gather(&encode(nested.as_ref().map(|_| &[][..])));
        let all = reports
            .map_err(Failure::from)
            .and_then(|reports| (0..).zip(reports).try_for_each(|(rank, report)| decode(rank, &report).map(drop)));
        match (nested, all) {
            (Ok(nested), Err(failure)) => {
                nested.abort();
                Err(failure)
            }
            (nested, _) => nested,
        }
    }

    /// Returns the handle.
    ///
    /// # Errors
    /// An invalid usage after the communicator's end.
    pub(crate) fn handle(&self) -> Result<usize> {
        match self.handle.load(Ordering::Acquire) {
            0 => Err(Failure::usage(
                "the communicator's forwarded calls have ended: it was aborted or revoked, or has failed",
            )),
            handle => Ok(handle),
        }
    }

    /// Calls a function of the library whose only parameter is a communicator.
    fn call_alone(&self, name: &'static str, handle: usize) -> Result<()> {
        let code = self.library.symbol(name).map(|at| {
            // SAFETY: `ncclCommFinalize`, `ncclCommDestroy`, `ncclCommAbort` and `ncclCommResume` take a communicator, which
            // exists: each end of one takes its handle away.
            unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> c_int>(at)(handle as *mut c_void)
            }
        });
        // A communicator that has ended has no text.
        self.library.check(name, 0, code)
    }

    /// Waits until the communicator's calls are complete, and admits no further ones.
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn finalize(&self) -> Result<()> {
        match self.library.has("ncclCommFinalize") {
            true => self.call_alone("ncclCommFinalize", self.handle()?),
            // Versions before 2.14 have no such function; `destroy` does the same.
            false => Ok(()),
        }
    }

    /// Frees the communicator after its calls.
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn destroy(&self) -> Result<()> {
        let _ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        match self.handle.swap(0, Ordering::AcqRel) {
            0 => Ok(()),
            handle => self.call_alone("ncclCommDestroy", handle),
        }
    }

    /// Frees the communicator without waiting for its calls, which end. There is no one to report a failure to. As NCCL allows,
    /// another thread may be in a call.
    pub(crate) fn abort(&self) {
        let _ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        match self.handle.swap(0, Ordering::AcqRel) {
            0 => {}
            handle => {
                if let Err(failure) = self.call_alone("ncclCommAbort", handle) {
                    crate::debug::warn(&failure.text);
                }
            }
        }
    }

    /// Releases memory of the communicator, or allocates it again, if the library can.
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn suspend(&self, flags: c_int) -> Result<()> {
        if !self.library.has("ncclCommSuspend") {
            return Ok(());
        }
        let handle = self.handle()?;
        // SAFETY: the communicator exists.
        let code =
            unsafe { call!(self.library, "ncclCommSuspend", fn(*mut c_void, c_int), handle as *mut c_void, flags) };
        self.library.check("ncclCommSuspend", handle, code)
    }

    /// Ends what [`suspend`](Self::suspend) began.
    ///
    /// # Errors
    /// Those of the library.
    pub(crate) fn resume(&self) -> Result<()> {
        match self.library.has("ncclCommResume") {
            true => self.call_alone("ncclCommResume", self.handle()?),
            false => Ok(()),
        }
    }

    /// Returns the failure of calls that were enqueued, if there is one.
    pub(crate) fn async_error(&self) -> Result<()> {
        // While another thread ends it, it has no failure to report.
        let Ok(_ending) = self.ending.try_lock() else { return Ok(()) };
        let Ok(handle) = self.handle() else { return Ok(()) };
        let mut error = Code::Success as c_int;
        // SAFETY: the function writes a code; the communicator exists.
        let code = unsafe {
            call!(
                self.library,
                "ncclCommGetAsyncError",
                fn(*mut c_void, *mut c_int),
                handle as *mut c_void,
                &raw mut error
            )
        };
        self.library.check("ncclCommGetAsyncError", handle, code)?;
        match error {
            _ if error == Code::InProgress as c_int => Ok(()),
            error => self.library.check("an earlier call", handle, Ok(error)),
        }
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        // One that is still there was neither destroyed nor aborted: the creation of its communicator failed.
        self.abort();
    }
}

fn internal(text: &str) -> Failure {
    Failure::new(Code::InternalError, text)
}

/// Encodes what a rank tells the others: a code, and data or the text of a failure.
fn encode(result: std::result::Result<&[u8], &Failure>) -> Vec<u8> {
    let (code, rest) = match result {
        Ok(data) => (Code::Success, data),
        Err(failure) => (failure.code, &failure.text.as_bytes()[..failure.text.len().min(MAX_TEXT_BYTES)]),
    };
    [&[code as u8], rest].concat()
}

/// Decodes what a rank tells the others.
fn decode(rank: u32, message: &[u8]) -> Result<&[u8]> {
    let (code, rest) = message.split_first().ok_or_else(|| internal("an empty message from another rank"))?;
    match Code::from_number(c_int::from(*code)) {
        Code::Success => Ok(rest),
        code => Err(Failure::new(code, format!("rank {rank}: {}", String::from_utf8_lossy(rest)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_data_or_the_failure_of_a_rank() {
        assert_eq!(decode(1, &encode(Ok(b"id"))).expect("data"), b"id");
        let failure = Failure::new(Code::RemoteError, "x".repeat(5000));
        let found = decode(3, &encode(Err(&failure))).expect_err("a failure");
        assert_eq!((found.code, found.text.len()), (Code::RemoteError, "rank 3: ".len() + MAX_TEXT_BYTES));
        assert_eq!(decode(0, &[]).expect_err("empty").code, Code::InternalError);
    }
}
