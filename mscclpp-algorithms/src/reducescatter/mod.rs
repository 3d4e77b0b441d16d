//! Reduce-scatter: rank r ends with part r of the reduction of all inputs.

pub(super) mod all_pairs;
pub(super) mod hierarchical;
pub(super) mod hierarchical_packets;
pub(super) mod packets;
pub(super) mod rank_order;
pub(super) mod rank_order_ports;
pub(super) mod ring;
pub(super) mod ring_ports;
pub(super) mod switch;

pub use all_pairs::reducescatter_all_pairs;
pub use hierarchical::reducescatter_hierarchical;
pub use hierarchical_packets::reducescatter_hierarchical_packets;
pub use packets::reducescatter_packets;
pub use rank_order::reducescatter_rank_order;
pub use rank_order_ports::reducescatter_rank_order_ports;
pub use ring::reducescatter_ring;
pub use ring_ports::reducescatter_ring_ports;
pub use switch::reducescatter_switch;
