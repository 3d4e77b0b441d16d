//! The peers whose end of a launch a rank waits for before it ends its own.
//!
//! Data that a port channel puts arrives some time after the put: a flush releases the source and does not cover the
//! destination. So a rank whose data may be in flight when the launch of its receiver ends sends an end message at its
//! own end, and the receiver's launch ends when it has received that from all such ranks. Plans whose puts are proved
//! to arrive in time ([`LaunchBoundaries::puts_arrive_in_launch`]) need no end messages and wait for none.

use mscclpp_core::check::{LaunchBoundaries, launch_boundaries};

use mscclpp_base::interpret::ResolvedPlan;
use mscclpp_base::interpret::sends;

/// End messages of launches that a rank sends and waits for.
pub(in crate::cuda) struct Ends {
    /// Ranks to which it sends its end, and ranks whose end it waits for.
    pub(super) to: Vec<u32>,
    pub(super) from: Vec<u32>,
    /// Whether data may arrive in scratch after the rank's operations have ended: in a plan that may have a race, one
    /// of them may have read the earlier contents.
    pub(super) scratch_may_be_late: bool,
}

impl Ends {
    /// Returns the end messages of a rank. `nodes`: node of each rank.
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
