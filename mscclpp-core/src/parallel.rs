//! Independent work on two threads.
//!
//! What the parts give is put together in the order of the parts, so that nothing depends on who was faster. Where no thread
//! can be had, the caller does both parts itself.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::plan::{PlanTree, RankPlan};

/// Operations from which on a pass over a plan is worth a thread. A thread starts soon, but the lists that it makes or drops
/// were made, or are dropped, by another one, which allocators are slow at.
const WORTH: usize = 1 << 17;

/// Whether passes over so many operations are worth a thread.
pub(crate) fn is_worth(operations: usize) -> bool {
    operations >= WORTH
}

/// Whether passes over a plan are worth a thread.
pub(crate) fn is_large(plan: &PlanTree) -> bool {
    is_worth(operations(plan))
}

/// Operations of a plan, a pipeline counted as one.
pub(crate) fn operations(plan: &PlanTree) -> usize {
    plan.ranks.iter().flat_map(|rank| &rank.blocks).map(|block| block.ops.len()).sum()
}

/// Does both, one of them on a thread of its own if that is worth it.
pub(crate) fn both<A: Send, B>(worth: bool, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    if !worth {
        return (one(), other());
    }
    let one = Mutex::new(Some(one));
    // Whoever comes first does it: the thread, or the caller where there is none.
    let take = || one.lock().unwrap_or_else(PoisonError::into_inner).take().map(|one| one());
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, take);
        let other = other();
        let one = thread.ok().map_or_else(take, |thread| match thread.join() {
            Ok(one) => one,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        (one.expect("only this call takes it"), other)
    })
}

/// Gives half of the ranks at a time to `work`, with the number of the first: what comes back of the first half and the second.
pub(crate) fn halves<'r, R: Send>(
    worth: bool,
    ranks: &'r mut [RankPlan],
    work: impl Fn(usize, &'r mut [RankPlan]) -> R + Sync,
) -> [R; 2] {
    let middle = ranks.len() / 2;
    let (first, second) = ranks.split_at_mut(middle);
    let (second, first) = both(worth, || work(middle, second), || work(0, first));
    [first, second]
}

#[cfg(test)]
mod tests {
    use super::both;

    #[test]
    fn both_parts_are_done_once_and_in_their_order() {
        for worth in [false, true] {
            let mut list = vec![1, 2, 3];
            assert_eq!(both(worth, || 7, || list.pop()), (7, Some(3)));
            assert_eq!(list, [1, 2]);
        }
    }

    #[test]
    #[should_panic = "as it was told"]
    fn panics_are_passed_on() {
        both(true, || panic!("as it was told"), || ());
    }
}
