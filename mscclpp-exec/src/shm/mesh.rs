//! Connections between the ranks of a node, which transfer descriptors and show when a rank ends.
//!
//! A rank listens on a socket without a name in the file system. Two checks keep out other processes:
//!
//! * The system reports the user of the other end. Both ends refuse another user's process before they read or send
//!   anything, so another user who learns name and token can do nothing, nor can a process that takes over the name of a
//!   rank that has ended.
//! * The rank that connects sends the listener's token, which the ranks exchange through the control plane. That keeps out
//!   other processes of the same user, unless they read the ranks' memory, which they may. The control plane is
//!   authenticated but not encrypted: who reads the network learns the token, but needs a process of this user on this
//!   host.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use super::segment::system;
use crate::error::Error;
use mscclpp_bootstrap::ActiveTimeout;

/// Maximum number of descriptors of a message.
const MAX_FILES: usize = 8;

/// Maximum number of bytes of a message.
const MAX_BYTES: usize = 1 << 16;

/// How long a connected rank may take to identify itself.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Token with which a rank authenticates.
type Token = [u8; 16];

/// A message from a rank to all others.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) bytes: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
}

/// A rank's listening socket for the ranks of its node. Its name is not in the file system.
pub(crate) struct LocalListener {
    listener: UnixListener,
    token: Token,
    name: [u8; 16],
}

/// A connection to every other rank of the node.
pub(crate) struct Mesh {
    /// By local rank; `None` for this rank.
    peers: Vec<Option<UnixStream>>,
}

impl LocalListener {
    /// Creates a listener with a random name and token.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn open() -> Result<Self, Error> {
        let (mut token, mut name) = ([0; 16], [0; 16]);
        for bytes in [&mut token, &mut name] {
            rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty())
                .map_err(|errno| system("get random bytes", errno))?;
        }
        let address = address(&name)?;
        let listener = UnixListener::bind_addr(&address).map_err(|error| io("listen on a local socket", &error))?;
        listener.set_nonblocking(true).map_err(|error| io("listen on a local socket", &error))?;
        Ok(Self { listener, token, name })
    }

    /// Returns the name and token that other ranks need to connect.
    pub(crate) fn key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        key[..16].copy_from_slice(&self.name);
        key[16..].copy_from_slice(&self.token);
        key
    }

    /// Connects the ranks of a node. `keys`: those of all of them in order; `own_local_rank`: this rank's local rank; `name`:
    /// the name of a local rank in errors.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if this process can open no connection, [`Error::System`]; [`Error::RankLost`] names a local
    /// rank that has not connected.
    pub(crate) fn connect(
        self,
        own_local_rank: usize,
        keys: &[[u8; 32]],
        name: impl Fn(usize) -> String,
        timeout: &mut ActiveTimeout,
    ) -> Result<Mesh, Error> {
        let mut peers: Vec<Option<UnixStream>> = keys.iter().map(|_| None).collect();
        for (local_rank, key) in keys.iter().enumerate().take(own_local_rank) {
            let lost = |error: std::io::Error| match io(&format!("connect to {}", name(local_rank)), &error) {
                limit @ Error::LimitExceeded { .. } => limit,
                _ => Error::RankLost {
                    peer: local_rank as u32,
                    reason: format!("{} cannot connect to it: {error}", name(own_local_rank)),
                },
            };
            let stream = UnixStream::connect_addr(&address(&key[..16])?).map_err(lost)?;
            if !is_own_user(&stream) {
                let reason = "another user's process has taken over the name of its socket".into();
                return Err(Error::RankLost { peer: local_rank as u32, reason });
            }
            let mut hello = [0; 20];
            hello[..16].copy_from_slice(&key[16..]);
            hello[16..].copy_from_slice(&(own_local_rank as u32).to_le_bytes());
            (&stream).write_all(&hello).map_err(lost)?;
            peers[local_rank] = Some(stream);
        }
        while let Some(missing) = (own_local_rank + 1..keys.len()).find(|&local_rank| peers[local_rank].is_none()) {
            let left = timeout.update();
            if left.is_zero() {
                return Err(Error::RankLost { peer: missing as u32, reason: "it did not connect in time".into() });
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let local_rank = self
                        .authenticate(&stream)
                        .filter(|local_rank| (own_local_rank + 1..keys.len()).contains(local_rank));
                    if let Some(local_rank) = local_rank.filter(|&local_rank| peers[local_rank].is_none()) {
                        peers[local_rank] = Some(stream);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    poll(self.listener.as_fd(), left.min(timeout.max_sleep()));
                }
                Err(error) => return Err(io(&format!("accept the connection of {}", name(missing)), &error)),
            }
        }
        for (local_rank, stream) in peers.iter().enumerate() {
            let set = stream.as_ref().map_or(Ok(()), |stream| stream.set_nonblocking(true));
            set.map_err(|error| io(&format!("use the connection to {}", name(local_rank)), &error))?;
        }
        Ok(Mesh { peers })
    }

    /// Returns the local rank of a connected rank; `None` for an unauthenticated process. Connections of other users of
    /// the machine are not read at all.
    fn authenticate(&self, stream: &UnixStream) -> Option<usize> {
        if !is_own_user(stream) {
            return None;
        }
        stream.set_nonblocking(false).ok()?;
        stream.set_read_timeout(Some(HELLO_TIMEOUT)).ok()?;
        let mut hello = [0; 20];
        (&mut &*stream).read_exact(&mut hello).ok()?;
        let differs = hello[..16].iter().zip(&self.token).fold(0, |differs, (a, b)| differs | (a ^ b));
        let local_rank = u32::from_le_bytes([hello[16], hello[17], hello[18], hello[19]]);
        (differs == 0).then_some(local_rank as usize)
    }
}

impl Mesh {
    /// Returns the number of ranks of the node.
    pub(crate) fn num_ranks(&self) -> usize {
        self.peers.len()
    }

    /// Sends a message with descriptors to a local rank. Does not wait: a message fits into a socket's buffer, and
    /// ranks exchange them one at a time.
    ///
    /// # Errors
    /// [`Error::RankLost`] if the rank is lost.
    pub(crate) fn send(&self, local_rank: usize, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), Error> {
        let Some(stream) = &self.peers[local_rank] else {
            return Ok(());
        };
        if bytes.len() > MAX_BYTES || files.len() > MAX_FILES {
            let reason = format!("a message of {} bytes and {} descriptors", bytes.len(), files.len());
            return Err(Error::Internal(reason));
        }
        let lost = |reason: String| Error::RankLost { peer: local_rank as u32, reason };
        let header = (bytes.len() as u32).to_le_bytes();
        let mut message = Vec::with_capacity(4 + bytes.len());
        message.extend(header);
        message.extend(bytes);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        let mut sent = 0;
        while sent < message.len() {
            match rustix::net::sendmsg(stream, &[IoSlice::new(&message[sent..])], &mut control, SendFlags::NOSIGNAL) {
                Ok(n) => {
                    sent += n;
                    control.clear();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => poll_out(stream.as_fd(), Duration::from_millis(10)),
                Err(errno) => return Err(lost(format!("its connection failed: {errno}"))),
            }
        }
        Ok(())
    }

    /// Receives the next message of a local rank. Until it arrives, `wait` is called now and then; its error ends the
    /// wait.
    ///
    /// # Errors
    /// [`Error::RankLost`] if the rank is lost, and the error of `wait`.
    pub(crate) fn receive(
        &self,
        local_rank: usize,
        mut wait: impl FnMut() -> Result<(), Error>,
    ) -> Result<Sent, Error> {
        let Some(stream) = &self.peers[local_rank] else {
            return Ok(Sent::default());
        };
        let lost = |reason: String| Error::RankLost { peer: local_rank as u32, reason };
        let mut sent = Sent::default();
        let mut header = [0; 4];
        self.fill(stream, &mut header, &mut sent.files, lost, &mut wait)?;
        let len = u32::from_le_bytes(header) as usize;
        if len > MAX_BYTES {
            return Err(lost(format!("it sent a message of {len} bytes, expected at most {MAX_BYTES} bytes")));
        }
        sent.bytes.resize(len, 0);
        let mut bytes = std::mem::take(&mut sent.bytes);
        self.fill(stream, &mut bytes, &mut sent.files, lost, &mut wait)?;
        sent.bytes = bytes;
        Ok(sent)
    }

    fn fill(
        &self,
        stream: &UnixStream,
        bytes: &mut [u8],
        files: &mut Vec<OwnedFd>,
        lost: impl Fn(String) -> Error,
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
                            files.extend(rights.take(MAX_FILES - files.len().min(MAX_FILES)));
                        }
                    }
                    if n == 0 {
                        return Err(lost("its connection was closed".into()));
                    }
                    have += n;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    wait()?;
                    poll(stream.as_fd(), Duration::from_millis(5));
                }
                Err(errno) => return Err(lost(format!("its connection failed: {errno}"))),
            }
        }
        Ok(())
    }

    /// Returns a local rank that is still needed and whose connection has ended, if there is one.
    pub(crate) fn poll_disconnected(&self, is_needed: impl Fn(usize) -> bool) -> Option<usize> {
        self.peers.iter().enumerate().position(|(local_rank, stream)| {
            stream.as_ref().is_some_and(|stream| {
                let mut fds = [PollFd::new(stream, PollFlags::RDHUP)];
                let ready = rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
                ready.is_ok_and(|n| n > 0)
                    && fds[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
                    && is_needed(local_rank)
            })
        })
    }
}

/// Returns whether the process at the other end belongs to the user of this one.
fn is_own_user(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

fn poll(fd: BorrowedFd<'_>, at_most: Duration) {
    poll_for(fd, PollFlags::IN, at_most);
}

fn poll_out(fd: BorrowedFd<'_>, at_most: Duration) {
    poll_for(fd, PollFlags::OUT, at_most);
}

/// Waits for events. Too short a wait is harmless, so errors are ignored.
fn poll_for(fd: BorrowedFd<'_>, flags: PollFlags, at_most: Duration) {
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
    let _ = rustix::event::poll(&mut [PollFd::new(&fd, flags)], Some(&timeout));
}

fn address(name: &[u8]) -> Result<SocketAddr, Error> {
    SocketAddr::from_abstract_name([b"mscclpp-", name].concat()).map_err(|error| io("name a local socket", &error))
}

fn io(what: &str, error: &std::io::Error) -> Error {
    match Errno::from_io_error(error) {
        Some(errno) => system(what, errno),
        None => Error::System { what: what.to_owned(), reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use rustix::thread::set_thread_res_uid;

    use super::*;

    /// Runs `work` in a thread of another user; `None` if this process may not do that.
    fn as_other_user<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
        let other = rustix::process::Uid::from_raw(65534);
        let run = || set_thread_res_uid(other, other, other).is_ok().then(work);
        std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
    }

    fn hello(key: &[u8; 32], token: &[u8]) -> UnixStream {
        let stream = UnixStream::connect_addr(&address(&key[..16]).unwrap()).unwrap();
        let _ = (&stream).write_all(&[token, &1_u32.to_le_bytes()].concat());
        stream
    }

    fn named(local_rank: usize) -> String {
        format!("rank {}", 10 + local_rank)
    }

    fn timeout() -> ActiveTimeout {
        ActiveTimeout::new(Duration::from_secs(60))
    }

    #[test]
    fn other_processes_do_not_become_ranks() {
        let [zero, one] = [LocalListener::open().unwrap(), LocalListener::open().unwrap()];
        let keys = [zero.key(), one.key()];
        let (name, token) = keys[0].split_at(16);
        let mut strangers = vec![hello(&keys[0], &[0; 16]), hello(&keys[0], name)];
        // Another user has the right token, and the listener must not even read it.
        let other = as_other_user(|| hello(&keys[0], token));
        println!("as another user: {}", other.is_some());
        strangers.extend(other);
        let mesh = std::thread::scope(|scope| {
            scope.spawn(|| one.connect(1, &keys, named, &mut timeout()).unwrap().send(0, b"one", &[]).unwrap());
            zero.connect(0, &keys, named, &mut timeout()).unwrap()
        });
        assert_eq!(mesh.receive(1, || Ok(())).unwrap().bytes, b"one");
        for mut stranger in strangers {
            assert!(matches!(stranger.read(&mut [0]), Ok(0) | Err(_)), "its connection is closed");
        }
    }

    #[test]
    fn rank_sends_no_token_to_another_users_listener() {
        let one = LocalListener::open().unwrap();
        let Some(zero) = as_other_user(|| LocalListener::open().unwrap()) else { return };
        let error = one.connect(1, &[zero.key(), [0; 32]], named, &mut timeout()).err().unwrap();
        assert!(matches!(&error, Error::RankLost { peer: 0, reason } if reason.contains("another user")), "{error}");
    }
}
