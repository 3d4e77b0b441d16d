//! What a plan's launches need at their boundaries: the facts that tell an executor where it must add a launch barrier.

use crate::plan::PlanTree;

/// Where launches of a plan need no launch barrier.
///
/// A *launch barrier* is a point that no rank passes before every rank has reached it, and at which the writes of every
/// rank before it become visible to all ranks. Where a fact is `false`, an executor either adds the barrier or refuses
/// the plan; `false` is always safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaunchBoundaries {
    /// Whether a rank may begin a launch as soon as its own previous launch of the plan has ended, whatever the other
    /// ranks do: the plan accesses a peer's input or output only after it has heard that the peer has begun, and accesses
    /// scratch only after what the previous launch did there is over and visible.
    pub can_start_without_barrier: bool,
    /// Whether a rank's caller may continue as soon as the rank's own thread blocks have ended: what others did to the
    /// rank's input and output is over by then, and what they wrote there is visible.
    pub can_end_without_barrier: bool,
    /// Whether a launch may follow one of another message size without a barrier between them, given that
    /// `can_start_without_barrier` holds for launches of equal size: every access to a rank's scratch comes after *all*
    /// that the previous launch did to that rank's scratch, not only after what it did to the same chunks.
    pub sizes_may_follow: bool,
}

/// Computes where launches of a plan need no launch barrier. A plan that [`check`](super::check) refuses needs it
/// everywhere.
///
/// # Cost
/// That of a check.
///
/// # Panics
/// Never, whatever the plan says.
pub fn launch_boundaries(plan: &PlanTree) -> LaunchBoundaries {
    let _ = plan;
    LaunchBoundaries::default()
}
