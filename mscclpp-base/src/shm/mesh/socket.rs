//! Connections between ranks of different processes: Unix sockets, over which descriptors are sent.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use super::{MAX_BYTES, MAX_FILES, Sent, SharedFile, lost};
use crate::error::Error;

/// Sends a message to `local_rank`. A slab is sent as its file, after the others.
pub(super) fn send(stream: &UnixStream, local_rank: usize, sent: &Sent) -> Result<(), Error> {
    let slab = sent.slab.as_ref().map(|slab| slab.file());
    let files: Vec<BorrowedFd<'_>> = sent.files.iter().chain(slab).map(AsFd::as_fd).collect();
    let message = [&(sent.bytes.len() as u32).to_le_bytes(), sent.bytes.as_slice()].concat();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    let mut done = 0;
    while done < message.len() {
        match rustix::net::sendmsg(stream, &[IoSlice::new(&message[done..])], &mut control, SendFlags::NOSIGNAL) {
            Ok(n) => {
                done += n;
                control.clear();
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => poll_for(stream.as_fd(), PollFlags::OUT, Duration::from_millis(10)),
            Err(errno) => return Err(lost(local_rank, format!("its connection failed: {errno}"))),
        }
    }
    Ok(())
}

/// Receives a message from `local_rank`; see [`Mesh::receive`](super::Mesh::receive).
pub(super) fn receive(
    stream: &UnixStream,
    local_rank: usize,
    wait: &mut impl FnMut() -> Result<(), Error>,
) -> Result<Sent, Error> {
    let mut files = Vec::new();
    let mut header = [0; 4];
    fill(stream, local_rank, &mut header, &mut files, wait)?;
    let len = u32::from_le_bytes(header) as usize;
    if len > MAX_BYTES {
        let reason = format!("it sent a message of {len} bytes, expected at most {MAX_BYTES} bytes");
        return Err(lost(local_rank, reason));
    }
    let mut bytes = vec![0; len];
    fill(stream, local_rank, &mut bytes, &mut files, wait)?;
    Ok(Sent { bytes, files, slab: None })
}

fn fill(
    stream: &UnixStream,
    local_rank: usize,
    bytes: &mut [u8],
    files: &mut Vec<SharedFile>,
    wait: &mut impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let mut have = 0;
    while have < bytes.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes[have..])];
        match rustix::net::recvmsg(stream, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) => {
                let n = message.bytes;
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        files.extend(rights.take(MAX_FILES - files.len().min(MAX_FILES)).map(Arc::new));
                    }
                }
                if n == 0 {
                    return Err(lost(local_rank, "its connection was closed".into()));
                }
                have += n;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                wait()?;
                poll_in(stream.as_fd(), Duration::from_millis(5));
            }
            Err(errno) => return Err(lost(local_rank, format!("its connection failed: {errno}"))),
        }
    }
    Ok(())
}

/// Returns whether the other end was closed.
pub(super) fn is_closed(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
    let ready = rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    ready.is_ok_and(|n| n > 0) && fds[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
}

/// Waits until there is something to receive or to accept, or for `at_most`.
pub(super) fn poll_in(fd: BorrowedFd<'_>, at_most: Duration) {
    poll_for(fd, PollFlags::IN, at_most);
}

/// Waits for events. Too short a wait is harmless, so errors are ignored.
fn poll_for(fd: BorrowedFd<'_>, flags: PollFlags, at_most: Duration) {
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
    let _ = rustix::event::poll(&mut [PollFd::new(&fd, flags)], Some(&timeout));
}
