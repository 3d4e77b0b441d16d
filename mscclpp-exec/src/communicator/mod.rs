//! Collective calls for programs that do not build plans themselves.

mod background;
mod cache;
mod calls;
mod decide;
mod exchange;
mod handle;
mod observed;
mod pending;
mod recovery;
mod status;
mod timeout;

pub use exchange::AllToAllVOutput;
pub use handle::Communicator;
pub use pending::Pending;
