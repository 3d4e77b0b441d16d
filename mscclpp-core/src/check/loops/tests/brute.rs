//! A plan run at one size, in the simplest way that there is.
//!
//! It shares nothing with the rules: two ranks whose channels lead to each other, semaphores and barriers of a rank.

use std::collections::BTreeMap;

use crate::plan::{LoopBody, Op, OpKind, PlanTree};

fn trips(body: &LoopBody, chunk: u64) -> u64 {
    (chunk * u64::from(body.num_chunks)).div_ceil(body.unit)
}

/// Iterations of the longest loop.
pub(super) fn most_trips(plan: &PlanTree, chunk: u64) -> u64 {
    let ops = plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops);
    ops.filter_map(|op| op.body.as_ref()).map(|body| trips(body, chunk)).max().unwrap_or(0)
}

/// Where a block is: operation, iteration, operation of the loop, id.
type At = (usize, u64, usize, usize);

/// The operation at a place, and the place after it or after one of its ids. None at the end.
fn operation(ops: &[Op], mut at: At, chunk: u64) -> Option<(&Op, At, At)> {
    loop {
        let op = ops.get(at.0)?;
        let Some(body) = &op.body else { return Some((op, at, (at.0 + 1, 0, 0, 0))) };
        if at.2 == body.ops.len() {
            at = (at.0, at.1 + 1, 0, 0);
        }
        if at.1 >= trips(body, chunk) || body.ops.is_empty() {
            at = (at.0 + 1, 0, 0, 0);
            continue;
        }
        return Some((&body.ops[at.2], at, (at.0, at.1, at.2 + 1, 0)));
    }
}

/// Whether some thread block waits for ever, for chunks of so many bytes.
pub(super) fn is_stuck(plan: &PlanTree, chunk: u64) -> bool {
    let blocks: Vec<(usize, &[Op])> = plan
        .ranks
        .iter()
        .enumerate()
        .flat_map(|(rank, tables)| tables.blocks.iter().map(move |block| (rank, &block.ops[..])))
        .collect();
    let mut places = vec![(0, 0, 0, 0); blocks.len()];
    // Signals by sender and channel; units and comers by rank and number.
    let mut signals: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    let mut units: BTreeMap<(usize, u32), i64> = BTreeMap::new();
    for (rank, tables) in plan.ranks.iter().enumerate() {
        units.extend((0..).zip(&tables.semaphores).map(|(id, &value)| ((rank, id), value)));
    }
    let mut comers: BTreeMap<(usize, u32), Vec<usize>> = BTreeMap::new();
    loop {
        let mut moved = false;
        for (number, &(rank, ops)) in blocks.iter().enumerate() {
            while let Some((op, at, next)) = operation(ops, places[number], chunk) {
                places[number] = at;
                let Some(&id) = op.ids.get(at.3) else {
                    places[number] = next;
                    moved = true;
                    continue;
                };
                let done = match op.kind {
                    OpKind::Signal => {
                        *signals.entry((rank, id)).or_default() += 1;
                        true
                    }
                    OpKind::SemaphoreRelease => {
                        *units.entry((rank, id)).or_default() += 1;
                        true
                    }
                    OpKind::Wait => signals.get_mut(&(1 - rank, id)).filter(|n| **n > 0).map(|n| *n -= 1).is_some(),
                    OpKind::SemaphoreAcquire => {
                        units.get_mut(&(rank, id)).filter(|n| **n > 0).map(|n| *n -= 1).is_some()
                    }
                    OpKind::Barrier => {
                        let there = comers.entry((rank, id)).or_default();
                        if !there.contains(&number) {
                            there.push(number);
                        }
                        if there.len() == op.blocks as usize {
                            for other in std::mem::take(there).into_iter().filter(|other| *other != number) {
                                places[other].3 += 1;
                            }
                            true
                        } else {
                            false
                        }
                    }
                    kind => panic!("no {kind:?} here"),
                };
                if !done {
                    break;
                }
                places[number].3 += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    (0..blocks.len()).any(|number| operation(blocks[number].1, places[number], chunk).is_some())
}
