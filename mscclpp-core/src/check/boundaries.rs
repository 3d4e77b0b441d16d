//! What a plan's launches need at their boundaries: the facts that tell an executor where it must add a launch barrier.

use super::model::{self, Model};
use super::pairing::{self, Pairs};
use super::symmetry::Symmetry;
use super::view::View;
use super::{instances, layout, run, shape, slices};
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
    /// Whether a rank accesses a peer's input or output only after it has heard that the peer has begun the launch: the part
    /// of `can_start_without_barrier` that a launch barrier at the end of the previous launch cannot replace.
    pub accesses_follow_begin: bool,
    /// Whether a rank's caller may continue as soon as the rank's own thread blocks have ended: what others did to the
    /// rank's input and output is over by then, and what they wrote there is visible.
    pub can_end_without_barrier: bool,
    /// Whether a launch may follow one of another message size without a barrier between them, given that
    /// `can_start_without_barrier` holds for launches of equal size: every access to a rank's scratch comes after *all*
    /// that the previous launch did to that rank's scratch, not only after what it did to the same chunks. Double scratch
    /// does not help here: where its second half begins depends on the message size.
    pub sizes_may_follow: bool,
    /// Whether `sizes_may_follow` holds for an executor whose second half of double scratch begins at the same place for
    /// all message sizes. Of a plan without double scratch it says the same.
    pub sizes_may_follow_in_fixed_halves: bool,
    /// Whether everything that port channels put into a rank's memory has arrived when the rank's launch ends. Where it is
    /// `false` although the other facts hold, what arrives later goes to scratch that nothing reads.
    pub puts_arrive_in_launch: bool,
}

impl LaunchBoundaries {
    /// No launch barrier anywhere.
    const FREE: Self = Self {
        can_start_without_barrier: true,
        accesses_follow_begin: true,
        can_end_without_barrier: true,
        sizes_may_follow: true,
        sizes_may_follow_in_fixed_halves: true,
        puts_arrive_in_launch: true,
    };

    /// Combines every fact with the same one of another plan or size.
    fn with(self, other: Self, combine: impl Fn(bool, bool) -> bool) -> Self {
        Self {
            can_start_without_barrier: combine(self.can_start_without_barrier, other.can_start_without_barrier),
            accesses_follow_begin: combine(self.accesses_follow_begin, other.accesses_follow_begin),
            can_end_without_barrier: combine(self.can_end_without_barrier, other.can_end_without_barrier),
            sizes_may_follow: combine(self.sizes_may_follow, other.sizes_may_follow),
            sizes_may_follow_in_fixed_halves: combine(
                self.sizes_may_follow_in_fixed_halves,
                other.sizes_may_follow_in_fixed_halves,
            ),
            puts_arrive_in_launch: combine(self.puts_arrive_in_launch, other.puts_arrive_in_launch),
        }
    }
}

/// Computes where launches of a plan need no launch barrier. A plan that hangs or has a race within one launch needs it
/// everywhere, and so does one of which the checks cannot decide.
///
/// # Cost
/// That of a check; twice that for plans that need a barrier somewhere.
///
/// # Panics
/// Never, whatever the plan says.
pub fn launch_boundaries(plan: &PlanTree) -> LaunchBoundaries {
    let mut shown = LaunchBoundaries::default();
    // What instances know they learn from each other at most in addition. But one instance's scratch lies where another one's
    // lies at another size.
    if let Some(one) = instances::one_of(plan) {
        let of_one = of_view(one.view(plan));
        let free = plan.ranks.iter().all(|rank| rank.scratch_chunks == 0);
        shown = LaunchBoundaries {
            sizes_may_follow: free && of_one.sizes_may_follow,
            sizes_may_follow_in_fixed_halves: free && of_one.sizes_may_follow_in_fixed_halves,
            ..of_one
        };
    }
    if shown == LaunchBoundaries::FREE { shown } else { shown.with(of_view(plan.into()), |one, other| one || other) }
}

fn of_view(view: View) -> LaunchBoundaries {
    let none = LaunchBoundaries::default();
    if !shape::check(view).is_empty() {
        return none;
    }
    let pairs = Pairs::of(view.plan);
    if !layout::check(view).is_empty() || !pairing::check(view, &pairs).is_empty() {
        return none;
    }
    let Some(sizes) = model::sizes(view) else { return none };
    let symmetry = Symmetry::of(view, &pairs);
    let Ok(uneven) = slices::sizes(view, symmetry.as_ref()) else { return none };
    let sizes: Vec<_> = sizes.into_iter().chain(uneven.sizes).collect();
    // At every size.
    let at_all = |symmetry: Option<&Symmetry>| {
        let mut facts = LaunchBoundaries::FREE;
        for size in &sizes {
            facts =
                facts.with(run::boundaries(&Model::reduced(view, &pairs, *size, symmetry)), |one, other| one && other);
            if facts == none {
                break;
            }
        }
        facts
    };
    // Where some ranks stand for all, less may be shown than there is.
    let folded = symmetry.as_ref().map_or(none, |symmetry| at_all(Some(symmetry)));
    if folded == LaunchBoundaries::FREE { folded } else { folded.with(at_all(None), |one, other| one || other) }
}

#[cfg(test)]
mod tests;
