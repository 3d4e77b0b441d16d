//! Calls of ranks on other nodes that launch nothing by which this rank would notice them.
//!
//! Between nodes a launch shows which call it belongs to, when data or a signal arrives. A call without elements launches nothing, and the next
//! call of its rank would be taken for it: a rank that has elements in the call would get those of another one. So the rank tells the ranks of
//! other nodes of its call before it makes another one.

use std::sync::atomic::Ordering::Relaxed;

use mscclpp_bootstrap::{ANSWER_TIME, Bootstrap, Error};
use serde::{Deserialize, Serialize};

/// Tag of the messages, which no other message has.
const TAG: u64 = u64::MAX - 0x6361_6c6c;

/// A call of a rank on another node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ToldCall {
    /// The rank that made it, which its message does not have.
    #[serde(skip)]
    pub(super) rank: u32,
    pub(super) number: u64,
    /// Hash of all calls of the rank up to this one.
    pub(super) chain: u64,
    /// Its text, as in a ring.
    pub(super) words: Vec<u64>,
}

/// The calls of which ranks on other nodes have told this one.
#[derive(Default)]
pub(super) struct ToldCalls {
    /// The ranks on other nodes.
    pub(super) others: Vec<u32>,
    /// Number of messages that had arrived when they were last read.
    arrived: u64,
    /// Calls that have yet to be compared, because this rank has not made them.
    pub(super) calls: Vec<ToldCall>,
}

impl ToldCalls {
    pub(super) fn new(others: Vec<u32>) -> Self {
        Self { others, ..Self::default() }
    }

    /// Tells the ranks on other nodes of a call. Returns when all of them have received it, so before they can notice later calls of this rank.
    ///
    /// # Errors
    /// Why the communicator has failed.
    pub(super) fn tell(&self, bootstrap: &Bootstrap, call: &ToldCall) -> Result<(), Error> {
        // Encoding fails only for types that cannot be serialized.
        let bytes = postcard::to_allocvec(call).unwrap_or_default();
        self.others.iter().try_for_each(|&rank| bootstrap.send(rank, TAG, &bytes))?;
        // A rank answers what it has received after the message. One that does not answer is suspended, and reads the message when it continues.
        bootstrap.reports(ANSWER_TIME).map(drop)
    }

    /// Reads what has arrived.
    ///
    /// # Errors
    /// Why the communicator has failed.
    #[inline]
    pub(super) fn receive(&mut self, bootstrap: &Bootstrap) -> Result<(), Error> {
        if self.others.is_empty() {
            return Ok(());
        }
        let arrived = bootstrap.num_messages().load(Relaxed);
        if arrived == self.arrived { Ok(()) } else { self.receive_new(bootstrap, arrived) }
    }

    #[cold]
    fn receive_new(&mut self, bootstrap: &Bootstrap, arrived: u64) -> Result<(), Error> {
        for &rank in &self.others {
            while let Some(bytes) = bootstrap.try_recv(rank, TAG)? {
                self.calls.extend(postcard::from_bytes(&bytes).map(|call| ToldCall { rank, ..call }));
            }
        }
        self.arrived = arrived;
        Ok(())
    }
}
