//! A plan run at one size, in the simplest way that there is.
//!
//! It shares nothing with the rules: two ranks whose channels lead to each other, semaphores and barriers of a rank.

use crate::plan::{LoopBody, Op, OpKind, PlanTree};

/// Channels, semaphores or barriers of a rank.
const MOST: usize = 4;

/// A plan whose channels, semaphores and barriers are slots.
pub(super) struct Brute<'p> {
    blocks: Vec<Vec<Code<'p>>>,
    /// Signals by sender and channel, and units by rank and semaphore.
    initial: [i64; 4 * MOST],
}

enum Code<'p> {
    Add(usize),
    Take(usize),
    /// Slot and number of comers.
    Meet(usize, u32),
    /// The place behind the loop.
    Head(&'p LoopBody, usize),
    /// The place of its head.
    Back(usize),
}

impl<'p> Brute<'p> {
    pub(super) fn of(plan: &'p PlanTree) -> Self {
        let mut initial = [0; 4 * MOST];
        let mut blocks = Vec::new();
        for (rank, tables) in plan.ranks.iter().enumerate() {
            for (id, &value) in tables.semaphores.iter().enumerate() {
                initial[(2 + rank) * MOST + id] = value;
            }
            for block in &tables.blocks {
                let mut code = Vec::new();
                for op in &block.ops {
                    let Some(body) = &op.body else {
                        code.extend(codes(rank, op));
                        continue;
                    };
                    let head = code.len();
                    let inner: Vec<_> = body.ops.iter().flat_map(|op| codes(rank, op)).collect();
                    code.push(Code::Head(body, head + inner.len() + 2));
                    code.extend(inner);
                    code.push(Code::Back(head));
                }
                blocks.push(code);
            }
        }
        Self { blocks, initial }
    }

    /// Iterations of the longest loop.
    pub(super) fn most_trips(&self, chunk: u64) -> u64 {
        let heads = self.blocks.iter().flatten().filter_map(|code| match code {
            Code::Head(body, _) => Some(trips(body, chunk)),
            _ => None,
        });
        heads.max().unwrap_or(0)
    }

    /// Whether some thread block waits for ever, for chunks of so many bytes.
    pub(super) fn is_stuck(&self, chunk: u64) -> bool {
        let mut slots = self.initial;
        let mut comers = [0; 2 * MOST];
        // By block: place, iterations that its loop has begun, whether it has come to its barrier, whether that has opened.
        let mut states = vec![(0, 0, false, false); self.blocks.len()];
        let mut moved = true;
        while moved {
            moved = false;
            for (number, block) in self.blocks.iter().enumerate() {
                while let Some(code) = block.get(states[number].0) {
                    let state = &mut states[number];
                    let mut next = state.0 + 1;
                    match code {
                        Code::Add(slot) => slots[*slot] += 1,
                        Code::Take(slot) if slots[*slot] == 0 => break,
                        Code::Take(slot) => slots[*slot] -= 1,
                        Code::Head(body, _) if state.1 < trips(body, chunk) => state.1 += 1,
                        Code::Head(_, behind) => (next, state.1) = (*behind, 0),
                        Code::Back(head) => next = *head,
                        Code::Meet(..) if state.3 => (state.2, state.3) = (false, false),
                        Code::Meet(..) if state.2 => break,
                        Code::Meet(slot, all) => {
                            state.2 = true;
                            comers[*slot] += 1;
                            if comers[*slot] < *all {
                                break;
                            }
                            comers[*slot] = 0;
                            for (other, state) in states.iter_mut().enumerate() {
                                let here = self.blocks[other].get(state.0);
                                state.3 |= state.2 && matches!(here, Some(Code::Meet(here, _)) if here == slot);
                            }
                            continue;
                        }
                    }
                    states[number].0 = next;
                    moved = true;
                }
            }
        }
        states.iter().zip(&self.blocks).any(|(state, block)| state.0 < block.len())
    }
}

fn trips(body: &LoopBody, chunk: u64) -> u64 {
    (chunk * u64::from(body.num_chunks)).div_ceil(body.unit)
}

fn codes<'p>(rank: usize, op: &'p Op) -> impl Iterator<Item = Code<'p>> {
    op.ids.iter().map(move |&id| match op.kind {
        OpKind::Signal => Code::Add(rank * MOST + id as usize),
        OpKind::Wait => Code::Take((1 - rank) * MOST + id as usize),
        OpKind::SemaphoreRelease => Code::Add((2 + rank) * MOST + id as usize),
        OpKind::SemaphoreAcquire => Code::Take((2 + rank) * MOST + id as usize),
        OpKind::Barrier => Code::Meet(rank * MOST + id as usize, op.blocks),
        kind => panic!("no {kind:?} here"),
    })
}
