//! A plan with its loops rolled up and without its data: the signals and waits of its thread blocks.

use std::collections::BTreeMap;

use super::packets::{self, Links};
use super::{Obstacle, too_many_combinations};
use crate::pairing::Pairs;
use crate::place::LocatedOp;
use crate::rates::{ChunkSizes, Rate, Trips};
use crate::view::View;
use mscclpp_plan::raw::{Op, OpClass};

/// The synchronization of a plan, each operation once whatever its loop.
pub(crate) struct Rolled<'p> {
    pub(crate) view: View<'p>,
    pub(crate) sizes: ChunkSizes,
    /// The trip counts of `loops`.
    pub(crate) trips: Trips,
    /// All thread blocks, rank by rank.
    pub(crate) blocks: Vec<Block>,
    /// The loops that contain synchronization; the others have no influence on deadlocks.
    pub(crate) loops: Vec<Loop>,
    pub(crate) counters: Vec<Counter>,
    /// By barrier, the number of its thread blocks.
    pub(crate) barriers: Vec<u32>,
}

/// A thread block.
pub(crate) struct Block {
    pub(crate) rank: usize,
    pub(crate) block: usize,
    pub(crate) actions: Vec<Action>,
    /// By action, the operation that it belongs to: position in the block, and in its pipeline.
    pub(crate) operations: Vec<(u32, Option<u32>)>,
}

/// An action of a thread block on one counter or barrier. Consecutive increments of counters outside of loops are one
/// action, and consecutive decrements are one action that waits for their sum: in between the thread block does nothing
/// for which another one could wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Adds a number to a counter.
    Raise(u32, u32),
    /// Waits until a counter has at least a number, and subtracts it.
    Lower(u32, u32),
    /// Waits until all thread blocks of a barrier have reached it.
    Arrive(u32),
    /// Waits until a thread block has completed its operation at a position.
    Await(u32, u32),
    /// Begins a loop, or its next iteration, or leaves it.
    Begin(u32),
    /// Ends an iteration of a loop.
    Repeat(u32),
}

/// A loop that contains synchronization.
pub(crate) struct Loop {
    pub(crate) block: u32,
    /// Positions of its first and its last action, `Begin` and `Repeat`.
    pub(crate) begin: u32,
    pub(crate) end: u32,
    /// Its rate, as numbered by [`Trips::rates`].
    pub(crate) rate: usize,
}

/// A counter of the rolled plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    pub(crate) kind: CounterKind,
    /// Its value when a launch starts.
    pub(crate) initial: u64,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterKind {
    /// Signals in a direction of a channel, as numbered by [`Pairs`].
    Channel(usize),
    /// Units of a rank's semaphore.
    Semaphore(usize, u32),
    /// Windows of packets that one operation writes and another reads.
    Packets,
}

impl<'p> Rolled<'p> {
    /// Returns the synchronization of a plan that the rules about shapes and pairs accept. `None` if no loop contains
    /// synchronization, or no message is within the plan's limits.
    ///
    /// # Errors
    /// Fails if a property cannot be decided for all sizes.
    pub(crate) fn of(view: View<'p>, pairs: &Pairs) -> Result<Option<Self>, Obstacle<'p>> {
        if !has_loops(view) {
            return Ok(None);
        }
        let links = packets::links(view)?;
        let Some(sizes) = ChunkSizes::of(view, links.has_packets) else { return Ok(None) };
        let mut build = Build {
            view,
            pairs,
            links: &links,
            grain: sizes.grain,
            channels: vec![None; pairs.counters()],
            semaphores: BTreeMap::new(),
            barriers: BTreeMap::new(),
            rates: BTreeMap::new(),
            blocks: Vec::new(),
            awaited: 0,
            loops: Vec::new(),
            counters: vec![Counter { kind: CounterKind::Packets, initial: 0 }; links.windows as usize],
        };
        for (rank, tables) in view.plan.ranks.iter().enumerate() {
            for block in 0..tables.blocks.len() {
                build.add_block(rank, block);
            }
        }
        let Build { rates, blocks, mut loops, counters, barriers, .. } = build;
        let mut arrivals = vec![0; barriers.len()];
        for (number, blocks) in barriers.into_values() {
            arrivals[number as usize] = blocks;
        }
        // Rates were numbered as they occurred.
        let sorted: Vec<Rate> = rates.keys().copied().collect();
        let numbers: BTreeMap<usize, usize> = rates.values().copied().zip(0..).collect();
        loops.iter_mut().for_each(|body| body.rate = numbers[&body.rate]);
        let Some(trips) = Trips::of(sorted) else {
            let first = loops.first().map(|body| (body.block as usize, body.begin as usize));
            let at = first.and_then(|(block, position)| placed(view, &blocks[block], position));
            return Err(too_many_combinations(at));
        };
        Ok(Some(Self { view, sizes, trips, blocks, loops, counters, barriers: arrivals }))
    }

    /// Returns the operation of an action.
    pub(crate) fn placed(&self, block: usize, position: usize) -> Option<LocatedOp<'p>> {
        placed(self.view, &self.blocks[block], position)
    }
}

fn placed<'p>(view: View<'p>, block: &Block, position: usize) -> Option<LocatedOp<'p>> {
    let &(index, inner) = block.operations.get(position)?;
    let op = view.ops(block.rank, block.block).get(index as usize)?;
    let whole = LocatedOp {
        rank: block.rank,
        block: block.block,
        index: index as usize,
        inside: None,
        op,
        instances: view.instances(),
    };
    match (&op.body, inner) {
        (Some(body), Some(i)) => {
            Some(LocatedOp { inside: Some((i as usize, op)), op: body.ops.get(i as usize)?, ..whole })
        }
        _ => Some(whole),
    }
}

/// Returns whether a loop contains synchronization.
fn has_loops(view: View) -> bool {
    let plan = view.plan;
    let blocks =
        plan.ranks.iter().enumerate().flat_map(|(rank, tables)| (0..tables.blocks.len()).map(move |i| (rank, i)));
    let mut ops = blocks.flat_map(|(rank, block)| view.ops(rank, block));
    ops.any(|op| op.body.as_ref().is_some_and(|body| body.ops.iter().any(synchronizes)))
}

/// Returns whether an operation signals or waits.
fn synchronizes(op: &Op) -> bool {
    let kind = op.kind;
    kind.signals() || kind.waits() || kind.has_ids_of_rank() || kind.has_packets()
}

struct Build<'a, 'p> {
    view: View<'p>,
    pairs: &'a Pairs,
    links: &'a Links,
    grain: u64,
    /// Numbers of the counters of channel directions, and of semaphores.
    channels: Vec<Option<u32>>,
    semaphores: BTreeMap<(usize, u32), u32>,
    /// By rank and number of a barrier, its number here and its thread blocks.
    barriers: BTreeMap<(usize, u32), (u32, u32)>,
    rates: BTreeMap<Rate, usize>,
    blocks: Vec<Block>,
    /// The number of actions of the last block up to the last operation for whose end others may wait.
    awaited: usize,
    loops: Vec<Loop>,
    counters: Vec<Counter>,
}

/// Maximum number of consecutive actions that are searched for one of the same counter.
const MAX_IN_A_ROW: usize = 16;

impl Build<'_, '_> {
    fn add_block(&mut self, rank: usize, block: usize) {
        self.blocks.push(Block { rank, block, actions: Vec::new(), operations: Vec::new() });
        self.awaited = 0;
        let view = self.view;
        for (index, op) in view.ops(rank, block).iter().enumerate() {
            let whole = LocatedOp { rank, block, index, inside: None, op, instances: view.instances() };
            let Some(body) = &op.body else {
                self.add(&whole);
                continue;
            };
            if !body.ops.iter().any(synchronizes) {
                continue;
            }
            let (rates, rate) = (self.rates.len(), Rate::of(body, self.grain));
            let rate = *self.rates.entry(rate).or_insert(rates);
            let number = self.loops.len() as u32;
            let begin = self.push(&whole, Action::Begin(number));
            for (i, inner) in body.ops.iter().enumerate() {
                self.add(&LocatedOp { inside: Some((i, op)), op: inner, ..whole });
            }
            let end = self.push(&whole, Action::Repeat(number));
            self.loops.push(Loop { block: self.blocks.len() as u32 - 1, begin, end, rate });
        }
    }

    /// Adds an action, and returns its position.
    fn push(&mut self, at: &LocatedOp, action: Action) -> u32 {
        // `add_block` has begun a block.
        let Some(block) = self.blocks.last_mut() else { return 0 };
        let awaited = match at.inside {
            None => self.awaited.min(block.actions.len()),
            Some(_) => block.actions.len(),
        };
        for old in block.actions[awaited..].iter_mut().rev().take(MAX_IN_A_ROW) {
            match (old, action) {
                (Action::Raise(counter, n), Action::Raise(same, more))
                | (Action::Lower(counter, n), Action::Lower(same, more)) => {
                    if *counter == same {
                        *n += more;
                        return block.actions.len() as u32 - 1;
                    }
                }
                _ => break,
            }
        }
        block.actions.push(action);
        block.operations.push((at.index as u32, at.inside.map(|(inner, _)| inner as u32)));
        block.actions.len() as u32 - 1
    }

    fn add(&mut self, at: &LocatedOp) {
        let (view, pairs, op) = (self.view, self.pairs, at.op);
        let number = (self.blocks.len() as u32 - 1, at.index as u32, at.inside.map(|(inner, _)| inner as u32));
        if op.kind.has_packets() {
            self.awaited = usize::MAX;
            let links = self.links;
            for &action in links.before.get(&number).into_iter().flatten() {
                self.push(at, action);
            }
            for &window in links.after.get(&number).into_iter().flatten() {
                self.push(at, Action::Raise(window, 1));
            }
            self.awaited = self.blocks.last().map_or(0, |block| block.actions.len());
        }
        match op.kind.class() {
            OpClass::Signal { .. } | OpClass::Data(..) if op.kind.signals() => {
                for counter in op.ids.iter().copied().filter_map(pairs.outgoing(view.plan, at)) {
                    let counter = self.channel(counter);
                    self.push(at, Action::Raise(counter, 1));
                }
            }
            OpClass::Wait { .. } => {
                for counter in op.ids.iter().copied().filter_map(pairs.incoming(view.plan, at)) {
                    let counter = self.channel(counter);
                    self.push(at, Action::Lower(counter, 1));
                }
            }
            class @ (OpClass::Acquire | OpClass::Release) => {
                for &id in &op.ids {
                    let counter = self.semaphore(at.rank, at.number(id));
                    let is_release = class == OpClass::Release;
                    self.push(at, if is_release { Action::Raise(counter, 1) } else { Action::Lower(counter, 1) });
                }
            }
            OpClass::Barrier => {
                let next = self.barriers.len() as u32;
                let id = at.number(op.ids.first().copied().unwrap_or(0));
                let (barrier, _) = *self.barriers.entry((at.rank, id)).or_insert((next, op.num_blocks));
                self.push(at, Action::Arrive(barrier));
            }
            OpClass::Signal { .. } | OpClass::Data(..) | OpClass::Flush | OpClass::BlockSync | OpClass::Pipeline => {}
            // `counted` represents it by signals and waits.
            OpClass::ExchangeCounts => {}
        }
    }

    fn channel(&mut self, counter: usize) -> u32 {
        let next = self.counters.len() as u32;
        let number = *self.channels[counter].get_or_insert(next);
        if number == next {
            self.counters.push(Counter { kind: CounterKind::Channel(counter), initial: 0 });
        }
        number
    }

    fn semaphore(&mut self, rank: usize, id: u32) -> u32 {
        let next = self.counters.len() as u32;
        let number = *self.semaphores.entry((rank, id)).or_insert(next);
        if number == next {
            let initial = self.view.plan.ranks[rank].semaphores.get(id as usize).copied().unwrap_or(0);
            let initial = u64::try_from(initial).unwrap_or(0);
            self.counters.push(Counter { kind: CounterKind::Semaphore(rank, id), initial });
        }
        number
    }
}
