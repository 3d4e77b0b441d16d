//! How the ranks of a node find each other.
//!
//! A rank listens in two places: in a list of this process, for ranks of the same process, and on a socket without a name
//! in the file system, for those of other processes. Two checks keep other processes out of the socket:
//!
//! * The system reports the user of the other end. Both ends refuse another user's process before they read or send
//!   anything, so another user who learns name and token can do nothing, nor can a process that takes over the name of a
//!   rank that has ended.
//! * The rank that connects sends the listener's token, which the ranks exchange through the control plane. That keeps out
//!   other processes of the same user, unless they read the ranks' memory, which they may. The control plane is
//!   authenticated but not encrypted: who reads the network learns the token, but needs a process of this user on this
//!   host.
//!
//! A rank connects to those before it, and waits for those after it. A listener stays open until all have connected, so
//! a rank that finds no listener in the list connects to another process.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IoSlice, Read};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

use super::channel::ChannelEnd;
use super::socket::poll_in;
use super::{Mesh, Peer, lost};
use crate::error::Error;
use crate::shm::segment::system;
use mscclpp_bootstrap::ActiveTimeout;

/// How long a connected rank may take to identify itself.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Name and token of a listener.
type Key = [u8; 32];

/// The open listeners of this process.
static LISTENERS: Mutex<BTreeMap<Key, Sender<Arrival>>> = Mutex::new(BTreeMap::new());

/// A local rank of this process that connects, and the end of the connection for the rank that listens.
type Arrival = (usize, ChannelEnd);

fn listeners() -> MutexGuard<'static, BTreeMap<Key, Sender<Arrival>>> {
    LISTENERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a rank listens for the other ranks of its node.
pub struct LocalListener {
    socket: UnixListener,
    key: Key,
    arrivals: Receiver<Arrival>,
}

impl LocalListener {
    /// Creates a listener with a random name and token.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn open() -> Result<Self, Error> {
        const WHAT: &str = "listen on a local socket";
        let mut key = [0; 32];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| system("get random bytes", errno))?;
        let socket = UnixListener::bind_addr(&address(&key)?).map_err(|error| io(WHAT, &error))?;
        socket.set_nonblocking(true).map_err(|error| io(WHAT, &error))?;
        let (sender, arrivals) = channel();
        listeners().insert(key, sender);
        Ok(Self { socket, key, arrivals })
    }

    /// Returns the name and token that other ranks need to connect.
    pub fn key(&self) -> [u8; 32] {
        self.key
    }

    /// Connects the ranks of a node. `keys`: those of all of them in order; `own_local_rank`: this rank's local rank; `name`:
    /// the name of a local rank in errors. Until all have connected, `wait` is called now and then; its error ends the wait.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if this process can open no connection, [`Error::System`]; [`Error::RankLost`] names a local
    /// rank that has not connected; and the error of `wait`.
    pub fn connect(
        self,
        own_local_rank: usize,
        keys: &[[u8; 32]],
        name: impl Fn(usize) -> String,
        timeout: &mut ActiveTimeout,
        mut wait: impl FnMut() -> Result<(), Error>,
    ) -> Result<Mesh, Error> {
        let mut peers: Vec<Option<Peer>> = keys.iter().map(|_| None).collect();
        for (local_rank, key) in keys.iter().enumerate().take(own_local_rank) {
            peers[local_rank] = Some(connect_to(local_rank, key, own_local_rank, &name)?);
        }
        while let Some(missing) = (own_local_rank + 1..keys.len()).find(|&local_rank| peers[local_rank].is_none()) {
            wait()?;
            let left = timeout.update();
            if left.is_zero() {
                return Err(lost(missing, "it did not connect in time".into()));
            }
            let accepted = self.accept(&keys[missing], left.min(timeout.max_sleep()));
            if let Some((local_rank, peer)) =
                accepted.map_err(|error| io(&format!("accept the connection of {}", name(missing)), &error))?
                && (own_local_rank + 1..keys.len()).contains(&local_rank)
                && peers[local_rank].is_none()
            {
                peers[local_rank] = Some(peer);
            }
        }
        for (local_rank, peer) in peers.iter().enumerate() {
            if let Some(Peer::Socket(stream)) = peer {
                let set = stream.set_nonblocking(true);
                set.map_err(|error| io(&format!("use the connection to {}", name(local_rank)), &error))?;
            }
        }
        Ok(Mesh { peers })
    }

    /// Waits at most `at_most` for a rank to connect, in particular for that with the key `missing`. Returns its local rank.
    fn accept(&self, missing: &Key, at_most: Duration) -> std::io::Result<Option<(usize, Peer)>> {
        match self.socket.accept() {
            Ok((stream, _)) => {
                return Ok(self.authenticate(&stream).map(|local_rank| (local_rank, Peer::Socket(stream))));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        // A rank of this process connects before its listener closes.
        let is_here = listeners().contains_key(missing);
        if let Ok((local_rank, end)) = self.arrivals.recv_timeout(if is_here { at_most } else { Duration::ZERO }) {
            return Ok(Some((local_rank, Peer::Channel(end))));
        }
        if !is_here {
            poll_in(self.socket.as_fd(), at_most);
        }
        Ok(None)
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
        let differs = hello[..16].iter().zip(&self.key[16..]).fold(0, |differs, (a, b)| differs | (a ^ b));
        let local_rank = u32::from_le_bytes([hello[16], hello[17], hello[18], hello[19]]);
        (differs == 0).then_some(local_rank as usize)
    }

    /// Removes the listener from the list of this process: ranks of this process, too, connect to the socket.
    pub fn unregister(&self) {
        listeners().remove(&self.key);
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        self.unregister();
    }
}

/// Connects to the listener of `local_rank`.
fn connect_to(
    local_rank: usize,
    key: &Key,
    own_local_rank: usize,
    name: impl Fn(usize) -> String,
) -> Result<Peer, Error> {
    if let Some(listener) = listeners().get(key) {
        let [own, other] = ChannelEnd::pair();
        // If the other rank has just reached its timeout, the connection is closed.
        let _ = listener.send((own_local_rank, other));
        return Ok(Peer::Channel(own));
    }
    let lost = |error: std::io::Error| match io(&format!("connect to {}", name(local_rank)), &error) {
        limit @ Error::LimitExceeded { .. } => limit,
        _ => lost(local_rank, format!("{} cannot connect to it: {error}", name(own_local_rank))),
    };
    let stream = UnixStream::connect_addr(&address(key)?).map_err(lost)?;
    if !is_own_user(&stream) {
        let (theirs, ours) = (user_of(&stream), rustix::process::geteuid().as_raw());
        let theirs = theirs.map_or_else(|| "another user".to_owned(), |user| format!("user {user}"));
        let reason = format!(
            "the process at its local socket runs as {theirs}, and {} as user {ours}; start all ranks of a host as one user",
            name(own_local_rank)
        );
        return Err(Error::RankLost { peer: local_rank as u32, reason });
    }
    let mut hello = [0; 20];
    hello[..16].copy_from_slice(&key[16..]);
    hello[16..].copy_from_slice(&(own_local_rank as u32).to_le_bytes());
    // It fits into the buffer of a new connection. A vectored or plain write would raise SIGPIPE in programs that do not ignore it.
    let mut control = SendAncillaryBuffer::default();
    let sent = rustix::net::sendmsg(&stream, &[IoSlice::new(&hello)], &mut control, SendFlags::NOSIGNAL);
    match sent.map_err(std::io::Error::from).map_err(lost)? {
        n if n == hello.len() => Ok(Peer::Socket(stream)),
        _ => Err(lost(ErrorKind::WriteZero.into())),
    }
}

/// Returns whether the process at the other end belongs to the user of this one.
fn is_own_user(stream: &UnixStream) -> bool {
    user_of(stream) == Some(rustix::process::geteuid().as_raw())
}

/// Returns the user of the process at the other end.
fn user_of(stream: &UnixStream) -> Option<u32> {
    rustix::net::sockopt::socket_peercred(stream).ok().map(|peer| peer.uid.as_raw())
}

/// Returns the address of the listener with a key, whose first half is its name.
fn address(key: &Key) -> Result<SocketAddr, Error> {
    let name = [b"mscclpp-", &key[..16]].concat();
    SocketAddr::from_abstract_name(name).map_err(|error| io("name a local socket", &error))
}

fn io(what: &str, error: &std::io::Error) -> Error {
    match Errno::from_io_error(error) {
        Some(errno) => system(what, errno),
        None => Error::System { what: what.to_owned(), reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::thread::set_thread_res_uid;

    use super::*;
    use crate::shm::Sent;

    /// Runs `work` in a thread of another user; `None` if this process may not do that.
    fn as_other_user<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
        let other = rustix::process::Uid::from_raw(65534);
        let run = || set_thread_res_uid(other, other, other).is_ok().then(work);
        std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
    }

    /// Returns a listener as ranks of other processes see it.
    fn open_outside() -> LocalListener {
        let listener = LocalListener::open().unwrap();
        listener.unregister();
        listener
    }

    fn hello(key: &Key, token: &[u8]) -> UnixStream {
        let stream = UnixStream::connect_addr(&address(key).unwrap()).unwrap();
        let _ = (&stream).write_all(&[token, &1_u32.to_le_bytes()].concat());
        stream
    }

    fn named(local_rank: usize) -> String {
        format!("rank {}", 10 + local_rank)
    }

    fn timeout() -> ActiveTimeout {
        ActiveTimeout::new(Duration::from_secs(60))
    }

    /// Connects listeners, each in a thread, and returns the meshes in order.
    fn connect(listeners: Vec<LocalListener>) -> Vec<Mesh> {
        let keys: Vec<Key> = listeners.iter().map(LocalListener::key).collect();
        std::thread::scope(|scope| {
            let connect = |(rank, listener): (usize, LocalListener)| {
                let keys = &keys;
                scope.spawn(move || listener.connect(rank, keys, named, &mut timeout(), || Ok(())).unwrap())
            };
            let threads: Vec<_> = listeners.into_iter().enumerate().map(connect).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn text(text: &str) -> Sent {
        Sent { bytes: text.into(), ..Sent::default() }
    }

    #[test]
    fn other_processes_do_not_become_ranks() {
        let [zero, one] = [open_outside(), open_outside()];
        let keys = [zero.key(), one.key()];
        let (name, token) = keys[0].split_at(16);
        let mut strangers = vec![hello(&keys[0], &[0; 16]), hello(&keys[0], name)];
        // Another user has the right token, and the listener must not even read it.
        let other = as_other_user(|| hello(&keys[0], token));
        println!("as another user: {}", other.is_some());
        strangers.extend(other);
        let mut meshes = connect(vec![zero, one]);
        let (one, zero) = (meshes.pop().unwrap(), meshes.pop().unwrap());
        one.send(0, &text("one")).unwrap();
        assert_eq!(zero.receive(1, || Ok(())).unwrap().bytes, b"one");
        for mut stranger in strangers {
            assert!(matches!(stranger.read(&mut [0]), Ok(0) | Err(_)), "its connection is closed");
        }
    }

    #[test]
    fn rank_sends_no_token_to_another_users_listener() {
        let one = LocalListener::open().unwrap();
        let Some(zero) = as_other_user(open_outside) else { return };
        let error = one.connect(1, &[zero.key(), [0; 32]], named, &mut timeout(), || Ok(())).err().unwrap();
        let names_both = |reason: &str| reason.contains("runs as user 65534, and rank 11 as user ");
        assert!(matches!(&error, Error::RankLost { peer: 0, reason } if names_both(reason)), "{error}");
    }

    /// Ranks 1 and 2 find each other in this process, and connect to rank 0 as if it were in another one.
    #[test]
    fn ranks_of_one_process_and_of_others_connect() {
        let listeners = vec![open_outside(), LocalListener::open().unwrap(), LocalListener::open().unwrap()];
        let mut meshes = connect(listeners);
        let is_channel = |mesh: &Mesh, rank: usize| matches!(mesh.peers[rank], Some(Peer::Channel(_)));
        assert!(is_channel(&meshes[1], 2) && is_channel(&meshes[2], 1));
        assert!((1..3).all(|rank| !is_channel(&meshes[0], rank) && !is_channel(&meshes[rank], 0)));
        for (from, mesh) in meshes.iter().enumerate() {
            (0..3).for_each(|to| mesh.send(to, &text(&format!("{from} to {to}"))).unwrap());
        }
        let last = meshes.pop().unwrap();
        assert_eq!(meshes[0].poll_disconnected(|_| true), None);
        drop(last);
        for (to, mesh) in meshes.iter().enumerate() {
            for from in (0..3).filter(|&from| from != to) {
                // Also what a rank sent before it left.
                assert_eq!(mesh.receive(from, || Ok(())).unwrap().bytes, format!("{from} to {to}").into_bytes());
            }
            assert_eq!(mesh.poll_disconnected(|_| true), Some(2));
            assert_eq!(mesh.poll_disconnected(|rank| rank != 2), None);
            assert!(matches!(mesh.receive(2, || Ok(())), Err(Error::RankLost { peer: 2, .. })));
            assert!(matches!(mesh.send(2, &text("late")), Err(Error::RankLost { peer: 2, .. })));
        }
    }

    #[test]
    fn wait_for_message_of_rank_of_this_process_can_be_ended() {
        let meshes = connect(vec![LocalListener::open().unwrap(), LocalListener::open().unwrap()]);
        let error = meshes[0].receive(1, || Err(Error::Busy)).err().unwrap();
        assert_eq!(error, Error::Busy);
    }
}
