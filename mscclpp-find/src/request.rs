//! What is looked for.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_predict::Machine;

/// A collective on ranks of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Request<'m> {
    /// The collective.
    pub kind: CollectiveKind,
    /// The machine.
    pub machine: &'m Machine,
    /// Number of ranks, the first of the machine.
    pub num_ranks: u32,
    /// Maximum number of thread blocks of a rank; `None` for that of the devices with the fewest multiprocessors.
    pub max_blocks: Option<u32>,
    /// Whether input and output are one buffer; `None` for either.
    pub in_place: Option<bool>,
}
