//! What the calls of a rank have in common: its peers on the node, and which call comes next.

mod compare;
mod connect;
mod exchange;
mod flags;
mod regions;
mod wait;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

pub(super) use self::connect::lost_descriptor;
pub(super) use self::wait::{PARK_INTERVAL, SPINS, YIELDS, spin};
use super::buffer::Shared;
use super::calls::{Calls, RING};
use super::options::Options;
use super::plan::Prepared;
use super::wire::Wires;
use crate::error::Error;
use crate::shm::{Mesh, Segment};
use mscclpp_bootstrap::Bootstrap;

/// A rank's side of its group. One call at a time has it.
pub(crate) struct Session {
    pub(super) bootstrap: Arc<Bootstrap>,
    pub(super) options: Options,
    /// By rank: its node.
    pub(super) nodes: Vec<u32>,
    /// Connections to ranks on other nodes.
    pub(super) wires: Wires,
    /// Ranks of this node, ascending, and the own place among them.
    pub(super) locals: Vec<u32>,
    pub(super) me: usize,
    pub(super) calls: Calls,
    mesh: Mesh,
    /// The last call.
    pub(super) number: u64,
    /// What the last calls were, by number.
    history: [(u64, u64); RING as usize],
    /// By place: up to which call it is known that the peer called the same.
    compared: Box<[u64]>,
    /// Texts of the last kinds of calls by id, for messages.
    texts: VecDeque<(u64, Arc<str>)>,
    /// Launches so far: their packets' flags.
    pub(super) launches: u64,
    /// Why the group cannot go on.
    pub(crate) broken: Option<String>,
    /// Plans that were prepared.
    pub(super) plans: Vec<Prepared>,
    /// Allocations that are alive, by number.
    pub(super) regions: Vec<Weak<Shared>>,
    pub(super) allocations: u64,
    /// Where slices are copied to that are not shared themselves: inputs, outputs.
    pub(super) staging: [Option<Arc<Shared>>; 2],
    /// Where short slices are copied to instead: room for both slots of each of the last [`RING`] calls. Nobody is ahead of
    /// a peer by so many calls, so that a launch need not wait until all have read its copies.
    pub(super) ring: Option<Arc<Shared>>,
    /// Own scratch for packets that executables or plans still have, to be cleared when flags start again.
    pub(super) packets: Vec<Weak<Segment>>,
    /// More ranks than processors to run them: to spin keeps peers from running.
    pub(super) oversubscribed: bool,
}

impl Session {
    /// This rank.
    pub(super) fn rank(&self) -> u32 {
        self.bootstrap.rank()
    }

    /// Places of the other ranks of the node.
    pub(super) fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..self.locals.len()).filter(move |&place| place != me)
    }

    /// Says that the group cannot go on.
    #[cold]
    pub(crate) fn give_up(&mut self, error: &Error) {
        self.broken.get_or_insert_with(|| error.to_string());
        self.calls.give_up(self.number, error.group());
    }

    /// Waits for the ranks of other nodes.
    pub(super) fn settle_nodes(&mut self) -> Result<(), Error> {
        match self.bootstrap.num_nodes() {
            1 => Ok(()),
            _ => self.bootstrap.barrier().map_err(Error::from).inspect_err(|error| self.give_up(error)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        match self.bootstrap.check_alive() {
            // Peers that have yet to hear of it would name this rank, whose connections close.
            Err(error) => self.calls.give_up(self.number, Some(&error)),
            Ok(()) if self.broken.is_none() => self.calls.leave(self.number),
            Ok(()) => {}
        }
        // Peers see the connections close; nothing is waited for.
    }
}
