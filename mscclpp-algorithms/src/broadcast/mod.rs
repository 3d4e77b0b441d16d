//! Broadcast: every rank ends with the root's input.

pub(super) mod chain;
pub(super) mod packets;
pub(super) mod pull;
pub(super) mod scatter;
pub(super) mod tree_ports;

pub use chain::broadcast_chain;
pub use packets::broadcast_packets;
pub use pull::broadcast_pull;
pub use scatter::broadcast_scatter;
pub use tree_ports::broadcast_tree_ports;
