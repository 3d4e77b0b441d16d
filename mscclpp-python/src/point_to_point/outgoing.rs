//! Sends to another rank: at once, from a buffer, or by a thread while the caller waits.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mscclpp_bootstrap::place;
use mscclpp_communicator::Communicator;
use mscclpp_exec::error::ErrorKind;

use super::header::Header;
use crate::failure::Failure;
use crate::queue::Queue;
use crate::tensor::View;

/// Maximum number of bytes of the sends to a rank that are buffered.
const MAX_BUFFERED: usize = 4 << 20;

/// How long a buffered send waits for its receiver: as long as the process and the other one exist.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The sends to a rank, in their order.
#[derive(Default)]
pub(super) struct Sender {
    queue: Arc<Queue>,
    /// Bytes of the messages that are buffered, their headers included.
    buffered: Mutex<usize>,
    changed: Condvar,
}

impl Sender {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.buffered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message, if that takes no wait; `None` otherwise.
    pub(super) fn send_at_once(&self, outgoing: &Outgoing) -> Option<Result<u32, Failure>> {
        let _turn = self.queue.try_enter()?;
        outgoing.is_immediate().then(|| outgoing.send())
    }

    /// Copies a message, if there is room for it. Returns what sends it. A failure ends the communicator of the two ranks, so that
    /// their later transfers report it.
    pub(super) fn buffer(self: &Arc<Self>, outgoing: &Outgoing) -> Option<impl FnOnce() + Send + use<>> {
        let bytes = size_of::<Header>() + outgoing.view.bytes;
        let mut buffered = self.lock();
        if *buffered + bytes > MAX_BUFFERED {
            return None;
        }
        let mut data = Vec::new();
        if data.try_reserve_exact(outgoing.view.bytes).is_err() {
            return None;
        }
        // SAFETY: the tensor exists, and Python does not change it during the call.
        data.extend_from_slice(unsafe { outgoing.view.slice::<u8>() });
        *buffered += bytes;
        let (room, comm) = (Room { sender: Arc::clone(self), bytes }, outgoing.comm.with_timeout(PATIENCE));
        let (header, peer) = (outgoing.header, outgoing.peer);
        Some(move || {
            _ = send(&comm, &header, &data, peer);
            drop(room);
        })
    }

    /// Adds a send, which a thread makes.
    ///
    /// # Errors
    /// If this is closed, or the system gives no thread.
    pub(super) fn push(&self, send: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        self.queue.push("send", Box::new(send))
    }

    /// Admits no further sends, and waits until `end` for those that are buffered.
    pub(super) fn close(&self, end: Option<Instant>) {
        self.queue.close();
        let mut buffered = self.lock();
        while *buffered > 0 {
            let left = end.map_or(PATIENCE, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            buffered = self.changed.wait_timeout(buffered, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Room of a buffered message.
struct Room {
    sender: Arc<Sender>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        *self.sender.lock() -= self.bytes;
        self.sender.changed.notify_all();
    }
}

/// A message to another rank, whose tensor exists until it is sent.
pub(super) struct Outgoing {
    comm: Communicator,
    view: View,
    header: Header,
    peer: u32,
}

impl Outgoing {
    pub(super) fn new(comm: &Communicator, view: View, peer: u32, tag: i64) -> Self {
        Self { comm: comm.clone(), view, header: Header::new(tag, &view), peer }
    }

    /// Returns whether to send it takes no wait for the other rank.
    fn is_immediate(&self) -> bool {
        let lens = [size_of::<Header>(), self.view.bytes];
        let len = if self.view.bytes == 0 { 1 } else { 2 };
        self.comm.sends_at_once::<u8>(&lens[..len], self.peer)
    }

    pub(super) fn send(&self) -> Result<u32, Failure> {
        // SAFETY: the tensor exists, and Python does not change it until the call has ended.
        send(&self.comm, &self.header, unsafe { self.view.slice() }, self.peer)
    }
}

fn send(comm: &Communicator, header: &Header, data: &[u8], peer: u32) -> Result<u32, Failure> {
    // Messages would state lines of this library.
    let _name = place::enter_name("send");
    let sent = comm.send::<u8>(bytemuck::bytes_of(header), peer);
    let sent = sent.and_then(|()| if data.is_empty() { Ok(()) } else { comm.send::<u8>(data, peer) });
    sent.map(|()| 0).map_err(|error| {
        let (rank, is_late) = (comm.rank(), error.kind() == ErrorKind::Timeout);
        let failure = Failure::from(error).on(rank, "send");
        match is_late {
            false => failure,
            true => failure.with(&format!(
                "; if rank {peer} is in a send to rank {rank}, both wait for each other, because sends that exceed the buffer of 4 MiB \
                 wait until they are received"
            )),
        }
    })
}
