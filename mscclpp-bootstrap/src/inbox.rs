//! Frames that have arrived for one rank, and how its threads wait for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_bytes::ByteBuf;

use super::conn::Conn;
use super::error::Error;
use super::frame::Frame;
use super::mac::StreamKeys;
use super::protocol::Purpose;
use super::rank_info::RankInfo;
use super::status::{CommunicatorReport, Topic};
use crate::timeout::ActiveTimeout;

/// Maximum number of bytes of messages that wait to be received.
const MAX_WAITING_BYTES: usize = 256 << 20;

/// Key of a message queue: communicator, sender in the job, tag.
pub(crate) type MessageKey = (u64, u32, u64);
/// Key of a stream: communicator, other end in the job, number.
pub(crate) type StreamKey = (u64, u32, u64);
/// One end of a stream, with the keys for its messages.
pub(crate) type KeyedStream = (TcpStream, StreamKeys);

/// Result of shrinking a communicator: number and ranks of the new one.
pub(crate) type ShrinkResult = Result<(u64, Vec<u32>), Error>;

/// Returns what a rank answers when others ask for its report.
#[derive(Clone)]
pub(crate) struct ReportSource(pub(crate) Arc<dyn Fn() -> Vec<u8> + Send + Sync>);

impl std::fmt::Debug for ReportSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReportSource")
    }
}

/// Frames and streams that have arrived for one rank.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of recorded failures.
    failures: Arc<AtomicU64>,
    /// Number of messages that have arrived.
    messages: AtomicU64,
    /// Generation of the job.
    generation: AtomicU32,
}

/// What a failure ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureScope {
    /// All communicators of the job.
    Job,
    /// A communicator, and those that were split from it.
    Communicator(u64),
    /// All communicators that contain a rank of the job.
    Rank(u32),
}

/// A communicator, as failures concern it.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// The communicator, and those that it was split from.
    pub(crate) contexts: Arc<[u64]>,
    /// Its ranks, as ranks of the job.
    pub(crate) group: Arc<[u32]>,
}

impl Scope {
    fn includes(&self, failure: FailureScope) -> bool {
        match failure {
            FailureScope::Job => true,
            FailureScope::Communicator(context) => self.contexts.contains(&context),
            FailureScope::Rank(rank) => self.group.contains(&rank),
        }
    }
}

/// Contents of an inbox. Empty queues have no entry, so memory is bounded by what waits.
#[derive(Debug, Default)]
pub(crate) struct State {
    messages: BTreeMap<MessageKey, VecDeque<Vec<u8>>>,
    waiting_bytes: usize,
    gathered: BTreeMap<(u64, u64), Vec<ByteBuf>>,
    streams: BTreeMap<StreamKey, KeyedStream>,
    /// By communicator and topic.
    report_sources: BTreeMap<(u64, Topic), ReportSource>,
    /// Reports that have arrived, by rank of the job, for each query (communicator, number) that still waits.
    reports: BTreeMap<(u64, u64), BTreeMap<u32, Vec<u8>>>,
    queries: u64,
    left: BTreeSet<u32>,
    roster: Option<Arc<[RankInfo]>>,
    /// In the order in which they arrived: the first is the cause, later ones are consequences.
    failures: Vec<(FailureScope, Error)>,
    shrunk: BTreeMap<u64, ShrinkResult>,
    /// Why no more frames arrive, which is an error for calls that still wait.
    closed: Option<Error>,
    /// Whether the rank receives no more frames.
    stopped: bool,
}

impl Inbox {
    /// Delivers a frame to this rank. Returns this rank's answer: a report, or the failure if the frame fails a communicator.
    /// This rank notices it when rank 0 has sent it to all ranks.
    pub(crate) fn deliver(&self, frame: Frame) -> Option<Frame> {
        if let Frame::Inspect { id, topic } = frame {
            return Some(Frame::Inspected { id, reports: self.inspect(topic) });
        }
        let mut state = self.lock();
        let mut failure = None;
        match frame {
            Frame::Query { from, context, id, .. } => {
                let source = state.report_sources.get(&(context, Topic::Calls)).cloned();
                // A source may take locks of its own.
                drop(state);
                // Without a source the rank runs, and has nothing to report.
                let bytes = ByteBuf::from(source.map(|source| (source.0)()).unwrap_or_default());
                return Some(Frame::Report { from: 0, to: from, context, id, bytes });
            }
            Frame::Report { from, context, id, bytes, .. } => {
                if let Some(reports) = state.reports.get_mut(&(context, id)) {
                    reports.insert(from, bytes.into_vec());
                }
            }
            Frame::Message { from, context, tag, bytes, .. } => {
                state.waiting_bytes += bytes.len();
                if state.waiting_bytes > MAX_WAITING_BYTES {
                    let call = format!("unreceived messages from rank {from}");
                    let (bytes, limit) = (state.waiting_bytes as u64, MAX_WAITING_BYTES as u64);
                    let error = Error::TooLarge { call, bytes, limit };
                    let scope = FailureScope::Communicator(context);
                    let is_known = state.failures.iter().any(|(other, _)| *other == scope);
                    failure = (!is_known).then_some(Frame::CommunicatorFailed { context, group: Vec::new(), error });
                } else {
                    state.messages.entry((context, from, tag)).or_default().push_back(bytes);
                    self.messages.fetch_add(1, Ordering::Release);
                }
            }
            Frame::Gathered { context, sequence, parts } => {
                state.gathered.insert((context, sequence), parts);
            }
            Frame::Shrunk { context, result } => {
                state.shrunk.insert(context, result);
            }
            Frame::Failed(error) => self.fail(&mut state, FailureScope::Job, error),
            Frame::CommunicatorFailed { context, error, .. } => {
                self.fail(&mut state, FailureScope::Communicator(context), error);
            }
            Frame::Lost { rank, error } => self.fail(&mut state, FailureScope::Rank(rank), error),
            Frame::Leave { rank } => {
                state.left.insert(rank);
            }
            Frame::Roster(members, generation) => {
                state.roster = Some(members.into());
                self.generation.store(generation, Ordering::Release);
            }
            _ => return None,
        }
        drop(state);
        self.changed.notify_all();
        failure
    }

    /// Sets what this rank reports about a topic in a communicator; `None`: nothing.
    pub(crate) fn set_report_source(&self, context: u64, topic: Topic, source: Option<ReportSource>) {
        let mut state = self.lock();
        match source {
            Some(source) => _ = state.report_sources.insert((context, topic), source),
            None => _ = state.report_sources.remove(&(context, topic)),
        }
    }

    /// Returns what this rank reports about a topic, for each communicator.
    pub(crate) fn inspect(&self, topic: Topic) -> Vec<CommunicatorReport> {
        let state = self.lock();
        let sources = state.report_sources.iter().filter(|((_, of), _)| *of == topic);
        let sources: Vec<_> = sources.map(|((context, _), source)| (*context, source.clone())).collect();
        // A source may take locks of its own.
        drop(state);
        sources.into_iter().map(|(context, source)| CommunicatorReport { context, bytes: (source.0)() }).collect()
    }

    /// Begins to accept reports for a new query, and returns its number.
    pub(crate) fn begin_query(&self, context: u64) -> u64 {
        let mut state = self.lock();
        state.queries += 1;
        let id = state.queries;
        state.reports.insert((context, id), BTreeMap::new());
        id
    }

    /// Ends a query, and returns the reports by rank of the job.
    pub(crate) fn end_query(&self, context: u64, id: u64) -> BTreeMap<u32, Vec<u8>> {
        self.lock().reports.remove(&(context, id)).unwrap_or_default()
    }

    /// Delivers a stream that another rank has opened. Once the rank receives no more frames, the stream is closed, so
    /// that the other end does not wait.
    pub(crate) fn deliver_stream(&self, key: StreamKey, stream: KeyedStream) {
        let mut state = self.lock();
        if !state.stopped {
            state.streams.insert(key, stream);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Stops receiving, and closes the streams that have not been taken.
    pub(crate) fn stop_receiving(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.streams.clear();
    }

    /// Returns the generation of the job.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the reply to a process that joins while the job of `rank` exists: an error if the job has continued
    /// without it; otherwise it retries, because the next generation of the job may form here.
    pub(crate) fn reply_to_join(&self, rank: u32, joins: u32, generation: Option<u32>) -> Frame {
        let ours = self.generation();
        if generation.is_none_or(|theirs| theirs >= ours) {
            return Frame::Retry;
        }
        let who = Box::new(RankInfo::unnamed(joins));
        let reason = format!("the other ranks have continued without it, in generation {ours} of the job");
        Frame::Rejected(Error::Excluded { who, by: vec![rank], reason })
    }

    /// Accepts the stream of an authenticated peer; `rank` is this rank.
    pub(crate) fn accept_stream(&self, rank: u32, purpose: Purpose, mut conn: Conn) {
        let (from, context, id) = match purpose {
            Purpose::Stream { from, context, id, .. } => (from, context, id),
            Purpose::Join { rank: joins, generation, .. } => {
                return conn.push(&self.reply_to_join(rank, joins, generation));
            }
            // The rank that hosts the job may not have begun.
            Purpose::Continue { .. } => return conn.push(&Frame::Retry),
            // No rank serves a rendezvous.
            Purpose::Locate { .. } => return,
            Purpose::Observe => {
                let (address, reason) =
                    (conn.peer.to_string(), format!("rank {rank} listens there, and rank 0 answers"));
                return conn.push(&Frame::Rejected(Error::NotObserved { address, reason }));
            }
        };
        conn.push(&Frame::StreamAccepted);
        // The other end sends nothing before it has read this frame; if it does, its stream is closed.
        if let Ok(stream) = conn.into_stream() {
            self.deliver_stream((context, from, id), stream);
        }
    }

    /// Records that no more frames arrive; waiting calls return `reason`.
    pub(crate) fn close(&self, reason: Error) {
        self.lock().closed.get_or_insert(reason);
        self.changed.notify_all();
    }

    /// Returns the number of recorded failures, which may change at any time.
    pub(crate) fn num_failures(&self) -> &Arc<AtomicU64> {
        &self.failures
    }

    /// Returns the number of messages that have arrived, which may change at any time.
    pub(crate) fn num_messages(&self) -> &AtomicU64 {
        &self.messages
    }

    /// Returns why a communicator has failed, if it has.
    pub(crate) fn failure(&self, scope: &Scope) -> Option<Error> {
        self.lock().failure(scope).cloned()
    }

    /// Returns why no call can pass through rank 0 any more, if none can.
    pub(crate) fn job_end(&self) -> Option<Error> {
        let state = self.lock();
        state.job_failure().or(state.closed.as_ref()).cloned()
    }

    /// Returns why no more frames arrive for a communicator, if none do: a failure, or that rank 0 has left.
    pub(crate) fn end(&self, scope: &Scope) -> Option<Error> {
        let state = self.lock();
        state.failure(scope).or(state.closed.as_ref()).cloned()
    }

    /// Waits until `take` returns a value, `failure` returns an error, or `time` is over (`None`). A frame that has
    /// arrived counts even if the communicator failed afterwards.
    ///
    /// # Errors
    /// Why the communicator failed.
    pub(crate) fn wait<T>(
        &self,
        time: Duration,
        failure: impl Fn(&State) -> Option<&Error>,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut state = self.lock();
        let mut timeout = ActiveTimeout::new(time);
        loop {
            if let Some(found) = take(&mut state) {
                return Ok(Some(found));
            }
            if let Some(error) = failure(&state).or(state.closed.as_ref()) {
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

    fn fail(&self, state: &mut State, scope: FailureScope, error: Error) {
        if state.failures.iter().all(|(other, _)| *other != scope) {
            state.failures.push((scope, error));
            self.failures.fetch_add(1, Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes the oldest message of a queue.
    pub(crate) fn take_message(&mut self, key: MessageKey) -> Option<Vec<u8>> {
        let queue = self.messages.get_mut(&key)?;
        let bytes = queue.pop_front();
        if queue.is_empty() {
            self.messages.remove(&key);
        }
        self.waiting_bytes -= bytes.as_ref().map_or(0, Vec::len);
        bytes
    }

    /// Takes the result of a collective call.
    pub(crate) fn take_gathered(&mut self, key: (u64, u64)) -> Option<Vec<ByteBuf>> {
        self.gathered.remove(&key)
    }

    /// Takes the result of shrinking a communicator.
    pub(crate) fn take_shrunk(&mut self, context: u64) -> Option<ShrinkResult> {
        self.shrunk.remove(&context)
    }

    /// Returns why a communicator has failed, if it has.
    pub(crate) fn failure(&self, scope: &Scope) -> Option<&Error> {
        self.failures.iter().find(|(failure, _)| scope.includes(*failure)).map(|(_, error)| error)
    }

    /// Returns why the job has failed, if it has.
    pub(crate) fn job_failure(&self) -> Option<&Error> {
        self.failures.iter().find(|(scope, _)| *scope == FailureScope::Job).map(|(_, error)| error)
    }

    /// Takes a stream that the other end has opened.
    pub(crate) fn take_stream(&mut self, key: StreamKey) -> Option<KeyedStream> {
        self.streams.remove(&key)
    }

    /// Returns the identities of all ranks, once all have joined.
    pub(crate) fn roster(&self) -> Option<Arc<[RankInfo]>> {
        self.roster.clone()
    }

    /// Returns how many ranks have answered a query.
    pub(crate) fn num_reports(&self, context: u64, id: u64) -> usize {
        self.reports.get(&(context, id)).map_or(0, BTreeMap::len)
    }

    /// Returns whether a rank has left.
    pub(crate) fn has_left(&self, rank: u32) -> bool {
        self.left.contains(&rank)
    }
}
