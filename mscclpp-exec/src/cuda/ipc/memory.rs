//! Memory of other ranks: at its own address, mapped, or as a remote region.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::IpcGroup;
use super::access::is_refusal;
use crate::cuda::nodes::{ExportedRegion, Owner, RemoteRegion};
use mscclpp_base::error::Error;
use mscclpp_base::shm::{SharedFile, own_file};
use mscclpp_cuda::driver::{DriverError, Export};
use mscclpp_cuda::memory::RemoteMemory;
use mscclpp_cuda::slice::DeviceSlice;

/// Memory of a rank, as this rank accesses it.
#[derive(Clone)]
pub(in crate::cuda) enum PeerMemory {
    /// Memory of this process, at its own address, possibly exported to other nodes.
    Here { address: u64, _region: Option<Arc<ExportedRegion>> },
    /// Mapped memory of another process.
    Mapped(Arc<RemoteMemory>),
    /// Memory on another node.
    Remote(Arc<RemoteRegion>),
}

impl PeerMemory {
    pub(in crate::cuda) fn address(&self) -> u64 {
        match self {
            Self::Here { address, .. } => *address,
            Self::Mapped(memory) => memory.address(),
            Self::Remote(region) => region.address(),
        }
    }
}

/// Description by which other ranks map or address an allocation.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct SharedAllocation {
    address: u64,
    bytes: u64,
    /// Handle of 64 bytes for ranks of the host; if empty, the memory is the next file.
    ipc: Vec<u8>,
    /// Handle of 64 bytes for ranks of other hosts in the fabric; empty if there are none on the node.
    fabric: Vec<u8>,
    /// Number under which ranks of other nodes address it.
    number: u64,
}

/// Allocations of this rank, in the forms for the other ranks and for itself.
#[derive(Default)]
pub(super) struct Exported {
    pub(super) pieces: Vec<SharedAllocation>,
    pub(super) files: Vec<SharedFile>,
    pub(super) own: Vec<PeerMemory>,
}

impl IpcGroup {
    /// Exports allocations of this rank to the ranks of the node.
    pub(super) fn export(&self, slices: &[DeviceSlice], owner: Owner) -> Result<Exported, Error> {
        let mut exported = self.export_on_host(slices, owner)?;
        if self.has_fabric_peers() {
            for piece in &mut exported.pieces {
                piece.fabric = self.device.driver().export_fabric(piece.address)?.to_vec();
            }
        }
        Ok(exported)
    }

    /// Exports an allocation of this rank to the ranks of the node as far as the driver permits. Returns also why ranks of
    /// other hosts cannot map it.
    pub(super) fn export_on_trial(&self, slice: DeviceSlice) -> Result<(Exported, Option<DriverError>), Error> {
        let mut exported = self.export_on_host(&[slice], Owner::Plan)?;
        let mut refused = None;
        if self.has_fabric_peers() {
            match self.device.driver().export_fabric(slice.address) {
                Ok(handle) => exported.pieces.iter_mut().for_each(|piece| piece.fabric = handle.to_vec()),
                Err(error) if is_refusal(&error) => refused = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((exported, refused))
    }

    fn export_on_host(&self, slices: &[DeviceSlice], owner: Owner) -> Result<Exported, Error> {
        let own = self.members[self.rank as usize].process;
        let all_here = self.on_node().all(|(rank, member)| member.process == own || !self.is_on_host(rank));
        let mut exported = Exported::default();
        for &slice in slices {
            let region = self.remote_regions.as_ref().map(|regions| Arc::new(regions.export(slice, owner)));
            let number = region.as_ref().map_or(0, |region| region.number());
            let DeviceSlice { address, bytes } = slice;
            let mut piece = SharedAllocation { address, bytes, ipc: Vec::new(), fabric: Vec::new(), number };
            if !all_here {
                match self.device.driver().export(address)? {
                    Export::Ipc(handle) => piece.ipc = handle.to_vec(),
                    Export::Fabric(handle) => piece.fabric = handle.to_vec(),
                    Export::File(file) => exported.files.push(Arc::new(file)),
                }
            }
            exported.pieces.push(piece);
            exported.own.push(PeerMemory::Here { address, _region: region });
        }
        Ok(exported)
    }

    pub(super) fn import(
        &self,
        peer: u32,
        piece: SharedAllocation,
        files: &mut impl Iterator<Item = SharedFile>,
    ) -> Result<PeerMemory, Error> {
        let [own, other] = [self.rank, peer].map(|rank| &self.members[rank as usize]);
        if let Some(regions) = &self.remote_regions
            && self.nodes[peer as usize] != self.nodes[self.rank as usize]
        {
            return Ok(PeerMemory::Remote(Arc::new(regions.add(peer, piece.number, piece.bytes)?)));
        }
        if other.process == own.process {
            return Ok(PeerMemory::Here { address: piece.address, _region: None });
        }
        let malformed = || Error::RankLost { peer, reason: "it sent memory without a handle".into() };
        let export = match piece.ipc.as_slice() {
            _ if !self.is_on_host(peer) => Export::Fabric(piece.fabric.try_into().map_err(|_| malformed())?),
            [] => Export::File(own_file(files.next().ok_or_else(malformed)?)?),
            handle => Export::Ipc(handle.try_into().map_err(|_| malformed())?),
        };
        let mapped = RemoteMemory::new(self.device.driver(), export, piece.bytes);
        mapped.map(|memory| PeerMemory::Mapped(Arc::new(memory))).map_err(|error| Error::MapFailed {
            rank: self.rank,
            device: own.label.clone(),
            peer,
            peer_device: other.label.clone(),
            error: Box::new(error),
        })
    }
}
