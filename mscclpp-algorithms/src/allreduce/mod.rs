//! All-reduce: every rank ends with the reduction of all inputs.

pub(super) mod all_pairs;
pub(super) mod hierarchical;
pub(super) mod hierarchical_packets;
pub(super) mod hierarchical_pipeline;
pub(super) mod one_shot;
pub(super) mod one_shot_packets;
pub(super) mod one_shot_ports;
pub(super) mod packets;
pub(super) mod rank_order;
pub(super) mod rank_order_ports;
pub(super) mod ring;
pub(super) mod ring_order;
pub(super) mod ring_ports;
pub(super) mod switch;
pub(super) mod switch_packets;
pub(super) mod switch_pipeline;

pub use all_pairs::allreduce_all_pairs;
pub use hierarchical::allreduce_hierarchical;
pub use hierarchical_packets::allreduce_hierarchical_packets;
pub use hierarchical_pipeline::allreduce_hierarchical_pipeline;
pub use one_shot::allreduce_one_shot;
pub use one_shot_packets::allreduce_one_shot_packets;
pub use one_shot_ports::allreduce_one_shot_ports;
pub use packets::allreduce_packets;
pub use rank_order::allreduce_rank_order;
pub use rank_order_ports::allreduce_rank_order_ports;
pub use ring::allreduce_ring;
pub use ring_order::allreduce_ring_order;
pub use ring_ports::allreduce_ring_ports;
pub use switch::allreduce_switch;
pub use switch_packets::allreduce_switch_packets;
pub use switch_pipeline::allreduce_switch_pipeline;
