//! Collectives whose results are normalized row by row: every element is reduced in the order of ranks, if at all, so that all
//! algorithms of a collective have the same bits for a row, whatever the number of rows and of thread blocks.

pub(super) mod all_gather;
pub(super) mod all_gather_packets;
pub(super) mod one_shot;
pub(super) mod pull;
pub(super) mod reduce_scatter;
pub(super) mod scatter;
pub(super) mod two_shot;

pub use all_gather::allgather_norm;
pub use all_gather_packets::allgather_norm_packets;
pub use one_shot::allreduce_norm_one_shot;
pub use pull::allreduce_norm_pull;
pub use reduce_scatter::reducescatter_norm;
pub use scatter::allreduce_norm_scatter;
pub use two_shot::allreduce_norm_two_shot;
