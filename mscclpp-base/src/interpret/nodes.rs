//! Plans on several nodes: what they transfer between nodes, and whether they can.

use std::collections::BTreeSet;

use mscclpp_core::types::ChannelKind;

use super::{Opcode, ResolvedPlan};
use crate::error::Error;

/// Rejects plans that access other nodes except through port channels. `nodes`: node of each rank.
///
/// # Errors
/// [`Error::CrossNodeAccess`].
pub fn check_nodes(program: &ResolvedPlan, nodes: &[u32]) -> Result<(), Error> {
    let on_different_nodes = |one: u32, other: u32| nodes.get(one as usize) != nodes.get(other as usize);
    for code in &program.agents {
        for at in code.start..code.end {
            let instr = &program.instrs[at as usize];
            let ports = matches!(instr.action, Opcode::Port { .. } | Opcode::PortForward);
            // A proxy only writes to other nodes, so its destinations may be there.
            let dsts = program.dsts(instr).iter().filter(|_| !ports);
            let mut ranks = program.srcs(instr).iter().chain(dsts).map(|operand| operand.rank);
            let reached = ranks.find(|&rank| on_different_nodes(rank, code.rank));
            let signals = matches!(instr.action, Opcode::Signal { .. } | Opcode::Wait { .. });
            let channels = program.ids(instr).iter().filter(|_| signals);
            let mut channels = channels.map(|&channel| &program.channels[channel as usize]);
            let memory = channels.find(|c| c.kind == ChannelKind::Memory && on_different_nodes(c.rank, c.peer));
            if let Some(peer) = reached.or(memory.map(|channel| channel.peer)) {
                let [node, other] = [code.rank, peer].map(|rank| nodes.get(rank as usize).copied().unwrap_or(u32::MAX));
                return Err(Error::CrossNodeAccess {
                    path: program.path(at),
                    rank: code.rank,
                    node,
                    peer,
                    peer_node: other,
                });
            }
        }
    }
    Ok(())
}

/// Returns the pairs of ranks on different nodes of which the first sends data or signals to the second.
pub fn sends(program: &ResolvedPlan, nodes: &[u32]) -> BTreeSet<(u32, u32)> {
    let mut pairs = BTreeSet::new();
    let is_far = |one: u32, other: u32| nodes.get(one as usize) != nodes.get(other as usize);
    for code in &program.agents {
        for instr in &program.instrs[code.start as usize..code.end as usize] {
            let exchanged = exchanged(program, instr.action);
            pairs.extend(exchanged.filter(|&rank| is_far(rank, code.rank)).map(|rank| (code.rank, rank)));
            if !instr.action.is_port_send() {
                continue;
            }
            let signalled = program.ids(instr).iter().map(|&channel| program.channels[channel as usize].peer);
            let ranks = program.dsts(instr).iter().map(|dst| dst.rank).chain(signalled);
            let remote = ranks.filter(|&rank| is_far(rank, code.rank));
            pairs.extend(remote.map(|rank| (code.rank, rank)));
        }
    }
    pairs
}

/// Returns the pairs of ranks on different nodes of which one sends to the other or has a port channel to it, in both
/// directions.
pub fn links(program: &ResolvedPlan, nodes: &[u32]) -> BTreeSet<(u32, u32)> {
    let channels = program.channels.iter().filter(|channel| channel.kind == ChannelKind::Port);
    let mut pairs: BTreeSet<(u32, u32)> = channels.map(|channel| (channel.rank, channel.peer)).collect();
    for code in &program.agents {
        let instrs = &program.instrs[code.start as usize..code.end as usize];
        for instr in instrs {
            pairs.extend(exchanged(program, instr.action).map(|rank| (code.rank, rank)));
        }
        for instr in instrs.iter().filter(|instr| instr.action.is_port()) {
            pairs.extend(program.dsts(instr).iter().map(|dst| (code.rank, dst.rank)));
        }
    }
    let remote = pairs.into_iter().filter(|&(one, other)| nodes.get(one as usize) != nodes.get(other as usize));
    remote.flat_map(|(one, other)| [(one, other), (other, one)]).collect()
}

/// Returns the ranks to which an instruction gives its rank's row of counts.
fn exchanged(program: &ResolvedPlan, action: Opcode) -> impl Iterator<Item = u32> {
    0..if action == Opcode::ExchangeCounts { program.shape.ranks } else { 0 }
}
