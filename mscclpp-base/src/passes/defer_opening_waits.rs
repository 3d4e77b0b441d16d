//! Sends to a rank of another node before its first signal has arrived.
//!
//! Many plans begin with a signal to each rank that sends to this one, and such a rank waits for it before its first put
//! ([`openings`](super::openings)). Between nodes this costs as much as the data of a short message, and the connections already
//! establish it: what is sent in a launch is received when the receiver has started it. So the puts and signals to the same rank
//! that directly follow such a wait are executed before it. Nothing is elided: the signal arrives with the data of the other
//! direction. Where every node has one rank, [`elide_opening_handshakes`](super::elide_opening_handshakes) elides it instead.
//!
//! # Why this is sound
//!
//! *Order.* What precedes such a signal is the peer's earlier launches, and nothing of this one. A put or signal to this peer
//! that is sent earlier is received as if it came after the signal, because the peer has started by then (2 in
//! `mscclpp-transport`). The source may be read earlier: what the plan writes to it in this launch does not precede the
//! peer's signal, so the wait does not order it.
//!
//! A put to a *third* rank could rely on the wait, because ranks of one node access each other's memory: the peer's start may imply
//! that a neighbor of the third rank no longer reads its memory. So the wait remains before those, and before everything else.
//!
//! *Counters.* All signals and waits remain, in their order on each channel.
//!
//! *Progress.* The moved operations wait for room in a queue only, and the signal for which the wait waits is sent without waiting
//! for anything.

use super::openings::openings;
use crate::interpret::{Opcode, ResolvedPlan};

/// Moves waits for the start of ranks of other nodes to after what is sent to them. `nodes`: node of each rank.
pub fn defer_opening_waits(program: &mut ResolvedPlan, nodes: &[u32]) {
    // The last one of a thread block first, so that each can pass the operations that the next one passed.
    for opening in openings(program, nodes).iter().rev() {
        if program.instrs[opening.wait as usize].ids > 1 {
            continue;
        }
        let peer = program.channels[opening.channel as usize].peer;
        let end = program.agents[opening.agent].end;
        let sends = (opening.wait + 1..end).take_while(|&next| is_send(program, next, peer));
        if let Some(last) = sends.last() {
            program.instrs[opening.wait as usize..last as usize + 1].rotate_left(1);
        }
    }
}

/// Returns whether an instruction puts or signals only to a rank, or does nothing.
fn is_send(program: &ResolvedPlan, at: u32, to: u32) -> bool {
    let instr = &program.instrs[at as usize];
    matches!(instr.action, Opcode::Nop | Opcode::Port { .. } | Opcode::PortSignal)
        && program.dsts(instr).iter().all(|dst| dst.rank == to)
        && program.ids(instr).iter().all(|&channel| program.channels[channel as usize].peer == to)
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
    fn puts_to_third_ranks_follow_it() {
        // The put to the second node follows the wait for the first one's start.
        assert_eq!(puts_before_waits(&actions("allgather_hierarchical", 4, 1)), 1);
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
