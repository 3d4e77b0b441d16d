//! Whose end of a launch a rank waits for before it ends its own.
//!
//! What a port channel puts arrives some time after the put: a flush frees the source and says nothing of the destination. So a
//! rank of which something may be on its way when the launch of its receiver ends says at its own end that nothing follows, and
//! the receiver's launch ends when it has heard that from all such ranks. Plans whose puts are proved to arrive in time
//! ([`LaunchBoundaries::puts_arrive_in_launch`]) do without, and wait for nobody.

use mscclpp_core::check::{LaunchBoundaries, launch_boundaries};

use crate::interpret::ResolvedPlan;
use crate::process::sends;

/// Ends of launches that a rank sends and waits for.
pub(in crate::cuda) struct Ends {
    /// Ranks to which it says its end, and ranks whose end it waits for.
    pub(super) to: Vec<u32>,
    pub(super) from: Vec<u32>,
    /// Whether data may arrive in scratch when the rank's operations have ended: in a plan that may have a race, one of them
    /// may have read what was there before.
    pub(super) scratch_may_be_late: bool,
}

impl Ends {
    /// Those of a rank. `nodes`: by rank.
    pub(in crate::cuda) fn new(program: &ResolvedPlan, nodes: &[u32], rank: u32) -> Self {
        let pairs = sends(program, nodes);
        let mut ends = Self { to: Vec::new(), from: Vec::new(), scratch_may_be_late: true };
        if pairs.is_empty() {
            return ends;
        }
        let facts = launch_boundaries(&program.plan.tree());
        ends.scratch_may_be_late = facts != LaunchBoundaries::default();
        if !facts.puts_arrive_in_launch {
            ends.to = pairs.iter().filter(|(from, _)| *from == rank).map(|&(_, to)| to).collect();
            ends.from = pairs.iter().filter(|(_, to)| *to == rank).map(|&(from, _)| from).collect();
        }
        ends
    }
}
