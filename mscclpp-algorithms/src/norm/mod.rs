//! Reductions whose results are normalized row by row: every element is reduced in the order of ranks, so that all of these
//! algorithms have the same bits for a row, whatever the number of rows and of thread blocks.

pub(super) mod one_shot;
pub(super) mod reduce_scatter;
pub(super) mod scatter;
pub(super) mod two_shot;

pub use one_shot::allreduce_norm_one_shot;
pub use reduce_scatter::reducescatter_norm;
pub use scatter::allreduce_norm_scatter;
pub use two_shot::allreduce_norm_two_shot;
