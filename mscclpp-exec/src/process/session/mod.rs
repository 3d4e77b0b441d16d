//! State that all calls of a rank share: its peers on the node, and the number of the next call.

mod cause;
mod compare;
mod connect;
mod exchange;
mod flags;
mod history;
mod regions;
mod wait;

use std::panic::Location;
use std::sync::{Arc, Weak};

#[cfg(feature = "cuda")]
pub(super) use self::cause::arrival_time;
pub(super) use self::connect::lost_descriptor;
pub use self::history::CallHistory;
#[cfg(feature = "cuda")]
pub(super) use self::history::fnv;
pub(super) use self::wait::{Backoff, PARK_INTERVAL};
use super::buffer::Shared;
use super::calls::Calls;
use super::options::Options;
use super::plan::Prepared;
use super::plan_memory::{PlanMemory, SlabPool};
use super::timeline::TimelineFile;
use super::wire::NodeConnections;
use mscclpp_base::error::Error;
use mscclpp_base::shm::{Mesh, ProcessMark};
use mscclpp_bootstrap::places::{CallPlace, PlaceNumbers};
use mscclpp_bootstrap::{self as bootstrap, Bootstrap, Topic};

/// A rank's side of its communicator. One call at a time holds it.
pub struct Session {
    pub(super) bootstrap: Arc<Bootstrap>,
    pub(super) options: Options,
    /// Node of each rank.
    pub(super) nodes: Vec<u32>,
    /// Connections to ranks on other nodes.
    pub(super) connections: NodeConnections,
    /// Ranks of this node in ascending order, and this rank's index among them (its local rank).
    pub(super) locals: Vec<u32>,
    pub(super) own_local_rank: usize,
    pub(super) calls: Calls,
    mesh: Mesh,
    mark: ProcessMark,
    /// Number of the last call.
    pub(super) number: u64,
    /// The last calls, for reports to other ranks.
    pub(super) history: Arc<CallHistory>,
    /// Source location of the current call, and its number; `None` if it is unknown.
    place: Option<(&'static Location<'static>, u32)>,
    place_numbers: PlaceNumbers,
    /// By local rank: the last call in which the peer's call is known to be the same.
    compared: Box<[u64]>,
    /// Number of launches so far, which determines their packets' flags.
    pub(super) launches: u64,
    /// Why the communicator has failed.
    pub cause: Option<bootstrap::Error>,
    /// Prepared plans.
    pub(super) plans: Vec<Prepared>,
    /// Live allocations of callers.
    pub(super) regions: Vec<Weak<Shared>>,
    /// Number of allocations so far, of callers and for plans.
    pub(super) allocations: u64,
    /// Memory of plans.
    pub(super) slabs: SlabPool,
    /// Memory for copies of slices that are not shared: inputs, outputs.
    pub(super) staging: [Option<Arc<PlanMemory>>; 2],
    /// Memory for copies of short slices: space for both slots of each of the last [`RING`] calls. No rank is that many
    /// calls ahead of a peer, so a launch need not wait until all peers have read its copies.
    pub(super) ring: Option<Arc<PlanMemory>>,
    /// Packet scratch that plans still use, to be cleared when flags start again.
    pub(super) packets: Vec<Weak<PlanMemory>>,
    /// Whether there are more ranks than processors to run them, so that spinning keeps peers from running.
    pub(super) oversubscribed: bool,
    /// Whether this rank launches on a device, where nothing tells how far the launches are when the process exits.
    pub(super) has_device: bool,
    /// The file for the timeline of launches, if they are recorded.
    pub(super) timeline: Option<TimelineFile>,
}

impl Session {
    /// Returns this rank.
    pub(super) fn rank(&self) -> u32 {
        self.bootstrap.rank()
    }

    /// Returns whether there are ranks on other nodes.
    pub(super) fn has_several_nodes(&self) -> bool {
        self.locals.len() < self.nodes.len()
    }

    /// Returns the local ranks of the other ranks of the node.
    pub(super) fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let own_local_rank = self.own_local_rank;
        (0..self.locals.len()).filter(move |&local_rank| local_rank != own_local_rank)
    }

    /// Sets the source location of the next call.
    #[inline]
    pub(super) fn set_place(&mut self, place: &'static Location<'static>) {
        self.place = Some((place, self.place_numbers.of(CallPlace::of(place))));
    }

    /// Returns the source location of the current call.
    pub(super) fn place(&self) -> Option<&'static Location<'static>> {
        self.place.map(|(place, _)| place)
    }

    /// Returns an error if the communicator has failed, although this rank's part of the call is done: so that as many ranks
    /// as possible learn it in this call. Ranks that have returned before learn it in their next call.
    #[inline]
    pub(super) fn check(&mut self) -> Result<(), Error> {
        if self.calls.any_aborted() || self.bootstrap.check_alive().is_err() { self.check_cause() } else { Ok(()) }
    }

    #[cold]
    fn check_cause(&mut self) -> Result<(), Error> {
        match self.find_cause() {
            Some(cause) => Err(self.fail(cause).into()),
            None => Ok(()),
        }
    }

    /// Informs the peers that this rank makes no more calls, and closes its connections to other nodes.
    pub(in super::super) fn leave(&mut self) {
        if self.mark.is_copy() {
            // The call log is not mapped here, and belongs to the other process.
            return;
        }
        match self.bootstrap.check_alive() {
            // Otherwise peers that have not received the failure would name this rank, whose connections close.
            Err(error) => self.calls.abort(self.number, Some(&error)),
            Ok(()) if self.cause.is_none() => self.calls.leave(self.number),
            Ok(()) => {}
        }
        self.bootstrap.set_report(Topic::Calls, None);
        self.connections.close();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Peers notice the closed connections; this rank waits for nothing.
        self.leave();
    }
}
