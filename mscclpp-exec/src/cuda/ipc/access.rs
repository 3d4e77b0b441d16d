//! Which ranks can access the memory of each other: the nodes of calls on devices.
//!
//! Two ranks can share a node if both devices can access the memory of the other one. On one host, the driver states
//! whether they can, as far as the processes see both devices; on different hosts, both must be in one NVLink domain
//! ([`Fabric`](crate::cuda::Fabric)). Ranks of different processes also map a small allocation of each other, because a
//! process may see only its own device, and because a driver may refuse what the devices could do, as where a process may
//! not use the fabric. A node is a set of ranks each two of which can; the ranks of different nodes reach each other
//! through port channels, whose data goes through memory of the host. All ranks compute the same nodes, from the results
//! of all.

use super::members::Member;
use super::memory::SharedAllocation;
use super::{IpcGroup, encode};
use mscclpp_base::error::Error;
use mscclpp_cuda::driver::DriverError;
use mscclpp_cuda::memory::Storage;

/// How a rank's device accesses the memory of another rank.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerPath {
    /// The rank is this one, or on the same device.
    SameDevice,
    /// By peer access between devices of one process.
    PeerAccess,
    /// Memory of another process of the host is mapped.
    Mapped,
    /// Memory of another host in the same NVLink domain is mapped.
    Fabric,
    /// Not at all: port channels copy data through memory of the host.
    Host {
        /// Why the ranks cannot access the memory of each other.
        reason: String,
    },
}

/// For each rank, why another rank's device cannot access its memory; `None` if it can.
type Reasons = Vec<Option<String>>;

/// Memory of a rank that the others map on trial, and why those of other hosts cannot; or why there is no memory.
type Trial = Result<(Option<SharedAllocation>, Option<String>), String>;

impl Member {
    /// Returns why this rank's device cannot access the memory of another one, as far as that is known without trying.
    fn excluded(&self, other: &Self, is_same_host: bool) -> Option<String> {
        if !is_same_host {
            return match (self.fabric, other.fabric) {
                (Some(own), Some(other)) if own == other => None,
                (Some(_), Some(_)) => Some("they are on different hosts, in different NVLink domains".into()),
                _ => Some("they are on different hosts".into()),
            };
        }
        let peer = self.visible.iter().find(|(uuid, _)| *uuid == other.uuid)?;
        (!peer.1).then(|| format!("{} cannot access the memory of {}", self.label, other.label))
    }
}

impl IpcGroup {
    /// Determines the nodes, and how this rank reaches each rank. A call of all ranks.
    pub(super) fn find_nodes(&self) -> Result<(Vec<u32>, Vec<PeerPath>), Error> {
        let num_ranks = self.members.len();
        let hosts = &self.hosts;
        let excluded = |rank: usize, peer: usize| {
            let is_same_host = hosts[rank] == hosts[peer];
            let [one, other] = [rank, peer].map(|rank| &self.members[rank]);
            one.excluded(other, is_same_host).or_else(|| other.excluded(one, is_same_host))
        };
        let own = self.rank as usize;
        let maps = |rank: usize, peer: usize| {
            self.members[rank].process != self.members[peer].process && excluded(rank, peer).is_none()
        };
        let mut reasons: Vec<Reasons> =
            (0..num_ranks).map(|rank| (0..num_ranks).map(|peer| excluded(rank, peer)).collect()).collect();
        // All ranks know whether any rank tries.
        if (0..num_ranks).any(|rank| (0..rank).any(|peer| maps(rank, peer))) {
            let found = self.map_on_trial(|peer| maps(own, peer))?;
            for (rank, found) in found.into_iter().enumerate() {
                for (peer, found) in found.into_iter().enumerate().take(num_ranks) {
                    for (rank, peer) in [(rank, peer), (peer, rank)] {
                        let reason = &mut reasons[rank][peer];
                        *reason = reason.take().or_else(|| found.clone());
                    }
                }
            }
        }
        let nodes = divide(&reasons);
        let path = |peer: usize| match &reasons[own][peer] {
            Some(reason) => PeerPath::Host { reason: reason.clone() },
            None if nodes[peer] != nodes[own] => {
                let reason = "not all ranks of both nodes can access the memory of each other".into();
                PeerPath::Host { reason }
            }
            None if self.members[peer].uuid == self.members[own].uuid => PeerPath::SameDevice,
            None if self.members[peer].process == self.members[own].process => PeerPath::PeerAccess,
            None if hosts[peer] == hosts[own] => PeerPath::Mapped,
            None => PeerPath::Fabric,
        };
        let paths = (0..num_ranks).map(path).collect();
        Ok((nodes, paths))
    }

    /// Maps a small allocation of each rank for which `maps` returns true. Returns, by rank, which of them that rank could
    /// not map. A call of all ranks.
    fn map_on_trial(&self, maps: impl Fn(usize) -> bool) -> Result<Vec<Reasons>, Error> {
        let num_ranks = self.members.len();
        let alloc = || match self.is_memory_shareable() {
            true => Storage::shared(self.device.driver(), 1, &[]),
            false => Storage::plain(self.device.driver(), 1),
        };
        let memory = (0..num_ranks).any(&maps).then(alloc).transpose().map_err(Error::from);
        let exported = memory.as_ref().map_err(Clone::clone).and_then(|memory| match memory {
            Some(memory) => self.export_on_trial(memory.as_slice()).map(Some),
            None => Ok(None),
        });
        let (mut files, mut trial): (_, Trial) = (Vec::new(), Ok((None, None)));
        match &exported {
            Ok(Some((exported, refused))) => {
                files.clone_from(&exported.files);
                trial = Ok((exported.pieces.first().cloned(), refused.as_ref().map(ToString::to_string)));
            }
            Ok(None) => {}
            Err(error) => trial = Err(error.to_string()),
        }
        let sent = self.gather::<Trial>("access of CUDA devices", &encode(&trial)?, files)?;
        let label = |rank: usize| &self.members[rank].label;
        let try_peer = |(peer, (trial, files)): (usize, (Trial, Vec<_>))| -> Result<Option<String>, Error> {
            let (piece, refused) = trial.map_err(|reason| Error::RankLost { peer: peer as u32, reason })?;
            let Some(piece) = piece.filter(|_| maps(peer)) else { return Ok(None) };
            if let Some(reason) = refused.filter(|_| !self.is_on_host(peer as u32)) {
                return Ok(Some(format!("{} cannot share its memory with other hosts: {reason}", label(peer))));
            }
            match self.import(peer as u32, piece, &mut files.into_iter()) {
                Ok(_) => Ok(None),
                Err(Error::MapFailed { error, .. }) if is_refusal(&error) => {
                    let own = label(self.rank as usize);
                    Ok(Some(format!("{own} cannot map the memory of {}: {error}", label(peer))))
                }
                Err(error) => Err(error),
            }
        };
        let found: Result<Reasons, Error> = sent.into_iter().enumerate().map(try_peer).collect();
        let row = found.as_ref().map_err(|error| error.to_string());
        // No rank frees its memory before the others have unmapped it.
        let rows =
            self.gather::<Result<Reasons, String>>("end of access of CUDA devices", &encode(&row)?, Vec::new())?;
        exported.and(memory).and(found).map_err(|error| self.abort_known(error))?;
        let row = |(peer, (row, _)): (u32, (Result<Reasons, String>, _))| {
            row.map_err(|reason| self.abort_known(Error::RankLost { peer, reason }))
        };
        (0..).zip(rows).map(row).collect()
    }
}

/// Returns whether a driver has refused to share or map memory because of where that is, or of what the process may do: another
/// failure is one of the call. A driver rejects a handle of a fabric that a process may not use as an invalid argument.
pub(super) fn is_refusal(error: &DriverError) -> bool {
    const INVALID_VALUE: i32 = 1;
    const INVALID_DEVICE: i32 = 101;
    const MAP_FAILED: i32 = 205;
    const PEER_ACCESS_UNSUPPORTED: i32 = 217;
    const INVALID_HANDLE: i32 = 400;
    const TOO_MANY_PEERS: i32 = 711;
    const NOT_PERMITTED: i32 = 800;
    const NOT_SUPPORTED: i32 = 801;
    const SYSTEM_NOT_READY: i32 = 802;
    matches!(
        error.code,
        INVALID_VALUE
            | INVALID_DEVICE
            | MAP_FAILED
            | PEER_ACCESS_UNSUPPORTED
            | INVALID_HANDLE
            | TOO_MANY_PEERS
            | NOT_PERMITTED
            | NOT_SUPPORTED
            | SYSTEM_NOT_READY
    )
}

/// Divides ranks into nodes: each rank joins the first node with whose ranks it has no reason against sharing it. Nodes
/// are numbered in the order of their first rank.
fn divide(reasons: &[Reasons]) -> Vec<u32> {
    let mut nodes: Vec<Vec<usize>> = Vec::new();
    let mut node_of = Vec::with_capacity(reasons.len());
    for (rank, reasons) in reasons.iter().enumerate() {
        let fits = |node: &Vec<usize>| node.iter().all(|&peer| reasons[peer].is_none());
        let number = nodes.iter().position(fits).unwrap_or_else(|| {
            nodes.push(Vec::new());
            nodes.len() - 1
        });
        nodes[number].push(rank);
        node_of.push(number as u32);
    }
    node_of
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the nodes of ranks of which these pairs cannot access the memory of each other.
    fn nodes(num_ranks: usize, apart: &[(usize, usize)]) -> Vec<u32> {
        let reason = |rank, peer| {
            let is_apart = apart.contains(&(rank, peer)) || apart.contains(&(peer, rank));
            is_apart.then(|| "no access".to_owned())
        };
        let reasons: Vec<Reasons> =
            (0..num_ranks).map(|rank| (0..num_ranks).map(|peer| reason(rank, peer)).collect()).collect();
        divide(&reasons)
    }

    #[test]
    fn every_two_ranks_of_a_node_have_access() {
        assert_eq!(nodes(4, &[]), [0, 0, 0, 0]);
        assert_eq!(nodes(3, &[(0, 1), (0, 2), (1, 2)]), [0, 1, 2]);
        assert_eq!(nodes(4, &[(0, 2), (0, 3), (1, 2), (1, 3)]), [0, 0, 1, 1]);
        // A chain of which only neighbors have access.
        assert_eq!(nodes(4, &[(0, 2), (0, 3), (1, 3)]), [0, 0, 1, 1]);
        assert_eq!(nodes(3, &[(0, 1)]), [0, 1, 0]);
    }
}
