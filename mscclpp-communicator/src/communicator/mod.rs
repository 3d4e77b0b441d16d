//! Collective calls for programs that do not build plans themselves.

mod arguments;
mod background;
mod cache;
mod call_options;
mod calls;
mod decide;
#[cfg(feature = "cuda")]
mod device;
mod exchange;
mod experts;
mod forced;
mod forms;
mod gather;
mod group;
mod handle;
mod observed;
mod pending;
mod point_to_point;
mod recovery;
mod row_norms;
mod serve;
mod status;
mod timeline;
mod timeout;

#[cfg(feature = "cuda")]
pub use device::{DeviceExperts, KernelPolicy, LaunchedCall, OnStream, PendingCombine, PendingDispatch};
pub use exchange::AllToAllVOutput;
pub use experts::{Dispatched, Route};
pub use group::Group;
pub use handle::Communicator;
pub use pending::Pending;
