//! The built-in algorithms of mscclpp.
//!
//! Each is an ordinary function in the authoring API, in a separate file whose first line states its cost. In these
//! lines P is the number of ranks, N the number of nodes, G the number of ranks per node; the message is the larger of
//! a rank's input and output.
//!
//! ```
//! use mscclpp_algorithms as algorithms;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let packets = algorithms::find("allreduce_hierarchical_packets").ok_or("it is in the library")?;
//! assert!(packets.supports(8, 4) && !packets.supports(8, 8), "it is for several nodes");
//!
//! // Two nodes of four ranks. The specification says what else can be chosen, and parameters have names.
//! let mut spec = packets.spec(8, 4);
//! spec.collective.in_place = true;
//! let plan = packets.compile_tree(spec, &packets.arguments([("group", 2)])?)?;
//! assert_eq!(plan.ranks.len(), 8);
//!
//! // Those of the attribute's ranks were built with the library.
//! assert!(algorithms::allreduce_ring::algorithm().plans().iter().any(|plan| plan.num_ranks() == 8));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod allgather;
mod allreduce;
mod alltoall;
mod alltoallv;
mod broadcast;
mod builtin;
mod norm;
mod reduce;
mod reducescatter;
mod sendrecv;

pub use allgather::*;
pub use allreduce::*;
pub use alltoall::*;
pub use alltoallv::*;
pub use broadcast::*;
pub use builtin::{BufferMode, BuildError, BuiltinAlgorithm, MAX_ARGUMENT, MAX_RANKS, OrderScope, Param};
pub use norm::*;
pub use reduce::*;
pub use reducescatter::*;
pub use sendrecv::*;

/// The algorithms, grouped by collective, the simplest first.
static ALL: &[BuiltinAlgorithm] = &[
    allgather::pairwise::ENTRY,
    allgather::all_pairs::ENTRY,
    allgather::pull::ENTRY,
    allgather::staged::ENTRY,
    allgather::ring::ENTRY,
    allgather::ring_ports::ENTRY,
    allgather::packets::ENTRY,
    allgather::packed_once::ENTRY,
    allgather::switch::ENTRY,
    allgather::switch_packets::ENTRY,
    allgather::two_nodes::ENTRY,
    allgather::node_ring::ENTRY,
    allgather::hierarchical_packets::ENTRY,
    allgather::hierarchical::ENTRY,
    allgather::hierarchical_pipeline::ENTRY,
    allreduce::all_pairs::ENTRY,
    allreduce::staged::ENTRY,
    allreduce::staged_pipeline::ENTRY,
    allreduce::ring::ENTRY,
    allreduce::ring_ports::ENTRY,
    allreduce::packets::ENTRY,
    allreduce::ring_order::ENTRY,
    allreduce::rank_order::ENTRY,
    allreduce::rank_order_ports::ENTRY,
    allreduce::one_shot::ENTRY,
    allreduce::one_shot_packets::ENTRY,
    allreduce::one_shot_ports::ENTRY,
    allreduce::switch::ENTRY,
    allreduce::switch_packets::ENTRY,
    allreduce::switch_pipeline::ENTRY,
    allreduce::switch_windows::ENTRY,
    allreduce::hierarchical_packets::ENTRY,
    allreduce::hierarchical::ENTRY,
    allreduce::hierarchical_pipeline::ENTRY,
    allreduce::hierarchical_switch::ENTRY,
    reducescatter::all_pairs::ENTRY,
    reducescatter::ring::ENTRY,
    reducescatter::ring_ports::ENTRY,
    reducescatter::packets::ENTRY,
    reducescatter::rank_order::ENTRY,
    reducescatter::rank_order_ports::ENTRY,
    reducescatter::switch::ENTRY,
    reducescatter::hierarchical_packets::ENTRY,
    reducescatter::hierarchical::ENTRY,
    alltoall::direct::ENTRY,
    alltoall::pull::ENTRY,
    alltoall::ports::ENTRY,
    alltoall::rotated::ENTRY,
    alltoall::in_place::ENTRY,
    alltoall::rotated::IN_PLACE,
    alltoall::packets::ENTRY,
    alltoall::ports_in_place::ENTRY,
    broadcast::scatter::ENTRY,
    broadcast::chain::ENTRY,
    broadcast::packets::ENTRY,
    broadcast::pull::ENTRY,
    broadcast::tree_ports::ENTRY,
    reduce::gather::ENTRY,
    reduce::rank_order::ENTRY,
    reduce::chain::ENTRY,
    reduce::packets::ENTRY,
    reduce::tree_ports::ENTRY,
    sendrecv::ring::ENTRY,
    sendrecv::direct::ENTRY,
    sendrecv::packets::ENTRY,
    sendrecv::in_place::ENTRY,
];

/// The algorithms whose sizes are counts, which launches pass.
static COUNTED: &[BuiltinAlgorithm] =
    &[alltoallv::pull::ENTRY, alltoallv::direct::ENTRY, alltoallv::staged::ENTRY, alltoallv::ports::ENTRY];

/// Returns the algorithms whose sizes are counts, which launches pass; [`all`] does not contain them.
pub fn counted() -> &'static [BuiltinAlgorithm] {
    COUNTED
}

/// The algorithms that normalize rows, whose operands launches pass.
static NORMS: &[BuiltinAlgorithm] = &[
    norm::one_shot::ENTRY,
    norm::pull::ENTRY,
    norm::two_shot::ENTRY,
    norm::scatter::ENTRY,
    norm::reduce_scatter::ENTRY,
    norm::all_gather_packets::ENTRY,
    norm::all_gather::ENTRY,
];

/// Returns the algorithms that normalize rows, whose operands launches pass; [`all`] does not contain them.
pub fn norms() -> &'static [BuiltinAlgorithm] {
    NORMS
}

/// Returns all algorithms, grouped by collective.
pub fn all() -> &'static [BuiltinAlgorithm] {
    ALL
}

/// Names of MSCCL++'s built-in algorithms, with the algorithm here that moves data in the same way.
pub const REFERENCE_NAMES: &[(&str, &str)] = &[
    ("default_allreduce_packet", "allreduce_packets"),
    ("default_allreduce_allpair_packet", "allreduce_one_shot_packets"),
    ("default_allreduce_nvls_packet", "allreduce_switch_packets"),
    ("default_allreduce_fullmesh", "allreduce_rank_order"),
    ("default_allreduce_rsag", "allreduce_staged"),
    ("default_allreduce_rsag_pipeline", "allreduce_staged_pipeline"),
    ("default_allreduce_rsag_zero_copy", "allreduce_all_pairs"),
    ("default_allreduce_nvls_zero_copy", "allreduce_switch"),
    ("default_allreduce_nvls_warp_pipeline", "allreduce_switch_windows"),
    ("default_allreduce_nvls_block_pipeline", "allreduce_switch_pipeline"),
    ("default_allgather_fullmesh", "allgather_staged"),
    ("default_allgather_fullmesh2", "allgather_all_pairs"),
];

/// Returns the algorithm with a name: its own, or that of its counterpart in [`REFERENCE_NAMES`].
pub fn find(name: &str) -> Option<&'static BuiltinAlgorithm> {
    let name = REFERENCE_NAMES.iter().find(|(theirs, _)| *theirs == name).map_or(name, |(_, ours)| ours);
    ALL.iter().chain(COUNTED).chain(NORMS).find(|algorithm| algorithm.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_reference_resolve_to_algorithms() {
        for (theirs, ours) in REFERENCE_NAMES {
            assert_eq!(find(theirs).map(BuiltinAlgorithm::name), Some(*ours));
        }
    }
}
