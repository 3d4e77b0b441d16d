//! Profiler plugins: libraries that record the calls of programs, as NCCL loads and calls them.
//!
//! | module | contents |
//! |---|---|
//! | `abi` | structs and constants of the plugins' interface, versions 6 and 7 |
//! | `plugin` | the library that `NCCL_PROFILER_PLUGIN` names, and its functions |
//! | `events` | events of communicators: which are sent, and their parents |
//! | `logger` | the function by which plugins print messages |
//!
//! Events of groups, calls and launches are sent. Those of proxies, networks, channels of kernels and copy engines have no
//! counterpart here. Forwarded calls are not sent either: the real NCCL loads the plugin itself and sends their events.

mod abi;
mod events;
mod logger;
mod plugin;

pub(crate) use self::events::{Profiler, Subject, Trace, begin, end_group, enqueued, launch, record_transfers};
pub(crate) use self::plugin::plugin;
