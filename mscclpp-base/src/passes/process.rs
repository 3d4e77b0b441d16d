//! A resolved plan as one rank of the process executor runs it: the passes in their order, and the waits that the
//! launch protocol must add in return.

use std::collections::BTreeSet;
use std::ops::Range;

use super::defer_opening_waits::defer_opening_waits;
use super::elide_handshakes::elide_handshakes;
use super::elide_opening_handshakes::elide_opening_handshakes;
use super::elide_own_packets::elide_own_packets;
use super::place_in_caller_memory::{Placement, SLOTS, place_in_caller_memory};
use crate::interpret::ResolvedPlan;

/// A resolved plan after the passes for one rank, and the launch protocol on which these rely.
///
/// `process::launch_loop` executes the protocol; the validator writes it as operations of a plan.
pub struct RankSchedule {
    /// The plan of all ranks. Only this rank's operations are executed.
    pub program: ResolvedPlan,
    /// This rank's thread blocks.
    pub agents: Range<usize>,
    pub placement: Placement,
    /// By rank: which peers of its node must have started the launch before an operation with [`accesses_peer_buffers`]
    /// runs.
    ///
    /// [`accesses_peer_buffers`]: crate::interpret::program::Instr::accesses_peer_buffers
    pub awaited: Vec<bool>,
    /// By rank: which peers of its node must have finished before the launch ends.
    pub finishes: Vec<bool>,
    /// By thread block of this rank: the instruction after which the rank counts as finished for its peers; `None` if
    /// from the start.
    pub last_peer_access: Vec<Option<u32>>,
    /// Whether peers only read the buffers of this rank's caller, and nothing else of this rank must stay valid until
    /// they have finished. If they read lasting copies, a launch then need not wait for them.
    pub is_read_only: bool,
}

impl RankSchedule {
    /// Runs the passes for a rank. `nodes`: node of each rank.
    ///
    /// # Cost
    /// Linear in the operations of all ranks, except for sorting.
    pub fn new(mut program: ResolvedPlan, rank: u32, nodes: &[u32]) -> Self {
        elide_own_packets(&mut program);
        let is_local = |one: u32, other: u32| nodes.get(one as usize) == nodes.get(other as usize);
        // Before the others, because elided waits would hide what precedes a signal.
        // Whether every node has one rank.
        match nodes.iter().collect::<BTreeSet<_>>().len() == nodes.len() {
            true => elide_opening_handshakes(&mut program, nodes),
            false => defer_opening_waits(&mut program, nodes),
        }
        let placement = place_in_caller_memory(&mut program, rank);
        let elided = elide_handshakes(&mut program, rank, is_local);
        let either = |one: &[bool], other: &[bool]| -> Vec<bool> {
            let both = one.iter().zip(other).map(|(one, other)| one | other);
            (0..).zip(both).map(|(peer, needed)| needed && peer != rank && is_local(peer, rank)).collect()
        };
        let first = program.agents.iter().position(|code| code.rank == rank).unwrap_or(0);
        let own = program.agents.iter().filter(|code| code.rank == rank).count();
        let agents = first..first + own;
        let last_peer_access = agents.clone().map(|agent| {
            let code = &program.agents[agent];
            match elided.signalled[agent] {
                true => code.end.checked_sub(1),
                false => (code.start..code.end).rev().find(|&at| program.instrs[at as usize].accesses_peer_buffers),
            }
        });
        Self {
            last_peer_access: last_peer_access.collect(),
            awaited: either(&placement.accesses, &elided.started),
            finishes: either(&placement.accessed_by, &elided.finished),
            // At the end of a plan that uses scratch, handshakes may protect the scratch.
            is_read_only: placement.peers_write == [false; SLOTS] && !program.plain_scratch && !program.shape.packets,
            agents,
            placement,
            program,
        }
    }
}
