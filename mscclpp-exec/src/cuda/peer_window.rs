//! Memory of all ranks, at the addresses at which this rank accesses it.

use std::fmt;

use super::executor::Executor;
use super::ipc::PeerMemory;
use super::multicast::{self, MulticastObject};
use mscclpp_base::error::Error;
use mscclpp_cuda::slice::DeviceSlice;

/// Memory of all ranks of a communicator, which this rank's device accesses directly where the ranks are on one node: for streams
/// and kernels of the user, which use the addresses. Of `OnStream::peer_window`.
///
/// The memory of other ranks stays mapped until this is dropped, which must not happen as long as work uses it.
pub struct PeerWindow {
    /// By rank.
    addresses: Vec<Option<u64>>,
    bytes: u64,
    object: Option<MulticastObject>,
    /// Keeps the memory of other ranks mapped.
    _mappings: Vec<PeerMemory>,
}

static_assertions::assert_impl_all!(PeerWindow: Send, Sync);

impl PeerWindow {
    /// Returns the address of a rank's memory; `None` for a rank on another node and for no rank.
    pub fn address(&self, rank: u32) -> Option<u64> {
        self.addresses.get(rank as usize).copied().flatten()
    }

    /// Returns the number of bytes that each rank has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the address at which a store reaches the memory of all ranks and a load combines it; `None` unless all ranks are on
    /// one node, on devices with multicast objects, and their memory has the alignment that these need.
    pub fn multicast_address(&self) -> Option<u64> {
        self.object.as_ref().map(|object| object.distance(0)).filter(|address| *address != 0)
    }
}

impl fmt::Debug for PeerWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerWindow").field("bytes", &self.bytes).field("has_multicast", &self.object.is_some()).finish()
    }
}

impl Executor {
    /// Maps memory of all ranks. A call of all ranks with as many bytes.
    ///
    /// # Errors
    /// [`Error::NotShareable`] on all ranks if one of them cannot share its memory.
    #[doc(hidden)]
    pub fn peer_window(&self, memory: DeviceSlice) -> Result<PeerWindow, Error> {
        let (inner, group) = (&self.inner, self.group()?);
        let (all, mappings) = group.register(Ok(vec![memory]))?;
        let own_node = group.nodes.get(group.rank as usize);
        let address = |(rank, slices): (usize, &Vec<DeviceSlice>)| match slices[..] {
            [slice] if slice.bytes == memory.bytes => {
                Ok((group.nodes.get(rank) == own_node).then_some(slice.address).filter(|address| *address != 0))
            }
            _ => Err(group.malformed(rank as u32)),
        };
        let addresses = all.iter().enumerate().map(address).collect::<Result<Vec<_>, _>>()?;
        // All ranks know the nodes and devices of all, and so decide alike.
        let has_one_node = group.nodes.iter().all(|node| Some(node) == own_node);
        let object = match has_one_node && self.has_multicast() && memory.bytes > 0 {
            true => {
                let (members, own) = ((0..inner.ranks).collect(), vec![(group.rank, memory)]);
                let request = multicast::Request { members, bytes: memory.bytes, own };
                multicast::make(inner, "window", &[request])?.pop().and_then(Result::ok).flatten()
            }
            false => None,
        };
        Ok(PeerWindow { addresses, bytes: memory.bytes, object, _mappings: mappings })
    }
}
