//! Ranges of memory of all ranks, as many of each as it names, at the addresses by which this rank uses them.

use std::fmt;

use super::executor::Executor;
use super::ipc::PeerMemory;
use mscclpp_base::error::Error;
use mscclpp_cuda::slice::DeviceSlice;

/// Ranges of device memory of all ranks of a communicator, of `OnStream::peer_regions`. Those of a rank on the same node are mapped; those of
/// a rank on another node have addresses that only port channels use.
///
/// The memory of other ranks stays mapped until this is dropped, which must not happen as long as work uses it.
pub struct PeerRegions {
    /// By rank, in the order in which the rank named them.
    slices: Vec<Vec<DeviceSlice>>,
    /// Keeps the memory of other ranks mapped.
    _mappings: Vec<PeerMemory>,
}

static_assertions::assert_impl_all!(PeerRegions: Send, Sync);

impl PeerRegions {
    /// Returns the ranges of a rank; none for no rank.
    pub fn of_rank(&self, rank: u32) -> &[DeviceSlice] {
        self.slices.get(rank as usize).map_or(&[], Vec::as_slice)
    }
}

impl fmt::Debug for PeerRegions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerRegions").field("slices", &self.slices).finish_non_exhaustive()
    }
}

impl Executor {
    /// Maps ranges of memory of all ranks. A call of all ranks, each with any number of ranges.
    ///
    /// # Errors
    /// [`Error::NotShareable`] on all ranks if one of them cannot share its memory.
    #[doc(hidden)]
    pub fn peer_regions(&self, mine: Vec<DeviceSlice>) -> Result<PeerRegions, Error> {
        let (slices, mappings) = self.group()?.register(Ok(mine))?;
        Ok(PeerRegions { slices, _mappings: mappings })
    }
}
