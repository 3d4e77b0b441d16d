//! Requirements at the boundaries of launches: the properties by which an executor decides where it must add a launch
//! barrier.

use super::model::{self, Model};
use super::pairing::{self, Pairs};
use super::requirements::LaunchBoundaries;
use super::symmetry::Symmetry;
use super::view::View;
use super::{counted, instances, layout, run, shape, slices};
use mscclpp_plan::raw::PlanTree;

/// Computes where launches of a plan need no launch barrier. A plan that deadlocks or has a race within one launch
/// needs barriers everywhere, and so does a plan that the checks cannot decide.
///
/// # Cost
/// That of a check; twice that for plans that need a barrier somewhere.
///
/// # Panics
/// Never, whatever the plan contains.
pub fn launch_boundaries(plan: &PlanTree) -> LaunchBoundaries {
    if plan.is_counted() {
        // No access depends on the counts other than by its length.
        let accepted = shape::check(plan.into()).is_empty() && counted::check(plan).is_empty();
        return if accepted { of_plan(&counted::at_full_counts(plan)) } else { LaunchBoundaries::default() };
    }
    of_plan(plan)
}

fn of_plan(plan: &PlanTree) -> LaunchBoundaries {
    let mut shown = LaunchBoundaries::default();
    // In a whole plan, instances can only add order to each other. But the scratch of one instance is at the offset of
    // another one's at another size.
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
    // Representative ranks may show less order than there is.
    let representatives = symmetry.as_ref().map_or(none, |symmetry| at_all(Some(symmetry)));
    if representatives == LaunchBoundaries::FREE {
        representatives
    } else {
        representatives.with(at_all(None), |one, other| one || other)
    }
}

#[cfg(test)]
mod tests;
