//! All-gather: every rank ends with the concatenation of all inputs.

pub(super) mod all_pairs;
pub(super) mod hierarchical;
pub(super) mod hierarchical_packets;
pub(super) mod hierarchical_pipeline;
pub(super) mod node_ring;
pub(super) mod packed_once;
pub(super) mod packets;
pub(super) mod pairwise;
pub(super) mod pull;
pub(super) mod ring;
pub(super) mod ring_ports;
pub(super) mod staged;
pub(super) mod switch;
pub(super) mod switch_packets;
pub(super) mod two_nodes;

pub use all_pairs::allgather_all_pairs;
pub use hierarchical::allgather_hierarchical;
pub use hierarchical_packets::allgather_hierarchical_packets;
pub use hierarchical_pipeline::allgather_hierarchical_pipeline;
pub use node_ring::allgather_node_ring;
pub use packed_once::allgather_packed_once;
pub use packets::allgather_packets;
pub use pairwise::allgather_pairwise;
pub use pull::allgather_pull;
pub use ring::allgather_ring;
pub use ring_ports::allgather_ring_ports;
pub use staged::allgather_staged;
pub use switch::allgather_switch;
pub use switch_packets::allgather_switch_packets;
pub use two_nodes::allgather_two_nodes;
