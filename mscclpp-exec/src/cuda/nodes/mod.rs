//! Ranks on other nodes, which are reached through port channels only.
//!
//! | what | where |
//! |---|---|
//! | their memory, as addresses that stand for it | `memory` |
//! | whose end of a launch is waited for | `ends` |
//! | page-locked memory for what comes and goes | `staging` |
//! | requests to them, and what comes from them, over TCP | `wires` |
//!
//! The device's half knows nothing of this: it asks its proxy to copy to an address, or to signal one, as within a node. At the
//! beginning and at the end of a launch it asks for two signals of its own ([`Markers`]), by which the proxy knows which
//! launch it is in, also where a graph is replayed of which the host knows nothing. A launch ends when the second one is done,
//! which the proxy puts off until nothing of the launch can be on its way to the rank any more.

mod ends;
mod memory;
mod staging;
mod wires;

pub(super) use ends::Ends;
pub(super) use memory::{Memories, Owner, Shown, Window, is_far};
pub(super) use staging::Stagings;
pub(super) use wires::{Markers, Put, Wires};
