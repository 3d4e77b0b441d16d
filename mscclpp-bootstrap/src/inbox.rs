//! What has come for one rank, and how its threads wait for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_bytes::ByteBuf;

use super::conn::Conn;
use super::error::Error;
use super::frame::{Frame, Purpose};
use super::rank_info::RankInfo;
use crate::timeout::ActiveTimeout;

/// Most bytes of messages that may wait to be received.
const WAITING_BYTES: usize = 256 << 20;

/// Which queue a message is in: group, sender in the job, tag.
pub(crate) type MessageKey = (u64, u32, u64);
/// Which stream: group, other end in the job, number.
pub(crate) type StreamKey = (u64, u32, u64);

/// What has come for one rank.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    failed: AtomicBool,
}

/// What is in an inbox. Only what has something in it has an entry, so that memory is bounded by what waits.
#[derive(Debug, Default)]
pub(crate) struct State {
    messages: BTreeMap<MessageKey, VecDeque<Vec<u8>>>,
    waiting_bytes: usize,
    gathered: BTreeMap<(u64, u64), Vec<ByteBuf>>,
    streams: BTreeMap<StreamKey, TcpStream>,
    left: BTreeSet<u32>,
    roster: Option<Arc<[RankInfo]>>,
    failure: Option<Error>,
    /// Nothing comes any more, for this reason, which is an error for who still waits.
    closed: Option<Error>,
    /// Nobody takes anything any more.
    abandoned: bool,
}

impl Inbox {
    /// Takes in a frame for this rank. Returns why it ends the group, if that is something that only this rank knows.
    pub(crate) fn deliver(&self, frame: Frame) -> Option<Error> {
        let mut state = self.lock();
        let mut failure = None;
        match frame {
            Frame::Message { from, context, tag, bytes, .. } => {
                state.waiting_bytes += bytes.len();
                if state.waiting_bytes > WAITING_BYTES {
                    let call = format!("unreceived messages from rank {from}");
                    let (bytes, limit) = (state.waiting_bytes as u64, WAITING_BYTES as u64);
                    let error = Error::TooLarge { call, bytes, limit };
                    failure = state.failure.is_none().then(|| error.clone());
                    self.fail(&mut state, error);
                } else {
                    state.messages.entry((context, from, tag)).or_default().push_back(bytes);
                }
            }
            Frame::Gathered { context, sequence, parts } => {
                state.gathered.insert((context, sequence), parts);
            }
            Frame::Failed(error) => self.fail(&mut state, error),
            Frame::Leave { rank } => {
                state.left.insert(rank);
            }
            Frame::Roster(members) => state.roster = Some(members.into()),
            _ => return None,
        }
        drop(state);
        self.changed.notify_all();
        failure
    }

    /// Takes in a stream that another rank has opened. Nobody's are closed, so that the other end does not wait for anybody.
    pub(crate) fn deliver_stream(&self, key: StreamKey, stream: TcpStream) {
        let mut state = self.lock();
        if !state.abandoned {
            state.streams.insert(key, stream);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Nobody will take anything any more.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.abandoned = true;
        state.streams.clear();
    }

    /// Takes in a visitor that opens a stream.
    pub(crate) fn welcome(&self, purpose: Purpose, mut conn: Conn) {
        let Purpose::Stream { from, context, id } = purpose else {
            return conn.push(&Frame::Retry);
        };
        conn.push(&Frame::StreamAccepted);
        // The other end says nothing before it has read its welcome; if it does, its stream breaks there.
        if let Ok(stream) = conn.into_stream() {
            self.deliver_stream((context, from, id), stream);
        }
    }

    /// Nothing will come any more: who waits gets `reason`.
    pub(crate) fn close(&self, reason: Error) {
        self.lock().closed.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// Why the group is finished, if it is. Costs one load while it is not.
    pub(crate) fn failure(&self) -> Option<Error> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        self.lock().failure.clone()
    }

    /// Why nothing comes any more, if nothing does: a failure, or rank 0 having left.
    pub(crate) fn end(&self) -> Option<Error> {
        let state = self.lock();
        state.failure.as_ref().or(state.closed.as_ref()).cloned()
    }

    /// Waits until `take` finds what it wants, the group fails, or the time is over (`None`). What has come counts even
    /// if the group failed afterwards.
    ///
    /// # Errors
    /// Why the group failed.
    pub(crate) fn wait<T>(
        &self,
        time: Duration,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut state = self.lock();
        let mut timeout = ActiveTimeout::new(time);
        loop {
            if let Some(found) = take(&mut state) {
                return Ok(Some(found));
            }
            if let Some(error) = state.failure.as_ref().or(state.closed.as_ref()) {
                return Err(error.clone());
            }
            let left = timeout.update();
            if left.is_zero() {
                return Ok(None);
            }
            state = self
                .changed
                .wait_timeout(state, left.min(timeout.max_sleep()))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn fail(&self, state: &mut State, error: Error) {
        // The first reason is the cause; what comes after it are consequences.
        state.failure.get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The oldest message of a queue.
    pub(crate) fn take_message(&mut self, key: MessageKey) -> Option<Vec<u8>> {
        let queue = self.messages.get_mut(&key)?;
        let bytes = queue.pop_front();
        if queue.is_empty() {
            self.messages.remove(&key);
        }
        self.waiting_bytes -= bytes.as_ref().map_or(0, Vec::len);
        bytes
    }

    /// The result of a collective call.
    pub(crate) fn take_gathered(&mut self, key: (u64, u64)) -> Option<Vec<ByteBuf>> {
        self.gathered.remove(&key)
    }

    /// A stream that was opened by the other end.
    pub(crate) fn take_stream(&mut self, key: StreamKey) -> Option<TcpStream> {
        self.streams.remove(&key)
    }

    /// Who the ranks are, once all have come.
    pub(crate) fn roster(&self) -> Option<Arc<[RankInfo]>> {
        self.roster.clone()
    }

    /// Whether a rank has left.
    pub(crate) fn has_left(&self, rank: u32) -> bool {
        self.left.contains(&rank)
    }
}
