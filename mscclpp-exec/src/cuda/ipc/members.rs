//! The ranks of a group: which of them share a node, a process, a device.

use serde::{Deserialize, Serialize};

use super::IpcGroup;
use mscclpp_cuda::driver::Fabric;

/// Properties that ranks report of themselves.
#[derive(Serialize, Deserialize)]
pub(super) struct Member {
    pub(super) process: u64,
    pub(super) ordinal: u32,
    pub(super) uuid: [u8; 16],
    pub(super) label: String,
    /// The other devices that the process sees, and whether the device can access their memory.
    pub(super) visible: Vec<([u8; 16], bool)>,
    pub(super) multicast: bool,
    pub(super) shareable: bool,
    pub(super) fabric: Option<Fabric>,
    pub(super) multiprocessors: u32,
}

impl IpcGroup {
    /// Returns the numbers of the devices of this process' ranks.
    pub(in crate::cuda) fn ordinals_here(&self) -> impl Iterator<Item = u32> {
        let process = self.members[self.rank as usize].process;
        self.on_node().filter(move |(_, member)| member.process == process).map(|(_, member)| member.ordinal)
    }

    /// Returns whether the memory of executors is allocated to be shared: on all ranks of a node or on none, so that each
    /// knows how it receives that of the others.
    pub(in crate::cuda) fn is_memory_shareable(&self) -> bool {
        self.on_node().all(|(_, member)| member.shareable)
    }

    /// Returns whether a rank is on this host, so that it receives files.
    pub(in crate::cuda) fn is_on_host(&self, rank: u32) -> bool {
        self.hosts[rank as usize] == self.hosts[self.rank as usize]
    }

    /// Returns whether ranks of this node on other hosts receive memory by handles of the fabric.
    pub(super) fn has_fabric_peers(&self) -> bool {
        let own = self.members[self.rank as usize].fabric;
        self.on_node().any(|(rank, member)| !self.is_on_host(rank) && own.is_some() && member.fabric == own)
    }

    /// Returns the ranks of this node.
    pub(super) fn on_node(&self) -> impl Iterator<Item = (u32, &Member)> {
        let node = self.nodes[self.rank as usize];
        (0..).zip(&self.members).filter(move |(rank, _)| self.nodes[*rank as usize] == node)
    }

    /// Returns the ranks on the same device as this one, this one included.
    pub(in crate::cuda) fn ranks_on_device(&self) -> impl Iterator<Item = u32> {
        let own = self.members[self.rank as usize].uuid;
        (0..).zip(&self.members).filter(move |(_, member)| member.uuid == own).map(|(rank, _)| rank)
    }

    /// Returns the number of thread blocks that each rank may have, the same on all ranks: those of all ranks on a device
    /// are co-resident then, if each fills a multiprocessor and one is the driver's.
    pub(in crate::cuda) fn max_blocks(&self) -> u32 {
        let ranks_beside = |own: &Member| self.members.iter().filter(|member| member.uuid == own.uuid).count() as u32;
        let blocks = |member: &Member| member.multiprocessors.saturating_sub(1) / ranks_beside(member);
        self.members.iter().map(blocks).min().unwrap_or(1).max(1)
    }

    /// Returns the label of a rank's device, and whether the device supports multicast objects.
    pub(in crate::cuda) fn multicast(&self, rank: u32) -> (String, bool) {
        let Member { label, multicast, .. } = &self.members[rank as usize];
        (label.clone(), *multicast)
    }

    /// Returns whether two ranks are on the same device.
    pub(in crate::cuda) fn on_one_device(&self, rank: u32, other: u32) -> bool {
        self.members[rank as usize].uuid == self.members[other as usize].uuid
    }
}
