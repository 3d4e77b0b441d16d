//! Independent work on two threads.
//!
//! Results are combined in the order of the parts, so that they do not depend on which thread is faster. If no thread
//! can be created, the caller processes both parts.

use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::threads;
use crate::{PlanTree, RankPlan};

/// Minimum number of operations for which a second thread pays off. Creating a thread is cheap, but one thread then
/// frees lists that another thread allocated, which is slow in allocators.
const WORTH: usize = 1 << 17;

/// Returns whether a second thread pays off for passes over this number of operations.
pub fn is_worth(operations: usize) -> bool {
    operations >= WORTH
}

/// Returns whether a second thread pays off for passes over a plan.
pub fn is_large(plan: &PlanTree) -> bool {
    is_worth(operations(plan))
}

/// Returns the number of operations of a plan; a pipeline counts as one.
pub fn operations(plan: &PlanTree) -> usize {
    plan.ranks.iter().flat_map(|rank| &rank.blocks).map(|block| block.ops.len()).sum()
}

/// Calls both functions; `one` runs on a second thread if that is `worth` its cost.
pub fn both<A: Send, B>(worth: bool, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    if !worth {
        return (one(), other());
    }
    let one = Mutex::new(Some(one));
    // The first to get here calls it: the new thread, or the caller if there is no thread.
    let take = || one.lock().unwrap_or_else(PoisonError::into_inner).take().map(|one| one());
    thread::scope(|scope| {
        let thread = threads::named("mscclpp-check").spawn_scoped(scope, take);
        let other = other();
        let one = thread.ok().map_or_else(take, |thread| match thread.join() {
            Ok(one) => one,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        (one.expect("only this call takes it"), other)
    })
}

/// Calls `work` for each half of the ranks, with the number of its first rank. Returns the result of the first half and
/// that of the second.
pub fn halves<'r, R: Send>(
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
