//! Collective calls for programs that do not build plans themselves.

mod cache;
mod calls;
mod decide;
mod exchange;
mod handle;
mod pending;
mod recovery;
mod timeout;

pub use exchange::AllToAllVOutput;
pub use handle::Communicator;
pub use pending::Pending;
