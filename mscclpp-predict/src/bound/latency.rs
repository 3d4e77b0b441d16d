//! Bounds that latency requires.

use mscclpp_plan::collective::CollectiveKind;

use crate::machine::Machine;

/// The constants of which one is the least time from an operation of a rank to its effect on another rank of the node.
const WITHIN_NODE: [&str; 4] = ["signal_us", "packet_us", "load_us", "port_us"];

/// Returns the latency of the shortest exchange: a transfer between nodes if there are several, and otherwise the fastest way from a
/// rank to another one. Transfers may be posted to all peers at once, so more is not certain.
pub(super) fn latency(kind: CollectiveKind, machine: &Machine, ranks: u32) -> f64 {
    let us = |name: &str| machine.constants.get(name).unwrap_or(0.0);
    let nodes = ranks.div_ceil(machine.ranks_per_node);
    let in_switch = (machine.multicast && kind != CollectiveKind::SendRecv).then_some("multicast_us");
    match nodes {
        1 => WITHIN_NODE.into_iter().chain(in_switch).map(us).fold(f64::INFINITY, f64::min),
        _ => us("network_us"),
    }
}
