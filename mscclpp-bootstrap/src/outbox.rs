//! What a rank's threads hand to its connection thread, and how they learn that it has gone out.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::Error;
use super::frame::Frame;
use super::poll::Waker;
use crate::timeout::ActiveTimeout;

/// Most bytes that wait here before senders have to wait.
const WAITING_BYTES: usize = 64 << 20;

/// Frames on their way to the connection thread.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    changed: Condvar,
    waker: Waker,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<Frame>,
    bytes: usize,
    /// The goodbye has arrived wherever it can arrive, or the thread has ended.
    settled: bool,
}

impl Outbox {
    /// An empty outbox.
    ///
    /// # Errors
    /// [`Error::System`] if there are no file descriptors left.
    pub(crate) fn new() -> Result<Self, Error> {
        Ok(Self { state: Mutex::default(), changed: Condvar::new(), waker: Waker::new()? })
    }

    /// What the connection thread waits on.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Puts a frame in. One with a load waits while too much waits already, at most so long; `false` if that was not
    /// enough or the connection thread has ended. Failures go before what nobody will want any more because of them.
    pub(crate) fn put(&self, frame: Frame, time: Duration) -> bool {
        let mut state = self.lock();
        let mut timeout = ActiveTimeout::new(time);
        while weight(&frame) > 0 && state.bytes > WAITING_BYTES && !state.settled {
            if timeout.is_expired() {
                return false;
            }
            state = self.wait(state, &timeout);
        }
        if state.settled {
            return false;
        }
        state.bytes += weight(&frame);
        let is_failure = |frame: &Frame| matches!(frame, Frame::Failed(_));
        let first = state.frames.iter().take_while(|other| is_failure(other)).count();
        let place = if is_failure(&frame) { first } else { state.frames.len() };
        state.frames.insert(place, frame);
        drop(state);
        self.waker.wake();
        true
    }

    /// Takes the next frame, if it may go.
    pub(crate) fn take_if(&self, may_go: impl FnOnce(&Frame) -> bool) -> Option<Frame> {
        let mut state = self.lock();
        state.frames.front().filter(|frame| may_go(frame))?;
        let frame = state.frames.pop_front()?;
        let before = state.bytes;
        state.bytes -= weight(&frame);
        if before > WAITING_BYTES {
            self.changed.notify_all();
        }
        Some(frame)
    }

    /// Whether there is a next frame and it may go.
    pub(crate) fn is_next(&self, may_go: impl FnOnce(&Frame) -> bool) -> bool {
        self.lock().frames.front().is_some_and(may_go)
    }

    /// Says that the goodbye has gone out, or that nothing goes out any more.
    pub(crate) fn settle(&self) {
        self.lock().settled = true;
        self.changed.notify_all();
    }

    /// Waits for [`settle`](Self::settle), but no longer than so long.
    pub(crate) fn wait_settled(&self, time: Duration) {
        let mut state = self.lock();
        let mut timeout = ActiveTimeout::new(time);
        loop {
            if state.settled || timeout.is_expired() {
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

/// The load of a frame: bytes of the caller's.
fn weight(frame: &Frame) -> usize {
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
    fn goodbyes_get_in_however_full_it_is_and_failures_go_first() {
        let (outbox, now) = (Outbox::new().unwrap(), Duration::ZERO);
        let message = || Frame::Message { from: 0, to: 1, context: 0, tag: 0, bytes: vec![0; WAITING_BYTES + 1] };
        let failed = Frame::Failed(Error::NoSuchRank { rank: 0, ranks: 0 });
        assert!(outbox.put(message(), now));
        assert!(!outbox.put(message(), now));
        assert!(outbox.put(Frame::Leave { rank: 0 }, now) && outbox.put(failed.clone(), now));
        assert_eq!(outbox.take_if(|_| false), None);
        let order: Vec<_> = std::iter::from_fn(|| outbox.take_if(|_| true)).collect();
        assert!(order.len() == 3 && order[0] == failed && order[2] == Frame::Leave { rank: 0 });
    }
}
