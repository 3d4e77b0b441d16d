//! Sends and receives with tags, in any order and from any rank.
//!
//! Each rank has two communicators for them: one for transfers to higher ranks, one for those to lower ones, so that two ranks may both
//! send first. The transfers of a direction between two ranks are made by a thread on each side: a header with tag and length, then
//! the data. A message whose tag no receive has yet is kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mscclpp_exec::{Communicator, Error};
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::queue::Queue;
use crate::tensor::View;
use crate::work::Completion;

/// Time that a thread waits for a message that no receive needs yet.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

/// What precedes the data of a message: its tag and bytes.
type Header = [u64; 2];

/// The transfers of a rank.
pub(crate) struct PointToPoint {
    /// For transfers to higher ranks, and to lower ones.
    upward: Communicator,
    downward: Communicator,
    senders: Mutex<BTreeMap<u32, Arc<Queue>>>,
    receivers: Arc<Receivers>,
}

struct Receivers {
    state: Mutex<Inbox>,
    changed: Condvar,
}

#[derive(Default)]
struct Inbox {
    /// Receives in the order in which they were made.
    posted: VecDeque<Receive>,
    /// Messages that arrived before their receives.
    kept: VecDeque<Message>,
    /// Ranks that have a thread, and why it ended.
    sources: BTreeMap<u32, Option<Failure>>,
    is_closed: bool,
}

struct Receive {
    /// `None` for any rank.
    source: Option<u32>,
    tag: i64,
    view: View,
    /// The tensor.
    keep: Py<PyAny>,
    completion: Arc<Completion>,
}

impl Receive {
    fn matches(&self, source: u32, tag: i64) -> bool {
        self.tag == tag && self.source.is_none_or(|wanted| wanted == source)
    }

    fn finish(self, result: Result<u32, Failure>) {
        drop(self.keep);
        self.completion.finish(result);
    }
}

struct Message {
    source: u32,
    tag: i64,
    data: Vec<u8>,
}

impl PointToPoint {
    /// Creates the communicators; a call of all ranks.
    pub(crate) fn new(comm: &Communicator) -> Result<Self, Failure> {
        let ranks: Vec<u32> = (0..comm.num_ranks()).collect();
        let new = || {
            let new = comm.subgroup(&ranks)?;
            new.ok_or_else(|| Error::Internal("a communicator of all ranks lacks this one".into()))
        };
        let receivers = Arc::new(Receivers { state: Mutex::default(), changed: Condvar::new() });
        Ok(Self { upward: new()?, downward: new()?, senders: Mutex::default(), receivers })
    }

    fn check_peer(&self, call: &'static str, peer: u32) -> Result<(), Failure> {
        let (rank, num_ranks) = (self.upward.rank(), self.upward.num_ranks());
        if peer < num_ranks { Ok(()) } else { Err(Error::Peer { call, rank, peer, num_ranks }.into()) }
    }

    /// Starts to send a tensor.
    pub(crate) fn send(&self, view: View, peer: u32, tag: i64, keep: Py<PyAny>) -> Result<Arc<Completion>, Failure> {
        self.check_peer("send", peer)?;
        let completion = Arc::new(Completion::default());
        let rank = self.upward.rank();
        if peer == rank {
            // SAFETY: `keep` is the tensor, which Python does not change during the call.
            let data = unsafe { view.slice::<u8>() }.to_vec();
            drop(keep);
            self.receivers.arrived(Message { source: rank, tag, data });
            completion.finish(Ok(rank));
            return Ok(completion);
        }
        let comm = if peer > rank { self.upward.clone() } else { self.downward.clone() };
        let finished = Arc::clone(&completion);
        let queue = {
            let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(senders.entry(peer).or_default())
        };
        queue.push(
            "send",
            Box::new(move || {
                let header: Header = [tag as u64, view.bytes as u64];
                let sent = comm.send(&header, peer).and_then(|()| match view.bytes {
                    0 => Ok(()),
                    // SAFETY: `keep` is the tensor, which Python does not change until the call has ended.
                    _ => comm.send::<u8>(unsafe { view.slice() }, peer),
                });
                drop(keep);
                finished.finish(sent.map(|()| 0).map_err(|error| Failure::from(error).on(rank, "send")));
            }),
        )?;
        Ok(completion)
    }

    /// Starts to receive a tensor, from any rank if `peer` is negative.
    pub(crate) fn recv(&self, view: View, peer: i64, tag: i64, keep: Py<PyAny>) -> Result<Arc<Completion>, Failure> {
        let source = u32::try_from(peer).ok();
        let rank = self.upward.rank();
        source.map_or(Ok(()), |peer| self.check_peer("recv", peer))?;
        let completion = Arc::new(Completion::default());
        let receive = Receive { source, tag, view, keep, completion: Arc::clone(&completion) };
        let sources = match source {
            Some(source) => source..source + 1,
            None => 0..self.upward.num_ranks(),
        };
        for source in sources.filter(|source| *source != rank) {
            self.start_receiver(source)?;
        }
        self.receivers.post(receive);
        Ok(completion)
    }

    fn start_receiver(&self, source: u32) -> Result<(), Failure> {
        let mut inbox = self.receivers.lock();
        if inbox.sources.contains_key(&source) {
            return Ok(());
        }
        let comm = if source < self.upward.rank() { self.upward.clone() } else { self.downward.clone() };
        let receivers = Arc::clone(&self.receivers);
        let thread = thread::Builder::new().name("mscclpp-receives".into()).spawn(move || {
            let failure = receivers.serve(&comm, source);
            receivers.fail(source, &failure);
        });
        thread.map_err(|error| Failure::of_kind("out-of-resources", "recv", format!("no thread: {error}")))?;
        inbox.sources.insert(source, None);
        Ok(())
    }

    /// Ends the threads that are not in a transfer.
    pub(crate) fn close(&self) {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|queue| queue.close());
        self.receivers.lock().is_closed = true;
        self.receivers.changed.notify_all();
    }
}

impl Receivers {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a receive, or ends it with a message that is kept.
    fn post(&self, receive: Receive) {
        let mut inbox = self.lock();
        let found = inbox.kept.iter().position(|message| receive.matches(message.source, message.tag));
        if let Some(message) = found.and_then(|at| inbox.kept.remove(at)) {
            drop(inbox);
            return deliver(receive, message.source, &message.data);
        }
        let failed = |(source, failure): (&u32, &Option<Failure>)| {
            failure.clone().filter(|_| receive.source.is_none_or(|wanted| wanted == *source))
        };
        let failure = inbox.sources.iter().find_map(failed);
        if let Some(failure) = failure {
            drop(inbox);
            return receive.finish(Err(failure));
        }
        inbox.posted.push_back(receive);
        drop(inbox);
        self.changed.notify_all();
    }

    /// Gives a message to the first receive that it matches, or keeps it.
    fn arrived(&self, message: Message) {
        let mut inbox = self.lock();
        let found = inbox.posted.iter().position(|receive| receive.matches(message.source, message.tag));
        match found.and_then(|at| inbox.posted.remove(at)) {
            Some(receive) => {
                drop(inbox);
                deliver(receive, message.source, &message.data);
            }
            None => inbox.kept.push_back(message),
        }
    }

    /// Receives the messages of a rank while there are receives that they may match.
    fn serve(&self, comm: &Communicator, source: u32) -> Failure {
        let rank = comm.rank();
        loop {
            let is_named = {
                let mut inbox = self.lock();
                loop {
                    if inbox.is_closed {
                        return Failure::of_kind("invalid-input", "recv", "the process group was destroyed".into());
                    }
                    let mut wanted =
                        inbox.posted.iter().filter(|receive| receive.source.is_none_or(|from| from == source));
                    if let Some(first) = wanted.next() {
                        break first.source.is_some() || wanted.any(|receive| receive.source.is_some());
                    }
                    inbox = self.changed.wait(inbox).unwrap_or_else(PoisonError::into_inner);
                }
            };
            let mut header: Header = [0; 2];
            let received = match is_named {
                true => comm.recv(&mut header, source),
                false => comm.with_timeout(LONG).recv(&mut header, source),
            };
            if let Err(error) = received {
                return Failure::from(error).on(rank, "recv");
            }
            let (tag, bytes) = (header[0] as i64, header[1]);
            let receive = {
                let mut inbox = self.lock();
                let fits = |receive: &Receive| receive.matches(source, tag) && receive.view.bytes as u64 == bytes;
                // The first match decides, also where its length is another one.
                let found = inbox.posted.iter().position(|receive| receive.matches(source, tag));
                found.filter(|at| fits(&inbox.posted[*at])).and_then(|at| inbox.posted.remove(at))
            };
            let failed = match receive {
                Some(receive) => {
                    let received = match bytes {
                        0 => Ok(()),
                        // SAFETY: the tensor is kept with the receive, and Python does not access it until the call has ended.
                        _ => comm.recv::<u8>(unsafe { receive.view.slice_mut() }, source),
                    };
                    let received = received.map_err(|error| Failure::from(error).on(rank, "recv"));
                    receive.finish(received.clone().map(|()| source));
                    received.err()
                }
                None => self.keep(comm, source, tag, bytes).err().map(|failure| failure.on(rank, "recv")),
            };
            if let Some(failure) = failed {
                return failure;
            }
        }
    }

    /// Receives a message into memory of its own.
    fn keep(&self, comm: &Communicator, source: u32, tag: i64, bytes: u64) -> Result<(), Failure> {
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut data = Vec::new();
        let count = bytes;
        data.try_reserve_exact(len).map_err(|_| Error::ReceiveMemory {
            call: "recv",
            rank: comm.rank(),
            count,
            bytes: 1,
        })?;
        data.resize(len, 0);
        if len > 0 {
            comm.recv::<u8>(&mut data, source)?;
        }
        self.arrived(Message { source, tag, data });
        Ok(())
    }

    /// Ends all receives that wait for a rank.
    fn fail(&self, source: u32, failure: &Failure) {
        let mut inbox = self.lock();
        inbox.sources.insert(source, Some(failure.clone()));
        let (failed, rest) = std::mem::take(&mut inbox.posted)
            .into_iter()
            .partition(|receive: &Receive| receive.source.is_none_or(|wanted| wanted == source));
        inbox.posted = rest;
        drop(inbox);
        failed.into_iter().for_each(|receive: Receive| receive.finish(Err(failure.clone())));
    }
}

/// Writes a message to the tensor of its receive.
fn deliver(receive: Receive, source: u32, data: &[u8]) {
    if receive.view.bytes != data.len() {
        let (expected, found) = (receive.view.bytes, data.len());
        let message = format!(
            "expected {expected} bytes from rank {source} with tag {}, found {found}; receive into a tensor of the size that is sent",
            receive.tag
        );
        return receive.finish(Err(Failure::of_kind("mismatch", "recv", message)));
    }
    // SAFETY: the tensor is kept with the receive, and Python does not access it until the call has ended.
    unsafe { receive.view.slice_mut::<u8>() }.copy_from_slice(data);
    receive.finish(Ok(source));
}
