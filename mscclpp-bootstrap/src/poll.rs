//! Waiting for several sockets at once, and being woken up.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::error::Error;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Bytes to read, or the end.
    Read,
    /// Room to write as well.
    ReadWrite,
    /// Room to write alone.
    Write,
}

/// Waits until one of the sockets has something, or the time is over, and says which have.
///
/// # Errors
/// What the system says, but for interruptions, which end the wait early.
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
    /// A waker that has not been called.
    ///
    /// # Errors
    /// [`Error::System`] if there are no file descriptors left.
    pub(crate) fn new() -> Result<Self, Error> {
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map(Self)
            .map_err(|error| Error::System { what: "cannot create an event".into(), reason: error.to_string() })
    }

    /// Ends the wait, or the next one if nobody waits.
    pub(crate) fn wake(&self) {
        // It fails only where it has been called 2^64 times and nobody listened.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes the calls so far.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
