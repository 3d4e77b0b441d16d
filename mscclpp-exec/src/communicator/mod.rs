//! Collective calls for programs that do not build plans themselves.

mod arguments;
mod cache;
mod calls;
mod decide;
#[cfg(feature = "cuda")]
mod device;
mod exchange;
mod handle;
mod pending;
mod recovery;
mod serve;
mod timeout;

#[cfg(feature = "cuda")]
pub use device::{LaunchedCall, OnStream};
pub use exchange::AllToAllVOutput;
pub use handle::Communicator;
pub use pending::Pending;
