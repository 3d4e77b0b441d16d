//! Sends and receives with tags, in any order and from any rank.
//!
//! Each rank has two communicators for them: one for transfers to higher ranks, one for those to lower ones, so that two ranks may both
//! send first. A message is a header with tag, type and length, then the data. One whose tag no receive has yet is kept.
//!
//! Short messages are sent by the thread that calls, if they need not wait for the other rank, and received by a thread that waits for
//! them. All others are transferred by a thread for each rank and direction, and the sends among them are buffered while there is room:
//! their call ends at once.

mod header;
mod inbox;
mod outgoing;
mod receive;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mscclpp_communicator::Communicator;
use mscclpp_exec::Error;
use pyo3::prelude::*;

use self::header::Header;
use self::inbox::{Inbox, Message, Receive};
use self::outgoing::{Outgoing, Sender};
use self::receive::{Receiver, Receivers, Source};
use crate::failure::Failure;
use crate::tensor::View;
use crate::work::{Completion, Helper};

/// The transfers of a rank.
pub(crate) struct PointToPoint {
    /// For transfers to higher ranks, and to lower ones.
    upward: Communicator,
    downward: Communicator,
    senders: Mutex<BTreeMap<u32, Arc<Sender>>>,
    receivers: Arc<Receivers>,
}

impl PointToPoint {
    /// Creates the communicators; a call of all ranks.
    pub(crate) fn new(comm: &Communicator) -> Result<Self, Failure> {
        let ranks: Vec<u32> = (0..comm.num_ranks()).collect();
        let new = || {
            let new = comm.subgroup(&ranks)?;
            new.ok_or_else(|| Error::Internal("a communicator of all ranks lacks this one".into()))
        };
        Ok(Self { upward: new()?, downward: new()?, senders: Mutex::default(), receivers: Arc::default() })
    }

    fn check_peer(&self, call: &'static str, peer: u32) -> Result<(), Failure> {
        let (rank, num_ranks) = (self.upward.rank(), self.upward.num_ranks());
        if peer < num_ranks { Ok(()) } else { Err(Error::Peer { call, rank, peer, num_ranks }.into()) }
    }

    /// Returns the communicator of transfers from one rank to another.
    fn comm(&self, from: u32, to: u32) -> &Communicator {
        if from < to { &self.upward } else { &self.downward }
    }

    /// Returns what a thread does that waits for a send.
    pub(crate) fn helper_of_send(&self) -> Box<dyn Helper> {
        Box::new(Receiver::Leaves(Arc::clone(&self.receivers)))
    }

    /// Sends a tensor, or starts to.
    pub(crate) fn send(
        &self,
        view: View,
        peer: u32,
        tag: i64,
        tensor: &Bound<'_, PyAny>,
    ) -> Result<Arc<Completion>, Failure> {
        self.check_peer("send", peer)?;
        let completion = Arc::new(Completion::default());
        let rank = self.upward.rank();
        if peer == rank {
            // SAFETY: the tensor exists, and Python does not change it during the call.
            let data = unsafe { view.slice::<u8>() }.to_vec();
            self.receivers.arrived(Message { source: rank, header: Header::new(tag, &view), data });
            completion.finish(Ok(rank));
            return Ok(completion);
        }
        let comm = self.comm(rank, peer);
        let sender = {
            let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(senders.entry(peer).or_default())
        };
        if let Some(failure) = sender.failure() {
            return Err(failure);
        }
        let outgoing = Outgoing::new(comm, view, peer, tag);
        let sent = tensor.py().detach(|| sender.send_at_once(&outgoing));
        if let Some(sent) = sent {
            completion.finish(sent);
        } else if let Some(buffered) = sender.buffer(&outgoing) {
            sender.push(buffered)?;
            completion.finish(Ok(rank));
        } else {
            let (keep, finished) = (tensor.clone().unbind(), Arc::clone(&completion));
            sender.push_without_room(outgoing, move |sent| {
                drop(keep);
                finished.finish(sent);
            })?;
        }
        Ok(completion)
    }

    /// Starts to receive a tensor, from any rank if `peer` is negative.
    pub(crate) fn recv(
        &self,
        view: View,
        peer: i64,
        tag: i64,
        tensor: &Bound<'_, PyAny>,
    ) -> Result<(Arc<Completion>, Box<dyn Helper>), Failure> {
        let source = u32::try_from(peer).ok();
        let rank = self.upward.rank();
        source.map_or(Ok(()), |peer| self.check_peer("recv", peer))?;
        let sources = match source {
            Some(source) => source..source + 1,
            None => 0..self.upward.num_ranks(),
        };
        for source in sources.filter(|source| *source != rank) {
            self.receivers.start(source, self.comm(source, rank))?;
        }
        let completion = Arc::new(Completion::default());
        let keep = tensor.clone().unbind();
        self.receivers.post(Receive::new(source, tag, view, keep, Arc::clone(&completion)));
        let receivers = Arc::clone(&self.receivers);
        let helper = match source.filter(|source| *source != rank) {
            Some(source) => {
                Receiver::Receives(Source { receivers, comm: self.comm(source, rank).clone(), rank: source })
            }
            None => Receiver::Leaves(receivers),
        };
        Ok((completion, Box::new(helper)))
    }

    /// Ends the threads that are not in a transfer, after the sends that are buffered, for which it waits at most for `timeout`.
    /// Returns whether none is left.
    pub(crate) fn close(&self, timeout: Duration) -> bool {
        let senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let end = Instant::now() + timeout;
        let are_sent = senders.values().all(|sender| sender.close(end));
        self.receivers.close();
        are_sent
    }
}
