//! Reduce: the root ends with the reduction of all inputs.

pub(super) mod chain;
pub(super) mod gather;
pub(super) mod packets;
pub(super) mod rank_order;
pub(super) mod tree_ports;

pub use chain::reduce_chain;
pub use gather::reduce_gather;
pub use packets::reduce_packets;
pub use rank_order::reduce_rank_order;
pub use tree_ports::reduce_tree_ports;
