//! Execution of a plan at one size, in the simplest way.
//!
//! It shares nothing with the rules, and supports signals, semaphores and barriers only: packets, switches and data are
//! ignored.

use std::collections::BTreeMap;

use mscclpp_plan::raw::{LoopBody, Op, OpKind, PlanTree};
use mscclpp_plan::types::ChannelKind;

/// A plan whose channels, semaphores and barriers are slots.
pub(super) struct Brute<'p> {
    blocks: Vec<Vec<Code<'p>>>,
    slots: Vec<i64>,
    barriers: usize,
}

enum Code<'p> {
    Add(usize),
    Take(usize),
    /// Slot and number of comers.
    Meet(usize, u32),
    /// The position after the loop.
    Head(&'p LoopBody, usize),
    /// The position of its head.
    Back(usize),
}

impl<'p> Brute<'p> {
    pub(super) fn of(plan: &'p PlanTree) -> Self {
        let mut slots = Slots { plan, known: BTreeMap::new(), barriers: BTreeMap::new() };
        let mut blocks = Vec::new();
        for (rank, tables) in plan.ranks.iter().enumerate() {
            for (number, block) in tables.blocks.iter().enumerate() {
                let mut code = Vec::new();
                for op in &block.ops {
                    let Some(body) = &op.body else {
                        code.extend(slots.codes(rank, number, op));
                        continue;
                    };
                    let head = code.len();
                    let inner: Vec<_> = body.ops.iter().flat_map(|op| slots.codes(rank, number, op)).collect();
                    code.push(Code::Head(body, head + inner.len() + 2));
                    code.extend(inner);
                    code.push(Code::Back(head));
                }
                blocks.push(code);
            }
        }
        let mut values = vec![0; slots.known.len()];
        for (slot, at) in slots.known {
            if let Slot::Semaphore(rank, id) = slot {
                values[at] = plan.ranks[rank].semaphores[id as usize];
            }
        }
        Self { blocks, slots: values, barriers: slots.barriers.len() }
    }

    /// Iterations of every loop.
    pub(super) fn trips(&self, chunk: u64) -> impl Iterator<Item = u64> {
        self.blocks.iter().flatten().filter_map(move |code| match code {
            Code::Head(body, _) => Some(trips(body, chunk)),
            _ => None,
        })
    }

    /// Iterations of the longest loop.
    pub(super) fn most_trips(&self, chunk: u64) -> u64 {
        self.trips(chunk).max().unwrap_or(0)
    }

    /// Returns whether some thread block deadlocks, for chunks of the given number of bytes.
    pub(super) fn is_stuck(&self, chunk: u64) -> bool {
        let mut slots = self.slots.clone();
        let mut comers = vec![0; self.barriers];
        // By block: position, iterations that its loop has begun, whether it has reached its barrier, whether that has
        // opened.
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
                        Code::Take(slot) if slots[*slot] <= 0 => break,
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

/// The counters that are raised and lowered.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    /// By sending rank, receiving rank, and the position among the channels of that kind between the two.
    Channel(usize, usize, bool, usize),
    /// By rank.
    Semaphore(usize, u32),
}

struct Slots<'p> {
    plan: &'p PlanTree,
    known: BTreeMap<Slot, usize>,
    barriers: BTreeMap<(usize, u32), usize>,
}

impl<'p> Slots<'p> {
    fn codes(&mut self, rank: usize, block: usize, op: &Op) -> Vec<Code<'p>> {
        use OpKind as K;
        let raises = match op.kind {
            K::Signal | K::RelaxedSignal | K::PutWithSignal | K::PutWithSignalAndFlush | K::SemaphoreRelease => true,
            K::Wait | K::RelaxedWait | K::SemaphoreAcquire => false,
            K::Barrier if op.num_blocks > 1 => {
                let next = self.barriers.len();
                return vec![Code::Meet(*self.barriers.entry((rank, op.ids[0])).or_insert(next), op.num_blocks)];
            }
            _ => return Vec::new(),
        };
        let slots = op.ids.iter().map(|&id| {
            let slot = match op.channel {
                None => Slot::Semaphore(rank, id),
                Some(kind) => self.channel(rank, block, kind, id, raises),
            };
            let next = self.known.len();
            *self.known.entry(slot).or_insert(next)
        });
        slots.map(|slot| if raises { Code::Add(slot) } else { Code::Take(slot) }).collect()
    }

    fn channel(&self, rank: usize, block: usize, kind: ChannelKind, id: u32, sends: bool) -> Slot {
        let tables = &self.plan.ranks[rank];
        let peers = tables.peers(kind);
        let number = tables.blocks[block].channels(kind)[id as usize] as usize;
        let peer = peers[number];
        let position = peers[..number].iter().filter(|other| **other == peer).count();
        let (from, to) = if sends { (rank, peer as usize) } else { (peer as usize, rank) };
        Slot::Channel(from, to, kind == ChannelKind::Port, position)
    }
}
