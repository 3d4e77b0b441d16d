//! The algorithms that come with the library.
//!
//! Each is an ordinary function in the authoring API, in a file of its own whose first line says what it costs. In these
//! lines P is the number of ranks, N the number of nodes, G the number of ranks per node; the message is the larger of a
//! rank's input and output.

mod allgather_all_pairs;
mod allgather_hierarchical_packets;
mod allgather_node_ring;
mod allgather_packed_once;
mod allgather_packets;
mod allgather_pairwise;
mod allgather_ring;
mod allgather_ring_ports;
mod allgather_switch;
mod allgather_switch_packets;
mod allgather_two_nodes;
mod allreduce_all_pairs;
mod allreduce_hierarchical_packets;
mod allreduce_one_shot_packets;
mod allreduce_packets;
mod allreduce_ring;
mod allreduce_ring_ports;
mod allreduce_switch;
mod allreduce_switch_pipeline;
mod alltoall_direct;
mod alltoall_in_place;
mod alltoall_packets;
mod alltoall_ports;
mod alltoall_rotated;
mod broadcast_chain;
mod broadcast_scatter;
mod reduce_chain;
mod reduce_gather;
mod reducescatter_all_pairs;
mod reducescatter_hierarchical_packets;
mod reducescatter_ring;
mod reducescatter_ring_ports;
mod registry;
mod send_recv;

pub use allgather_all_pairs::allgather_all_pairs;
pub use allgather_hierarchical_packets::allgather_hierarchical_packets;
pub use allgather_node_ring::allgather_node_ring;
pub use allgather_packed_once::allgather_packed_once;
pub use allgather_packets::allgather_packets;
pub use allgather_pairwise::allgather_pairwise;
pub use allgather_ring::allgather_ring;
pub use allgather_ring_ports::allgather_ring_ports;
pub use allgather_switch::allgather_switch;
pub use allgather_switch_packets::allgather_switch_packets;
pub use allgather_two_nodes::allgather_two_nodes;
pub use allreduce_all_pairs::allreduce_all_pairs;
pub use allreduce_hierarchical_packets::allreduce_hierarchical_packets;
pub use allreduce_one_shot_packets::allreduce_one_shot_packets;
pub use allreduce_packets::allreduce_packets;
pub use allreduce_ring::allreduce_ring;
pub use allreduce_ring_ports::allreduce_ring_ports;
pub use allreduce_switch::allreduce_switch;
pub use allreduce_switch_pipeline::allreduce_switch_pipeline;
pub use alltoall_direct::alltoall_direct;
pub use alltoall_in_place::alltoall_in_place;
pub use alltoall_packets::alltoall_packets;
pub use alltoall_ports::alltoall_ports;
pub use alltoall_rotated::{alltoall_rotated, alltoall_rotated_in_place};
pub use broadcast_chain::broadcast_chain;
pub use broadcast_scatter::broadcast_scatter;
pub use reduce_chain::reduce_chain;
pub use reduce_gather::reduce_gather;
pub use reducescatter_all_pairs::reducescatter_all_pairs;
pub use reducescatter_hierarchical_packets::reducescatter_hierarchical_packets;
pub use reducescatter_ring::reducescatter_ring;
pub use reducescatter_ring_ports::reducescatter_ring_ports;
pub use registry::{Algorithm, BuildError, Param, Placement};
pub use send_recv::send_recv;

/// The algorithms, grouped by collective, the plainest first.
static ALL: &[Algorithm] = &[
    allgather_pairwise::ENTRY,
    allgather_all_pairs::ENTRY,
    allgather_ring::ENTRY,
    allgather_ring_ports::ENTRY,
    allgather_packets::ENTRY,
    allgather_packed_once::ENTRY,
    allgather_switch::ENTRY,
    allgather_switch_packets::ENTRY,
    allgather_two_nodes::ENTRY,
    allgather_node_ring::ENTRY,
    allgather_hierarchical_packets::ENTRY,
    allreduce_all_pairs::ENTRY,
    allreduce_ring::ENTRY,
    allreduce_ring_ports::ENTRY,
    allreduce_packets::ENTRY,
    allreduce_one_shot_packets::ENTRY,
    allreduce_switch::ENTRY,
    allreduce_switch_pipeline::ENTRY,
    allreduce_hierarchical_packets::ENTRY,
    reducescatter_all_pairs::ENTRY,
    reducescatter_ring::ENTRY,
    reducescatter_ring_ports::ENTRY,
    reducescatter_hierarchical_packets::ENTRY,
    alltoall_direct::ENTRY,
    alltoall_ports::ENTRY,
    alltoall_rotated::ENTRY,
    alltoall_in_place::ENTRY,
    alltoall_rotated::IN_PLACE,
    alltoall_packets::ENTRY,
    broadcast_scatter::ENTRY,
    broadcast_chain::ENTRY,
    reduce_gather::ENTRY,
    reduce_chain::ENTRY,
    send_recv::ENTRY,
];

/// All algorithms, grouped by collective.
pub fn all() -> &'static [Algorithm] {
    ALL
}

/// The algorithm of a name.
pub fn find(name: &str) -> Option<&'static Algorithm> {
    ALL.iter().find(|algorithm| algorithm.name() == name)
}
