//! Ranks on other nodes, which are reached through port channels only.
//!
//! | what | where |
//! |---|---|
//! | their memory, as addresses that stand for it | `memory` |
//! | whose end of a launch is waited for | `ends` |
//! | page-locked memory for what comes and goes | `staging` |
//! | requests to them, and what comes from them, over TCP | `connections` |
//!
//! The device's half knows nothing of this: it asks its proxy to copy to an address, or to signal one, as within a node. At the
//! beginning and at the end of a launch it asks for two signals of its own ([`Markers`]), by which the proxy knows which
//! launch it is in, also where a graph is replayed of which the host knows nothing. A launch ends when the second one is done,
//! which the proxy puts off until nothing of the launch can be on its way to the rank any more.

mod connections;
mod ends;
mod memory;
mod staging;

pub(super) use connections::{Markers, NodeConnections, Put};
pub(super) use ends::Ends;
pub(super) use memory::{ExportedRegion, Owner, RegionTable, RemoteRegion, is_remote_address};
pub(super) use staging::Stagings;
