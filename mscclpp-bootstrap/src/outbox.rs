//! Frames that a rank's threads pass to its connection thread, and how they learn that the frames were sent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::Error;
use super::frame::Frame;
use super::poll::Waker;
use crate::timeout::ActiveTimeout;

/// Number of queued bytes above which senders wait.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Frames that wait for the connection thread.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
    waker: Waker,
    /// Whether the connection thread accepts no more connections, because another job has its listener.
    stops_accepting: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Whether the shutdown frame has been acknowledged as far as possible, or the thread has ended.
    drained: bool,
}

impl Outbox {
    /// Creates an empty outbox.
    ///
    /// # Errors
    /// [`Error::NoDescriptor`].
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            waker: Waker::new()?,
            stops_accepting: AtomicBool::new(false),
        })
    }

    /// Returns the waker on which the connection thread waits.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Queues a frame. A frame with a payload waits up to `time` while too many bytes are queued. Returns `false` if
    /// that was not enough or the connection thread has ended. Failures are queued before other frames, because the
    /// failure makes those obsolete.
    pub(crate) fn put(&self, frame: Frame, time: Duration) -> bool {
        let mut state = self.lock();
        let mut timeout = ActiveTimeout::new(time);
        while payload_bytes(&frame) > 0 && state.bytes > MAX_WAITING_BYTES && !state.drained {
            if timeout.is_expired() {
                return false;
            }
            state = self.wait(state, &timeout);
        }
        if state.drained {
            return false;
        }
        state.bytes += payload_bytes(&frame);
        let first = state.frames.iter().take_while(|other| other.is_failure()).count();
        let place = if frame.is_failure() { first } else { state.frames.len() };
        state.frames.insert(place, frame);
        drop(state);
        self.waker.wake();
        true
    }

    /// Requests that the connection thread accepts no more connections.
    pub(crate) fn stop_accepting(&self) {
        self.stops_accepting.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Returns whether the connection thread accepts no more connections.
    pub(crate) fn stops_accepting(&self) -> bool {
        self.stops_accepting.load(Ordering::Acquire)
    }

    /// Takes the next frame, if it can be sent.
    pub(crate) fn take_if(&self, can_send: impl FnOnce(&Frame) -> bool) -> Option<Frame> {
        let mut state = self.lock();
        state.frames.front().filter(|frame| can_send(frame))?;
        let frame = state.frames.pop_front()?;
        let before = state.bytes;
        state.bytes -= payload_bytes(&frame);
        if before > MAX_WAITING_BYTES {
            self.changed.notify_all();
        }
        Some(frame)
    }

    /// Returns whether there is a next frame and it can be sent.
    pub(crate) fn is_next(&self, can_send: impl FnOnce(&Frame) -> bool) -> bool {
        self.lock().frames.front().is_some_and(can_send)
    }

    /// Marks the outbox as drained: the shutdown frame has been sent, or no more frames are sent.
    pub(crate) fn mark_drained(&self) {
        self.lock().drained = true;
        self.changed.notify_all();
    }

    /// Waits for [`mark_drained`](Self::mark_drained), at most for `time`.
    pub(crate) fn wait_drained(&self, time: Duration) {
        let mut state = self.lock();
        let mut timeout = ActiveTimeout::new(time);
        loop {
            if state.drained || timeout.is_expired() {
                return;
            }
            state = self.wait(state, &timeout);
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, timeout: &ActiveTimeout) -> MutexGuard<'a, State> {
        self.changed
            .wait_timeout(state, timeout.remaining().min(timeout.max_sleep()))
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the size of a frame's payload, which the caller provided.
fn payload_bytes(frame: &Frame) -> usize {
    match frame {
        Frame::Message { bytes, .. } => bytes.len(),
        Frame::EnterCollective { bytes, .. } => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leave_is_queued_when_full_and_failures_go_first() {
        let (outbox, now) = (Outbox::new().unwrap(), Duration::ZERO);
        let message = || Frame::Message { from: 0, to: 1, context: 0, tag: 0, bytes: vec![0; MAX_WAITING_BYTES + 1] };
        let failed = Frame::Failed(Error::NoSuchRank { rank: 0, num_ranks: 0 });
        assert!(outbox.put(message(), now));
        assert!(!outbox.put(message(), now));
        assert!(outbox.put(Frame::Leave { rank: 0 }, now) && outbox.put(failed.clone(), now));
        assert_eq!(outbox.take_if(|_| false), None);
        let order: Vec<_> = std::iter::from_fn(|| outbox.take_if(|_| true)).collect();
        assert!(order.len() == 3 && order[0] == failed && order[2] == Frame::Leave { rank: 0 });
    }
}
