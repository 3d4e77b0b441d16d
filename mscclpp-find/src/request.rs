//! What is looked for.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_predict::Machine;

/// Most thread blocks of a rank without a limit: the fewest multiprocessors of a known device.
const MAX_BLOCKS: u32 = 108;

/// A collective on ranks of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Request<'m> {
    /// The collective.
    pub kind: CollectiveKind,
    /// The machine.
    pub machine: &'m Machine,
    /// Number of ranks, the first of the machine.
    pub num_ranks: u32,
    /// Maximum number of thread blocks of a rank; `None` for 108, the fewest multiprocessors of a known device.
    pub max_blocks: Option<u32>,
    /// Whether input and output are one buffer; `None` for either.
    pub in_place: Option<bool>,
}

impl Request<'_> {
    /// Returns the maximum number of thread blocks of a rank, of every candidate.
    pub(crate) fn block_limit(&self) -> u32 {
        self.max_blocks.unwrap_or(MAX_BLOCKS)
    }
}
