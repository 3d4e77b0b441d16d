//! Sends to another rank: at once, from a buffer, or by a thread while the caller waits.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mscclpp_bootstrap::place;
use mscclpp_communicator::Communicator;
use mscclpp_exec::error::ErrorKind;
use mscclpp_exec::process::with_interrupt_check;

use super::header::Header;
use crate::failure::Failure;
use crate::queue::Queue;
use crate::tensor::View;

/// Maximum number of bytes of the sends to a rank that are buffered.
const MAX_BUFFERED: usize = 4 << 20;

/// Timeout of a buffered send: none, as long as no other send waits for it.
const UNLIMITED: Duration = Duration::from_secs(365 * 24 * 3600);

/// The sends to a rank, in their order.
#[derive(Default)]
pub(super) struct Sender {
    queue: Arc<Queue>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Bytes of the messages that are buffered, their headers included.
    buffered: usize,
    /// When the timeouts of the sends end that found no room, in their order: until then, those before them are received.
    ends: VecDeque<Instant>,
    /// The first failure of a buffered send, whose caller has continued.
    failure: Option<Failure>,
}

thread_local! {
    /// The sender whose buffered message this thread sends.
    static SENDER: RefCell<Option<Arc<Sender>>> = const { RefCell::new(None) };
}

/// Returns whether the timeout of a send has ended that waits for the buffered one of this thread.
fn has_expired() -> bool {
    SENDER.with_borrow(|sender| sender.as_ref().is_some_and(|sender| sender.lock().has_expired()))
}

impl State {
    fn has_expired(&self) -> bool {
        self.ends.front().is_some_and(|end| *end <= Instant::now())
    }
}

impl Sender {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failure of an earlier send that was buffered.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.lock().failure.clone()
    }

    /// Sends a message, if that takes no wait; `None` otherwise.
    pub(super) fn send_at_once(&self, outgoing: &Outgoing) -> Option<Result<u32, Failure>> {
        let _turn = self.queue.try_enter()?;
        outgoing.is_immediate().then(|| outgoing.send())
    }

    /// Copies a message, if there is room for it. Returns what sends it. A failure is that of all later sends.
    pub(super) fn buffer(self: &Arc<Self>, outgoing: &Outgoing) -> Option<impl FnOnce() + Send + use<>> {
        let bytes = size_of::<Header>() + outgoing.view.bytes;
        let mut state = self.lock();
        if state.buffered + bytes > MAX_BUFFERED || !state.ends.is_empty() {
            return None;
        }
        let mut data = Vec::new();
        if data.try_reserve_exact(outgoing.view.bytes).is_err() {
            return None;
        }
        // SAFETY: the tensor exists, and Python does not change it during the call.
        data.extend_from_slice(unsafe { outgoing.view.slice::<u8>() });
        state.buffered += bytes;
        let (room, comm) = (Room { sender: Arc::clone(self), bytes }, outgoing.comm.with_timeout(UNLIMITED));
        let (header, peer) = (outgoing.header, outgoing.peer);
        Some(move || {
            SENDER.set(Some(Arc::clone(&room.sender)));
            let sent = with_interrupt_check(has_expired, || send(&comm, &header, &data, peer));
            SENDER.take();
            if let Err(failure) = sent {
                room.sender.fail(failure, comm.rank(), peer);
            }
            drop(room);
        })
    }

    /// Records the failure of a buffered send of `rank`.
    fn fail(&self, failure: Failure, rank: u32, peer: u32) {
        let mut state = self.lock();
        let failure = match state.has_expired() {
            false => failure,
            true => {
                let late =
                    "did not receive the sends before this one, which fill the buffer of 4 MiB, within the timeout";
                let message = format!(
                    "rank {peer} {late}; if rank {peer} is in a send to rank {rank}, both wait for each other: receive first on one of them"
                );
                Failure::of_kind(ErrorKind::Timeout.name(), "send", message)
                    .with_cause(peer, late.to_owned())
                    .on(rank, "send")
            }
        };
        state.failure.get_or_insert(failure);
    }

    /// Adds a send that found no room, which a thread makes within the timeout of the group. `finish` gets its result.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub(super) fn push_without_room(
        self: &Arc<Self>,
        outgoing: Outgoing,
        finish: impl FnOnce(Result<u32, Failure>) + Send + 'static,
    ) -> Result<(), Failure> {
        let end = Instant::now().checked_add(outgoing.comm.timeout()).unwrap_or_else(|| Instant::now() + UNLIMITED);
        self.lock().ends.push_back(end);
        let sender = Arc::clone(self);
        let pushed = self.push(move || {
            let failure = {
                let mut state = sender.lock();
                state.ends.pop_front();
                state.failure.clone()
            };
            finish(failure.map_or_else(|| outgoing.send(), Err));
        });
        if pushed.is_err() {
            self.lock().ends.pop_back();
        }
        pushed
    }

    /// Adds a send, which a thread makes.
    ///
    /// # Errors
    /// If this is closed, or the system gives no thread.
    pub(super) fn push(&self, send: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        self.queue.push("send", Box::new(send))
    }

    /// Admits no further sends, and waits until `end` for those that are buffered. Returns whether none is left.
    pub(super) fn close(&self, end: Instant) -> bool {
        self.queue.close();
        let mut state = self.lock();
        while state.buffered > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// Room of a buffered message.
struct Room {
    sender: Arc<Sender>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.sender.lock().buffered -= self.bytes;
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
