//! Memory of all ranks of a node, in one range of addresses.

use std::fmt;

use super::executor::Executor;
use super::ipc::FlatRange;
use mscclpp_base::error::Error;
use mscclpp_cuda::slice::DeviceSlice;

/// Memory of all ranks of a communicator on one host, mapped in one range of addresses of this rank's device, that of each rank
/// at the same distance from the one before: for kernels of the user, which compute the addresses. Of
/// `OnStream::flat_mapping`.
///
/// The memory stays mapped until this is dropped, which must not happen as long as work uses it.
pub struct FlatMapping {
    range: FlatRange,
    ranks: u32,
}

static_assertions::assert_impl_all!(FlatMapping: Send, Sync);

impl FlatMapping {
    /// Returns the address of the memory of rank 0.
    pub fn base(&self) -> u64 {
        self.range.address()
    }

    /// Returns the distance from the memory of a rank to that of the next one, a multiple of 4 GiB.
    pub fn stride(&self) -> u64 {
        self.range.stride
    }

    /// Returns the address of a rank's memory; `None` for no rank.
    pub fn address(&self, rank: u32) -> Option<u64> {
        (rank < self.ranks).then(|| self.base() + u64::from(rank) * self.stride())
    }
}

impl fmt::Debug for FlatMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlatMapping").field("stride", &self.stride()).field("ranks", &self.ranks).finish()
    }
}

impl Executor {
    /// Maps memory of all ranks in one range. A call of all ranks.
    ///
    /// # Errors
    /// [`Error::NotShareable`] on all ranks if one of them cannot share its memory, or is on another host.
    #[doc(hidden)]
    pub fn flat_mapping(&self, memory: DeviceSlice) -> Result<FlatMapping, Error> {
        Ok(FlatMapping { range: self.group()?.map_flat(memory)?, ranks: self.inner.ranks })
    }
}
