//! Sends to a rank of another node before its first signal has arrived.
//!
//! Many plans begin with a signal to each rank that sends to this one, and such a rank waits for it before its first put: the
//! memory may be written only once its owner has started the launch. Between nodes this costs as much as the data of a short
//! message, and the connections already establish it: what is sent in a launch is received when the receiver has started it.
//! So the puts and signals to the same rank that directly follow such a wait are executed before it. Nothing is elided: the
//! signal arrives with the data of the other direction.
//!
//! # What is moved
//!
//! A wait on a port channel from a rank of another node, outside of loops, if the signal that it waits for is the first one of
//! the channel, and if its thread block does nothing before it but signal. The wait moves to after the puts and signals to that
//! rank that follow it; if every node has one rank, after those to any rank. It remains before everything else.
//!
//! # Why this is sound
//!
//! *Order.* What precedes such a signal is the peer's earlier launches, and nothing of this one. A put or signal to this peer
//! that is sent earlier is received as if it came after the signal, because the peer has started by then (2 in
//! [`transport`](crate::transport)). The source may be read earlier: what the plan writes to it in this launch does not precede the
//! peer's signal, so the wait does not order it.
//!
//! A put to a *third* rank could rely on the wait if ranks of one node access each other's memory: the peer's start may imply that
//! a neighbor of the third rank no longer reads its memory. With one rank per node, only the owner and its connections access
//! memory.
//!
//! *Counters.* All signals and waits remain, in their order on each channel.
//!
//! *Progress.* The moved operations wait for room in a queue only, and the signal for which the wait waits is sent without waiting
//! for anything.

use std::collections::BTreeSet;

use mscclpp_core::types::ChannelKind;

use crate::interpret::{Block, Opcode, ResolvedPlan};

/// Moves waits for the start of ranks of other nodes to after what is sent to them. `nodes`: node of each rank.
pub(crate) fn defer_opening_waits(program: &mut ResolvedPlan, nodes: &[u32]) {
    let node = |rank: u32| nodes.get(rank as usize);
    let has_one_rank_per_node = nodes.iter().collect::<BTreeSet<_>>().len() == nodes.len();
    let channels = program.channels.iter();
    let is_remote: Vec<bool> =
        channels.map(|channel| channel.kind == ChannelKind::Port && node(channel.rank) != node(channel.peer)).collect();
    let starts = starts(program);
    let first_waits = first_waits(program);
    for agent in 0..program.agents.len() {
        let code = program.agents[agent];
        let is_opening = |at: &u32| {
            let instr = &program.instrs[*at as usize];
            let &[channel] = program.ids(instr) else { return false };
            let at_channel = channel as usize;
            matches!(instr.action, Opcode::Wait { .. })
                && is_remote[at_channel]
                && starts[at_channel]
                && first_waits[at_channel] == Some(*at)
        };
        let openings: Vec<u32> = outside_loops(program, &code).filter(is_opening).collect();
        // The last one first, so that each can pass the operations that the next one passed.
        for &at in openings.iter().rev() {
            let [channel] = *program.ids(&program.instrs[at as usize]) else { continue };
            let peer = program.channels[channel as usize].peer;
            let may_send_to = |rank: u32| rank == peer || has_one_rank_per_node && rank != code.rank;
            let sends = (at + 1..code.end).take_while(|&next| is_send(program, next, may_send_to));
            if let Some(last) = sends.last() {
                program.instrs[at as usize..last as usize + 1].rotate_left(1);
            }
        }
    }
}

/// Returns whether an instruction puts or signals only to certain ranks, or does nothing.
fn is_send(program: &ResolvedPlan, at: u32, is_to: impl Fn(u32) -> bool) -> bool {
    let instr = &program.instrs[at as usize];
    matches!(instr.action, Opcode::Nop | Opcode::Port { .. } | Opcode::PortSignal)
        && program.dsts(instr).iter().all(|dst| is_to(dst.rank))
        && program.ids(instr).iter().all(|&channel| is_to(program.channels[channel as usize].peer))
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

/// Returns by channel whether the first signal that arrives there says nothing but that its sender has started.
fn starts(program: &ResolvedPlan) -> Vec<bool> {
    let mut starts = vec![false; program.channels.len()];
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
                        None => starts[to] = only_signals && instr.action == Opcode::PortSignal,
                        Some(first) if first != agent => starts[to] = false,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret::resolve;
    use mscclpp_algorithms as algorithms;
    use mscclpp_core::plan::Plan;

    /// Returns the actions of rank 0's first thread block after the pass.
    fn actions(name: &str, ranks: u32, per_node: u32) -> Vec<Opcode> {
        let algorithm = algorithms::find(name).expect("it is in the library");
        let tree = algorithm.compile_tree(algorithm.spec(ranks, per_node), &[]).expect("it compiles");
        let mut program = resolve(&Plan::new(&tree)).expect("it can be run");
        let nodes: Vec<u32> = (0..ranks).map(|rank| rank / per_node).collect();
        defer_opening_waits(&mut program, &nodes);
        let code = program.agents.iter().find(|code| code.rank == 0).expect("a thread block");
        let code = &program.instrs[code.start as usize..code.end as usize];
        code.iter().map(|instr| instr.action).filter(|action| *action != Opcode::Nop).collect()
    }

    /// Returns the position of the first wait among the puts and waits, and the number of puts before it.
    fn puts_before_waits(actions: &[Opcode]) -> usize {
        actions
            .iter()
            .take_while(|action| !matches!(action, Opcode::Wait { .. }))
            .filter(|action| matches!(action, Opcode::Port { .. }))
            .count()
    }

    #[test]
    fn puts_to_a_rank_precede_the_wait_for_its_start() {
        assert_eq!(puts_before_waits(&actions("allgather_hierarchical", 2, 1)), 1);
        assert_eq!(puts_before_waits(&actions("alltoall_ports", 2, 1)), 1);
        assert_eq!(puts_before_waits(&actions("broadcast_tree_ports", 2, 1)), 1);
    }

    #[test]
    fn puts_to_third_ranks_precede_it_if_nodes_have_one_rank() {
        assert_eq!(puts_before_waits(&actions("allgather_hierarchical", 4, 1)), 3);
        // The put to the second node follows the wait for the first one's start.
        assert_eq!(puts_before_waits(&actions("allgather_hierarchical", 6, 2)), 1);
    }

    #[test]
    fn waits_on_one_node_and_for_data_stay() {
        let on_one_node = actions("alltoall_ports", 2, 2);
        assert_eq!(puts_before_waits(&on_one_node), 0, "{on_one_node:?}");
        let all = actions("allgather_hierarchical", 2, 1);
        let waits = all.iter().filter(|action| matches!(action, Opcode::Wait { .. })).count();
        assert_eq!(waits, 2, "{all:?}");
    }
}
