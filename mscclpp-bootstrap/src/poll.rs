//! Waits for several sockets at once, and wakes a waiting thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::error::Error;

#[cfg(not(target_os = "linux"))]
compile_error!("mscclpp-bootstrap needs Linux; `mscclpp` without default features runs all ranks in one process");

/// Readiness to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Bytes to read, or the end of the stream.
    Read,
    /// Bytes to read, or room to write.
    ReadWrite,
    /// Room to write only.
    Write,
}

/// Waits until a socket is ready or the timeout expires, and returns which sockets are ready.
///
/// # Errors
/// The system's error, except interruptions, which end the wait early.
pub(crate) fn wait(sockets: &[(BorrowedFd<'_>, Interest)], timeout: Option<Duration>) -> Result<Vec<bool>, Error> {
    let mut polled: Vec<_> = sockets
        .iter()
        .map(|(fd, interest)| {
            let flags = match interest {
                Interest::Read => PollFlags::IN,
                Interest::ReadWrite => PollFlags::IN | PollFlags::OUT,
                Interest::Write => PollFlags::OUT,
            };
            PollFd::from_borrowed_fd(*fd, flags)
        })
        .collect();
    let timeout =
        timeout.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
    match rustix::event::poll(&mut polled, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
        Err(error) => Err(Error::System { what: "cannot wait for connections".into(), reason: error.to_string() }),
    }
}

/// Ends another thread's wait.
#[derive(Debug)]
pub(crate) struct Waker(OwnedFd);

impl Waker {
    /// Creates a waker without pending calls.
    ///
    /// # Errors
    /// [`Error::NoDescriptor`].
    pub(crate) fn new() -> Result<Self, Error> {
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Self)
            .map_err(|error| Error::of_system("cannot create an event", &error.into()))
    }

    /// Ends the current wait, or the next one if no thread waits.
    pub(crate) fn wake(&self) {
        // The write fails only after 2^64 calls without a `clear`.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Clears the calls so far.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
