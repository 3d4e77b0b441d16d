//! Prepared plans of all executors, as a verifier sees them.

use mscclpp_base::interpret::{Params, ResolvedPlan};

/// A prepared plan of any executor.
pub trait Prepared: Bound {}

impl<P: Bound> Prepared for P {}

/// Access to the plan and the message of a prepared plan; implemented beside each executor's type.
pub trait Bound {
    /// Returns the plan and the message that is bound to it.
    #[doc(hidden)]
    fn bound(&self) -> BoundPlan<'_>;
}

/// A plan and a message that is bound to it.
#[doc(hidden)]
pub struct BoundPlan<'a> {
    pub program: &'a ResolvedPlan,
    pub params: &'a Params,
}

/// Returns the rank distance over which a send-receive plan sends: a plan for several nodes may skip whole nodes.
pub(super) fn send_distance(program: &ResolvedPlan) -> u32 {
    let ranks = program.shape.ranks;
    // A rank of the process executor keeps the operations that concern it.
    let kept = program.agents.iter().flat_map(|code| (code.start..code.end).map(move |at| (code.rank, at)));
    let kept = kept.filter_map(|(rank, at)| Some((rank, program.instrs.get(at as usize)?)));
    let mut targets = kept.flat_map(|(rank, instr)| program.dsts(instr).iter().map(move |dst| (rank, dst.rank)));
    targets.find(|(rank, to)| rank != to).map_or(1, |(rank, to)| (to + ranks - rank) % ranks)
}
