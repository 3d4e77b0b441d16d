//! Ranks on other nodes, which are reached through port channels only.
//!
//! | subject | module |
//! |---|---|
//! | their memory, as addresses that represent it | `memory` |
//! | the peers whose end of a launch a rank waits for | `ends` |
//! | page-locked memory for data in both directions | `staging` |
//! | triggers that are sent to them, and data received from them, over a transport | `connections` |
//!
//! Device code does not distinguish nodes: it asks its proxy to copy to an address, or to signal one, as within a node.
//! At the beginning and at the end of a launch it requests two additional signals ([`Markers`]), by which the proxy
//! tracks the current launch, also where a graph is replayed without the host's involvement. A launch ends when the
//! second signal is handled, which the proxy defers until no data of the launch can be in flight to the rank any more.

mod connections;
mod ends;
mod memory;
mod staging;

pub(super) use connections::{Markers, NodeConnections, Put, Traffic};
pub(super) use ends::Ends;
pub(super) use memory::{ExportedRegion, Owner, RegionTable, RemoteRegion, is_remote_address};
pub(super) use staging::Stagings;
