//! The compact form of a plan: binaries embed it, executors read it.
//!
//! A [`Plan`] is created once, from a tree, from bytes, or at no cost from bytes in the binary, and never
//! changes. Its views read single numbers from the bytes, so that opening a plan and walking one of its ranks reads that
//! rank's section only.

mod decode;
mod encode;
mod error;
mod hash;
mod layout;
mod origins;
// `plan::Plan` is the path of its type.
pub(super) mod plan;
mod search;
mod validate;
mod view;

#[cfg(test)]
mod tests;

pub use error::ImageError;
use plan::Plan;
pub use search::EmbeddedPlans;
pub use view::{BlockView, Loop, Numbers, OpView, OperandList, RankView};
