//! Prepared plans of all executors, as a verifier sees them.

use crate::interpret::{Params, ResolvedPlan};

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
    pub(crate) program: &'a ResolvedPlan,
    pub(crate) params: &'a Params,
}

/// Returns the rank distance over which a send-receive plan sends: a plan for several nodes may skip whole nodes.
pub(super) fn send_distance(program: &ResolvedPlan) -> u32 {
    let of_rank_0 = program.agents.iter().filter(|code| code.rank == 0);
    let instrs = of_rank_0.flat_map(|code| &program.instrs[code.start as usize..code.end as usize]);
    let mut targets = instrs.flat_map(|instr| program.dsts(instr)).map(|dst| dst.rank).filter(|&rank| rank != 0);
    targets.next().unwrap_or(1)
}
