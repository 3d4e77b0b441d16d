//! Reduce: the root ends with the reduction of all inputs.

pub(super) mod chain;
pub(super) mod gather;

pub use chain::reduce_chain;
pub use gather::reduce_gather;
