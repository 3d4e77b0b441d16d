//! Opening handshakes between nodes: a signal by which a rank says that it has started the launch, and the wait for it.

use mscclpp_core::types::ChannelKind;

use crate::interpret::program::Channel;
use crate::interpret::{Block, Opcode, ResolvedPlan};

/// A signal before which its rank does nothing in the launch but signal, and the wait for it on another node.
///
/// It is the first signal on a port channel on which one thread block signals, and the wait is the first one of the only thread block
/// that waits there. Both are outside of loops, and may be on other channels as well.
pub(super) struct Opening {
    /// The thread block that waits.
    pub(super) agent: usize,
    /// The instruction that waits, and its channel.
    pub(super) wait: u32,
    pub(super) channel: u32,
    /// The instruction that signals.
    pub(super) signal: u32,
}

/// Returns the opening handshakes of a plan, in the order of their waits. `nodes`: node of each rank.
pub(super) fn openings(program: &ResolvedPlan, nodes: &[u32]) -> Vec<Opening> {
    let node = |rank: u32| nodes.get(rank as usize);
    let starts = starts(program);
    let first_waits = first_waits(program);
    let mut openings = Vec::new();
    for (agent, code) in program.agents.iter().enumerate() {
        for wait in outside_loops(program, code) {
            let instr = &program.instrs[wait as usize];
            if !matches!(instr.action, Opcode::Wait { .. }) {
                continue;
            }
            for &channel in program.ids(instr) {
                let Channel { kind, rank, peer, .. } = program.channels[channel as usize];
                let is_between_nodes = kind == ChannelKind::Port && node(rank) != node(peer);
                if let Some(signal) = starts[channel as usize]
                    && is_between_nodes
                    && first_waits[channel as usize] == Some(wait)
                {
                    openings.push(Opening { agent, wait, channel, signal });
                }
            }
        }
    }
    openings
}

/// Returns the instructions of a thread block that are not in a loop.
fn outside_loops(program: &ResolvedPlan, code: &Block) -> impl Iterator<Item = u32> {
    let mut loop_end = code.start;
    (code.start..code.end).filter(move |&at| {
        let instr = &program.instrs[at as usize];
        if instr.action == Opcode::Loop {
            loop_end = at + 1 + instr.body;
        }
        at >= loop_end
    })
}

/// Returns by channel the first signal that arrives there, if it says nothing but that its sender has started.
fn starts(program: &ResolvedPlan) -> Vec<Option<u32>> {
    let mut starts = vec![None; program.channels.len()];
    let mut sender = vec![None; program.channels.len()];
    for (agent, code) in program.agents.iter().enumerate() {
        let mut only_signals = true;
        for at in code.start..code.end {
            let instr = &program.instrs[at as usize];
            if matches!(instr.action, Opcode::Port { signal: true, .. } | Opcode::PortSignal) {
                for &channel in program.ids(instr) {
                    let to = program.channels[channel as usize].pair as usize;
                    let Some(sender) = sender.get_mut(to) else { continue };
                    match *sender {
                        None => starts[to] = Some(at).filter(|_| only_signals && instr.action == Opcode::PortSignal),
                        Some(first) if first != agent => starts[to] = None,
                        Some(_) => {}
                    }
                    *sender = Some(agent);
                }
            }
            only_signals &= matches!(instr.action, Opcode::Nop | Opcode::Signal { .. } | Opcode::PortSignal);
        }
    }
    starts
}

/// Returns by channel the first wait, if only one thread block waits there.
fn first_waits(program: &ResolvedPlan) -> Vec<Option<u32>> {
    let mut first = vec![None; program.channels.len()];
    let mut waiter = vec![None; program.channels.len()];
    for (agent, code) in program.agents.iter().enumerate() {
        for at in code.start..code.end {
            let instr = &program.instrs[at as usize];
            if matches!(instr.action, Opcode::Wait { .. }) {
                for channel in program.ids(instr).iter().map(|&channel| channel as usize) {
                    match waiter[channel] {
                        None => first[channel] = Some(at),
                        Some(known) if known != agent => first[channel] = None,
                        Some(_) => {}
                    }
                    waiter[channel] = Some(agent);
                }
            }
        }
    }
    first
}
