//! Broadcast: every rank ends with the root's input.

pub(super) mod chain;
pub(super) mod scatter;

pub use chain::broadcast_chain;
pub use scatter::broadcast_scatter;
