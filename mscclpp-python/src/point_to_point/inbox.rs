//! Receives that wait for messages, and messages that wait for receives.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar};

use pyo3::prelude::*;

use super::header::Header;
use crate::failure::Failure;
use crate::tensor::View;
use crate::work::Completion;

/// Intervals for which the thread of a source leaves a receive to a thread that waits for it.
const INTERVALS: u8 = 2;

#[derive(Default)]
pub(super) struct Inbox {
    /// Receives in the order in which they were made.
    pub(super) posted: VecDeque<Receive>,
    /// Messages that arrived before their receives.
    pub(super) kept: VecDeque<Message>,
    /// Ranks that have a thread.
    pub(super) sources: BTreeMap<u32, Sender>,
    pub(super) is_closed: bool,
}

impl Inbox {
    /// Returns the receives that a message of a rank may match.
    pub(super) fn wanted(&mut self, source: u32) -> impl Iterator<Item = &mut Receive> {
        self.posted.iter_mut().filter(move |receive| receive.source.is_none_or(|from| from == source))
    }

    /// Removes the first receive that a message matches.
    pub(super) fn take(&mut self, source: u32, tag: i64) -> Option<Receive> {
        let found = self.posted.iter().position(|receive| receive.matches(source, tag));
        found.and_then(|at| self.posted.remove(at))
    }

    /// Lets a thread receive from a rank, unless another one does.
    pub(super) fn occupy(&mut self, source: u32) -> bool {
        let free = self.sources.get_mut(&source).filter(|source| !source.is_busy && source.failure.is_none());
        free.map(|source| source.is_busy = true).is_some()
    }

    /// Ends the turn of a thread.
    pub(super) fn release(&mut self, source: u32) {
        if let Some(source) = self.sources.get_mut(&source) {
            source.is_busy = false;
        }
    }

    /// Leaves all receives to the threads of their ranks.
    pub(super) fn leave(&mut self) {
        let mut left = self.posted.iter_mut().filter(|receive| receive.intervals_left > 0).peekable();
        if left.peek().is_some() {
            left.for_each(|receive| receive.intervals_left = 0);
            self.sources.values().for_each(|sender| sender.changed.notify_one());
        }
    }
}

/// A rank that messages come from.
#[derive(Default)]
pub(super) struct Sender {
    /// Whether a thread receives from it.
    pub(super) is_busy: bool,
    /// Whether its thread looks for receives only when it is woken.
    pub(super) is_asleep: bool,
    /// Wakes its thread.
    pub(super) changed: Arc<Condvar>,
    /// Why nothing more can be received from it.
    pub(super) failure: Option<Failure>,
}

pub(super) struct Receive {
    /// `None` for any rank.
    pub(super) source: Option<u32>,
    pub(super) tag: i64,
    pub(super) view: View,
    /// The tensor.
    keep: Py<PyAny>,
    completion: Arc<Completion>,
    /// Intervals after which the thread of the source makes it.
    pub(super) intervals_left: u8,
}

impl Receive {
    pub(super) fn new(source: Option<u32>, tag: i64, view: View, keep: Py<PyAny>, completion: Arc<Completion>) -> Self {
        // A thread can wait for the messages of one rank only.
        let intervals_left = if source.is_some() { INTERVALS } else { 0 };
        Self { source, tag, view, keep, completion, intervals_left }
    }

    pub(super) fn matches(&self, source: u32, tag: i64) -> bool {
        self.tag == tag && self.source.is_none_or(|wanted| wanted == source)
    }

    pub(super) fn finish(self, result: Result<u32, Failure>) {
        drop(self.keep);
        self.completion.finish(result);
    }

    /// Returns what the receive expects.
    pub(super) fn expected(&self) -> Header {
        Header::new(self.tag, &self.view)
    }

    /// Writes a message to the tensor.
    pub(super) fn deliver(self, Message { source, header, data }: &Message) {
        if self.expected() != *header {
            let (expected, tag) = (self.expected(), self.tag);
            let message = format!(
                "expected {expected} from rank {source} with tag {tag}, found {header}; receive into a tensor of the type and size that are sent"
            );
            return self.finish(Err(Failure::of_kind("mismatch", "recv", message)));
        }
        // SAFETY: the tensor is kept with the receive, and Python does not access it until the call has ended.
        unsafe { self.view.slice_mut::<u8>() }.copy_from_slice(data);
        self.finish(Ok(*source));
    }
}

pub(super) struct Message {
    pub(super) source: u32,
    pub(super) header: Header,
    pub(super) data: Vec<u8>,
}
