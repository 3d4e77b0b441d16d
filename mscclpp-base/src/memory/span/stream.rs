//! Transfers between spans and sockets without a copy in between.
//!
//! The system accesses the bytes while it copies them, as a process does with which the memory is shared: no reference to
//! them exists, and what a racing access of a wrong plan reads or leaves is unspecified bytes.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use super::Span;

impl Span<'_> {
    /// Sends `prefix` and then the bytes of the span, as many as the system takes without waiting, and returns how many that
    /// were.
    ///
    /// # Errors
    /// Those of `sendmsg`.
    pub fn send(self, stream: &TcpStream, prefix: &[u8]) -> io::Result<usize> {
        let mut parts = [part(prefix.as_ptr().cast_mut(), prefix.len()), part(self.base, self.len)];
        let message = message(&mut parts);
        // SAFETY: the system only reads the parts: `prefix` is borrowed, and the span is in a slice that is lent, so it is
        // valid for reads. The descriptor is open, because the stream is borrowed.
        let n =
            unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Receives the bytes that have arrived, the first ones into the span and those after them into `rest`, and returns how
    /// many there were.
    ///
    /// # Errors
    /// Those of `recvmsg`; [`ErrorKind::InvalidInput`](io::ErrorKind::InvalidInput) if the span may not be written.
    pub fn receive(self, stream: &TcpStream, rest: &mut [u8]) -> io::Result<usize> {
        if !self.is_writable() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut parts = [part(self.base, self.len), part(rest.as_mut_ptr(), rest.len())];
        let mut message = message(&mut parts);
        // SAFETY: the system writes only the parts: `rest` is borrowed mutably, and the span is in a slice that is lent for
        // writing. The descriptor is open, because the stream is borrowed.
        let n = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }
}

fn part(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast(), iov_len: len }
}

fn message(parts: &mut [libc::iovec; 2]) -> libc::msghdr {
    // SAFETY: zeros are a valid message: no address, no parts and no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    message
}
