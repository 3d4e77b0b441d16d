//! Elides opening handshakes between nodes that have one rank each.
//!
//! Many plans begin with a signal to each rank that sends to this one, and such a rank waits for it before its first put
//! ([`openings`](super::openings)): the memory may be written only once its owner has started the launch. The connections between
//! nodes already establish it, because what is sent in a launch is received when the receiver has started it. Both the signal and the
//! wait are elided, so that a rank to which nothing else is sent receives nothing.
//!
//! # Why this is sound
//!
//! *Order.* If every node has one rank, a rank's memory is accessed by its own operations and by the puts that it receives, and those of
//! a launch are received within the receiver's launch: not before it starts (2 in `mscclpp-transport`), and it does not
//! end before all of them have arrived. So all accesses of a launch to a memory follow all those of earlier launches, whatever other
//! ranks do. The wait orders what follows it after the peer's start, and so after nothing but the peer's earlier launches, as
//! its block did nothing before the signal. Of these it establishes nothing that does not hold already.
//!
//! With several ranks on a node the peer's start may imply that it no longer reads memory of its neighbor, to which a put of this rank
//! follows.
//!
//! *Counters.* Both ends of a channel omit one increment, the first one of each launch.
//!
//! *Progress.* A rank may be launches ahead of those that only receive from it, as far as their connections have room for messages, and
//! then waits to send. The receiver of the oldest of these messages waits for nothing that is sent later.
//!
//! A launch thus may succeed on a rank that only sends while a receiver never makes the call; that receiver, or the ranks that need
//! it, report the error.

use super::openings::openings;
use crate::interpret::{Opcode, ResolvedPlan};

/// Elides the opening handshakes of a plan whose ranks are all on different nodes. `nodes`: node of each rank.
pub fn elide_opening_handshakes(program: &mut ResolvedPlan, nodes: &[u32]) {
    for opening in openings(program, nodes) {
        let signalled = |&channel: &u32| program.channels[channel as usize].pair == opening.channel;
        let signal = program.ids(&program.instrs[opening.signal as usize]).iter().copied().find(signalled);
        if let Some(channel) = signal {
            remove_channel(program, opening.signal, channel);
            remove_channel(program, opening.wait, opening.channel);
        }
    }
}

/// Removes a channel from those on which an instruction signals or waits.
fn remove_channel(program: &mut ResolvedPlan, at: u32, channel: u32) {
    let instr = &mut program.instrs[at as usize];
    let ids = &mut program.ids[instr.first_id as usize..][..instr.ids as usize];
    let Some(position) = ids.iter().position(|&id| id == channel) else { return };
    ids[position..].rotate_left(1);
    instr.ids -= 1;
    if instr.ids == 0 {
        instr.action = Opcode::Nop;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret::resolve;
    use crate::interpret::sends;
    use mscclpp_algorithms as algorithms;
    use mscclpp_core::plan::Plan;

    /// Returns a plan on nodes of one rank, after the pass.
    fn elided(name: &str, ranks: u32) -> (ResolvedPlan, Vec<u32>) {
        let algorithm = algorithms::find(name).expect("it is in the library");
        let tree = algorithm.compile_tree(algorithm.spec(ranks, 1), &[]).expect("it compiles");
        let mut program = resolve(&Plan::new(&tree)).expect("it can be run");
        let nodes: Vec<u32> = (0..ranks).collect();
        elide_opening_handshakes(&mut program, &nodes);
        (program, nodes)
    }

    /// Returns the number of signals that are not part of a put, and of those that are awaited.
    fn signals_and_waits(program: &ResolvedPlan) -> (usize, usize) {
        let instrs = program.agents.iter().flat_map(|code| code.start..code.end);
        instrs.map(|at| &program.instrs[at as usize]).fold((0, 0), |(signals, waits), instr| match instr.action {
            Opcode::PortSignal => (signals + program.ids(instr).len(), waits),
            Opcode::Wait { .. } => (signals, waits + program.ids(instr).len()),
            _ => (signals, waits),
        })
    }

    #[test]
    fn a_broadcast_sends_nothing_towards_its_root() {
        let (program, nodes) = elided("broadcast_tree_ports", 4);
        let sent: Vec<_> = sends(&program, &nodes).into_iter().collect();
        assert_eq!(sent, [(0, 1), (0, 2), (2, 3)]);
        // Each rank but the root waits for the message.
        assert_eq!(signals_and_waits(&program), (0, 3));
    }

    #[test]
    fn waits_for_data_stay() {
        let (program, nodes) = elided("alltoall_ports", 3);
        assert_eq!(sends(&program, &nodes).len(), 6);
        assert_eq!(signals_and_waits(&program), (0, 6));
    }
}
