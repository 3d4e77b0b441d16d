//! Ranks in other processes, or in other threads with their own bootstraps: their properties and their memory. Memory
//! of ranks on other nodes cannot be mapped; see [`nodes`](super::nodes).

mod access;
mod flat;
mod members;
mod memory;
mod register;
mod share;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::{Deserialize, Serialize};

pub use self::access::PeerPath;
pub(super) use self::flat::FlatRange;
use self::members::Member;
pub(super) use self::memory::PeerMemory;
use self::register::Known;
use super::nodes::{NodeConnections, RegionTable, Stagings, Traffic};
use super::proxy::Proxies;
use crate::process::{self, Session};
use mscclpp_base::error::Error;
use mscclpp_base::shm::{Sent, SharedFile};
use mscclpp_bootstrap::{self as bootstrap, Bootstrap, CAUSE_GRACE_PERIOD};
use mscclpp_cuda::device::Device;
use mscclpp_cuda::driver::Peer;
use mscclpp_cuda::peer;

/// First number of the connections between nodes, of which each plan uses one.
const STREAMS: u64 = 0x6375_6461 << 32;

/// A rank's side of its group. All ranks make the same calls in the same order.
pub(super) struct IpcGroup {
    ranks: process::Executor,
    device: Device,
    pub(super) rank: u32,
    members: Vec<Member>,
    bootstrap: Arc<Bootstrap>,
    /// Host of each rank, which is the node of the bootstrap.
    hosts: Vec<u32>,
    /// Node of each rank: the ranks of a node access the memory of each other. One node until they are known.
    pub(super) nodes: Vec<u32>,
    /// How this rank reaches each rank.
    pub(super) paths: Vec<PeerPath>,
    /// Regions that ranks of different nodes have exported to each other; `None` if there is one node.
    pub(super) remote_regions: Option<Arc<RegionTable>>,
    pub(super) stagings: Stagings,
    /// Number of plans and sets of channels that were connected.
    connected: AtomicU64,
    /// Allocations of callers that the ranks have registered with each other.
    known: Mutex<Known>,
}

impl IpcGroup {
    /// Exchanges the properties of the ranks of a group. `ranks`: the executor whose calls include those of the group.
    pub(super) fn new(ranks: process::Executor, device: &Device) -> Result<Self, Error> {
        let bootstrap = Arc::clone(ranks.bootstrap());
        let properties = device.properties();
        let visible = device.driver().peers();
        let own = |peers: Vec<Peer>| Member {
            process: device.driver().process(),
            ordinal: properties.ordinal,
            uuid: properties.uuid,
            label: properties.label(),
            visible: peers.iter().map(|peer| (peer.uuid, peer.can_access)).collect(),
            multicast: properties.multicast,
            shareable: properties.shareable,
            fabric: properties.fabric,
            multiprocessors: properties.multiprocessors,
        };
        let rank = bootstrap.rank();
        // A rank that cannot continue takes part as well, or the others would wait for it.
        let own: Result<Member, String> = visible.as_ref().cloned().map(own).map_err(ToString::to_string);
        let sent = Sent { bytes: encode(&own)?, ..Sent::default() };
        let sent = ranks.session()?.exchange_all("exchange of CUDA devices", sent)?;
        let mut members = Vec::with_capacity(sent.len());
        for (peer, sent) in (0_u32..).zip(sent) {
            let member: Result<Member, String> = decode(peer, if peer == rank { encode(&own)? } else { sent.bytes })?;
            members.push(member.map_err(|reason| match &visible {
                Err(error) if peer == rank => error.clone().into(),
                _ => Error::RankLost { peer, reason },
            }));
        }
        let members: Result<Vec<Member>, Error> = members.into_iter().collect();
        let members = members.map_err(|error| match ranks.session() {
            Ok(mut session) => session.abort_known(error),
            Err(busy) => busy,
        })?;
        let known = Mutex::default();
        let hosts = (0..bootstrap.num_ranks()).map(|peer| bootstrap.node_of(peer)).collect::<Result<Vec<_>, _>>()?;
        let mut group = Self {
            ranks,
            device: device.clone(),
            rank,
            members,
            bootstrap,
            nodes: vec![0; hosts.len()],
            hosts,
            paths: Vec::new(),
            remote_regions: None,
            stagings: Stagings::default(),
            connected: AtomicU64::new(0),
            known,
        };
        (group.nodes, group.paths) = group.find_nodes()?;
        group.remote_regions = group.nodes.iter().any(|&node| node != 0).then(Arc::default);
        let connected = group.connect();
        group.agree("connection of CUDA devices", connected)?;
        Ok(group)
    }

    /// Enables access of the device to those of other ranks of this process.
    fn connect(&self) -> Result<(), Error> {
        let own = &self.members[self.rank as usize];
        for (_, member) in self.on_node().filter(|(_, member)| member.process == own.process) {
            if member.ordinal != own.ordinal {
                peer::connect_to(&self.device, member.ordinal, &member.label)?;
            }
        }
        Ok(())
    }

    /// Exchanges a message and files of every rank; a call of all ranks. Returns the messages by rank.
    ///
    /// # Errors
    /// [`Error::RankLost`], and those of a call of all ranks.
    pub(super) fn gather<T: for<'a> Deserialize<'a>>(
        &self,
        text: &str,
        bytes: &[u8],
        files: Vec<SharedFile>,
    ) -> Result<Vec<(T, Vec<SharedFile>)>, Error> {
        let sent = self.session()?.exchange_all(text, Sent { bytes: bytes.to_vec(), files, ..Sent::default() })?;
        let read = |(peer, sent): (u32, Sent)| {
            let bytes = if peer == self.rank { bytes.to_vec() } else { sent.bytes };
            Ok((decode(peer, bytes)?, sent.files))
        };
        (0..).zip(sent).map(read).collect::<Result<_, _>>().map_err(|error| self.abort(error))
    }

    /// Returns an error if an earlier failure excludes further calls.
    pub(super) fn check(&self) -> Result<(), Error> {
        let session = self.session()?;
        match &session.cause {
            Some(cause) => Err(cause.clone().into()),
            None => Ok(self.bootstrap.check_alive()?),
        }
    }

    /// Connects a plan's proxy to the ranks on other nodes that it needs. It is a call of all ranks, including those
    /// that need none.
    pub(super) fn connect_nodes(&self, proxies: Option<&Proxies>) -> Result<(), Error> {
        let number = STREAMS + self.connected.fetch_add(1, Relaxed);
        let connect = |proxies: &Proxies| -> Result<(), Error> {
            let mut peers = proxies.unconnected().into_iter();
            peers.try_for_each(|peer| proxies.connect(peer, self.bootstrap.data_stream(peer, number)?))
        };
        proxies.map_or(Ok(()), connect).map_err(|error| self.abort(error))
    }

    /// Returns connections of a proxy of kernels' channels to all ranks on other nodes, which are connected later; `None` if there are none.
    pub(super) fn connections_of_channels(&self) -> Result<Option<NodeConnections>, Error> {
        let Some(regions) = &self.remote_regions else { return Ok(None) };
        let own = self.nodes[self.rank as usize];
        let peers: Vec<u32> = (0..).zip(&self.nodes).filter(|(_, node)| **node != own).map(|(peer, _)| peer).collect();
        let (memories, traffic) = ((regions, &self.stagings), Traffic::Channels { rank: self.rank });
        NodeConnections::new(&self.device, &self.bootstrap, memories, traffic, &peers).map(Some)
    }

    /// Returns the cause by which the group has failed, if that was not a launch of its own.
    pub(super) fn find_cause(&self) -> Option<bootstrap::Error> {
        self.bootstrap.failure_within(CAUSE_GRACE_PERIOD)
    }

    /// Returns the cause on all ranks when this rank aborts.
    pub(super) fn aborted(&self, reason: &str) -> bootstrap::Error {
        bootstrap::Error::Aborted { who: Box::new(self.bootstrap.member(self.rank)), reason: reason.to_owned() }
    }

    pub(super) fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.bootstrap
    }

    /// Fails the group because of a failure that all its ranks have learned in a call, and returns the failure.
    pub(super) fn abort_known(&self, error: Error) -> Error {
        match self.session() {
            Ok(mut session) => session.abort_known(error),
            Err(busy) => busy,
        }
    }

    /// Fails the group, because the counters of its ranks are no longer consistent. Returns the error, or the cause that
    /// another rank reported first.
    pub(super) fn abort(&self, error: Error) -> Error {
        match self.session() {
            Ok(mut session) => session.abort(error),
            Err(busy) => busy,
        }
    }

    pub(super) fn session(&self) -> Result<MutexGuard<'_, Session>, Error> {
        self.ranks.session()
    }

    /// Returns the error for a malformed message of a rank.
    pub(super) fn malformed(&self, peer: u32) -> Error {
        self.abort(Error::RankLost { peer, reason: "it sent data that this rank cannot decode".into() })
    }
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    postcard::to_allocvec(value).map_err(|error| Error::Internal(error.to_string()))
}

fn decode<T: for<'a> Deserialize<'a>>(peer: u32, bytes: Vec<u8>) -> Result<T, Error> {
    let malformed = |error: postcard::Error| Error::RankLost {
        peer,
        reason: format!("it sent data that this rank cannot decode: {error}"),
    };
    postcard::from_bytes(&bytes).map_err(malformed)
}
