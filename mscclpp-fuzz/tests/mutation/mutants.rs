//! Small changes of plans.

use std::fmt;

use mscclpp_core::plan::raw::{BufferRef, Op, OpKind, Operand, PlanTree, Slice};
use mscclpp_core::types::{BufferKind, ChannelKind};

use super::loops;

/// Mutation operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operator {
    Drop,
    DropSync,
    Duplicate,
    Swap,
    Channel,
    Peer,
    Buffer,
    Index,
    Size,
    Weaken,
    Flush,
    Initial,
    Semaphore,
    BarrierCount,
    Barrier,
    Group,
    Loop,
    /// One loop becomes two consecutive ones.
    Split,
    /// Two consecutive loops become one.
    Merge,
    /// An operation is moved out of a loop.
    MoveOut,
    /// The operation before or after a loop is moved into it.
    MoveIn,
    /// The first operation of an iteration becomes its last.
    Rotate,
    /// A loop's operations are also executed once before it, or after it.
    Peel,
    /// A loop and the next one are swapped.
    LoopOrder,
    /// Unit and span grow by the same factor.
    Span,
    Scratch,
}

impl Operator {
    /// Returns whether it moves operations between loops, or changes what a loop covers.
    pub(crate) fn is_of_loops(self) -> bool {
        use Operator as O;
        matches!(self, O::Split | O::Merge | O::MoveOut | O::MoveIn | O::Rotate | O::Peel | O::LoopOrder | O::Span)
    }
}

/// The location of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpLocation {
    pub(crate) rank: usize,
    pub(crate) block: usize,
    pub(crate) index: usize,
    pub(crate) inner: Option<usize>,
}

/// A change of one operation, or of a rank's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mutation {
    pub(crate) operator: Operator,
    pub(crate) at: OpLocation,
    /// The number of the change among several by this operator there.
    pub(crate) variant: usize,
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpLocation { rank, block, index, inner } = self.at;
        write!(f, "{:?}.{} at rank {rank} / block {block} / operation {index}", self.operator, self.variant)?;
        inner.map_or(Ok(()), |inner| write!(f, ".{inner}"))
    }
}

/// Returns all mutations of a plan, in order.
pub(crate) fn mutations(plan: &PlanTree) -> Vec<Mutation> {
    let mut found = Vec::new();
    for (rank, tables) in plan.ranks.iter().enumerate() {
        for (block, list) in tables.blocks.iter().enumerate() {
            for (index, op) in list.ops.iter().enumerate() {
                let at = OpLocation { rank, block, index, inner: None };
                of_op(plan, at, &list.ops, index, &mut found);
                if let Some(body) = &op.body {
                    for inner in 0..body.ops.len() {
                        of_op(plan, OpLocation { inner: Some(inner), ..at }, &body.ops, inner, &mut found);
                    }
                }
            }
        }
        for variant in 0..2 * tables.semaphores.len() {
            let at = OpLocation { rank, block: 0, index: 0, inner: None };
            found.push(Mutation { operator: Operator::Initial, at, variant });
        }
    }
    if plan.double_scratch {
        let at = OpLocation { rank: 0, block: 0, index: 0, inner: None };
        found.push(Mutation { operator: Operator::Scratch, at, variant: 0 });
    }
    found
}

fn of_op(plan: &PlanTree, at: OpLocation, ops: &[Op], index: usize, found: &mut Vec<Mutation>) {
    use Operator as O;
    let op = &ops[index];
    let mut add = |operator, variants: usize| {
        found.extend((0..variants).map(|variant| Mutation { operator, at, variant }));
    };
    let is_sync = matches!(op.kind, OpKind::Nop | OpKind::Barrier);
    add(if is_sync { O::DropSync } else { O::Drop }, 1);
    if op.kind == OpKind::Pipeline {
        add(O::Loop, 4);
        add(O::Duplicate, 1);
        add(O::Swap, usize::from(index + 1 < ops.len()));
        for (operator, variants) in loops::variants(ops, index) {
            add(operator, variants);
        }
        return;
    }
    if op.kind != OpKind::Nop {
        add(O::Duplicate, 1);
    }
    if ops.get(index + 1).is_some_and(|next| next != op) {
        add(O::Swap, 1);
    }
    if op.channel.is_some_and(|kind| kind != ChannelKind::Switch) && !op.ids.is_empty() {
        add(O::Channel, op.ids.len());
    }
    let sides = || op.srcs.iter().chain(&op.dsts);
    add(O::Peer, sides().filter(|range| range.is_remote()).count());
    // A local buffer becomes each of the two others, a remote one another of the same rank.
    add(O::Buffer, 2 * sides().filter(|range| !matches!(range.buffer, BufferRef::Switch(_))).count());
    add(O::Index, 2 * sides().count());
    if sides().count() > 0 {
        add(O::Size, 2);
    }
    match op.kind {
        OpKind::Signal | OpKind::Wait if op.channel == Some(ChannelKind::Memory) => add(O::Weaken, 1),
        OpKind::PutWithSignal => add(O::Weaken, 1),
        OpKind::PutWithSignalAndFlush => add(O::Flush, 1),
        OpKind::Barrier => {
            add(O::BarrierCount, 2);
            add(O::Barrier, 2);
        }
        OpKind::SemaphoreAcquire | OpKind::SemaphoreRelease => {
            let known = plan.ranks[at.rank].semaphores.len();
            add(O::Semaphore, if known > 1 { op.ids.len() } else { 0 });
        }
        _ => {}
    }
    if op.slice.is_some() {
        add(O::Group, 4);
    } else if op.kind.is_data() {
        add(O::Group, 1);
    }
}

/// Returns a plan with one change; `None` if there is nothing to change.
pub(crate) fn apply(plan: &PlanTree, mutation: &Mutation) -> Option<PlanTree> {
    use Operator as O;
    let mut plan = plan.clone();
    let Mutation { operator, at, variant } = *mutation;
    match operator {
        O::Initial => {
            let value = &mut plan.ranks[at.rank].semaphores[variant / 2];
            *value += if variant.is_multiple_of(2) { 1 } else { -1 };
            return Some(plan);
        }
        O::Scratch => {
            plan.double_scratch = false;
            return Some(plan);
        }
        _ => {}
    }
    let tables = plan.ranks[at.rank].clone();
    let block = &mut plan.ranks[at.rank].blocks[at.block];
    let known = |kind| tables.blocks[at.block].channels(kind).len() as u32;
    let (ops, index) = match at.inner {
        None => (&mut block.ops, at.index),
        Some(inner) => (&mut block.ops[at.index].body.as_mut()?.ops, inner),
    };
    match operator {
        O::Drop | O::DropSync => {
            ops.remove(index);
            return Some(plan);
        }
        O::Duplicate => {
            ops.insert(index, ops[index].clone());
            return Some(plan);
        }
        O::Swap => {
            ops.swap(index, index + 1);
            return Some(plan);
        }
        _ if operator.is_of_loops() => {
            loops::apply(ops, index, operator, variant)?;
            return Some(plan);
        }
        _ => {}
    }
    let op = &mut ops[index];
    let mut sides: Vec<&mut Operand> = op.srcs.iter_mut().chain(&mut op.dsts).collect();
    match operator {
        O::Channel => {
            let kind = op.channel?;
            let next = (0..known(kind)).map(|step| (op.ids[variant] + step) % known(kind));
            let free = next.into_iter().find(|id| !op.ids.contains(id));
            match free {
                Some(id) => op.ids[variant] = id,
                // All are in use by this operation: two are swapped, which matters if they correspond to operands.
                None if op.ids.len() > 1 && !op.srcs.is_empty() => {
                    let other = (variant + 1) % op.ids.len();
                    op.ids.swap(variant, other);
                }
                None => return None,
            }
        }
        O::Peer => {
            let range = sides.into_iter().filter(|range| range.is_remote()).nth(variant)?;
            let kind = op.channel?;
            range.buffer = BufferRef::Remote(other_remote(&tables, at.block, kind, range.buffer, |old, new| {
                new.1 == old.1 && new.0 != old.0
            })?);
        }
        O::Buffer => {
            let mut sides = sides.into_iter().filter(|range| !matches!(range.buffer, BufferRef::Switch(_)));
            let range = sides.nth(variant / 2)?;
            range.buffer = match range.buffer {
                BufferRef::Local(buffer) => {
                    let others: Vec<_> = BufferKind::ALL.into_iter().filter(|&other| other != buffer).collect();
                    BufferRef::Local(others[variant % 2])
                }
                place if variant.is_multiple_of(2) => {
                    let kind = op.channel?;
                    BufferRef::Remote(other_remote(&tables, at.block, kind, place, |old, new| {
                        new.0 == old.0 && new.1 != old.1
                    })?)
                }
                _ => return None,
            };
        }
        O::Index => {
            let range = &mut sides[variant / 2];
            range.index = if variant.is_multiple_of(2) { range.index + 1 } else { range.index.checked_sub(1)? };
        }
        O::Size => {
            for range in sides {
                range.size =
                    if variant == 0 { range.size + 1 } else { range.size.checked_sub(1).filter(|&size| size > 0)? };
            }
        }
        O::Weaken => {
            op.kind = match op.kind {
                OpKind::Signal => OpKind::RelaxedSignal,
                OpKind::Wait => OpKind::RelaxedWait,
                _ => OpKind::Put,
            }
        }
        O::Flush => op.kind = OpKind::PutWithSignal,
        O::BarrierCount => {
            op.num_blocks = if variant == 0 { op.num_blocks + 1 } else { op.num_blocks.checked_sub(1)? }
        }
        O::Barrier => op.ids[0] = if variant == 0 { op.ids[0] + 1 } else { op.ids[0].checked_sub(1)? },
        O::Semaphore => op.ids[variant] = (op.ids[variant] + 1) % tables.semaphores.len() as u32,
        O::Group => match (&mut op.slice, variant) {
            (None, _) => op.slice = Some(Slice { index: 0, count: 2 }),
            (Some(slice), 0) => slice.count += 1,
            (Some(slice), 1) => slice.index = (slice.index + 1) % slice.count,
            (Some(slice), 2) => slice.count = Some(slice.count - 1).filter(|&of| of > slice.index)?,
            (slice, _) => *slice = None,
        },
        O::Loop => {
            let body = op.body.as_mut()?;
            match variant {
                0 => body.unit *= 2,
                1 => body.num_chunks += 1,
                2 => body.num_chunks = body.num_chunks.checked_sub(1).filter(|&count| count > 0)?,
                _ => body.unit = body.unit / 2 / 16 * 16,
            }
            if body.unit == 0 {
                return None;
            }
        }
        _ => return None,
    }
    Some(plan)
}

/// Returns the position in a block's table of another remote buffer of the same kind.
fn other_remote(
    tables: &mscclpp_core::plan::raw::RankPlan,
    block: usize,
    kind: ChannelKind,
    old: BufferRef,
    suits: impl Fn((u32, BufferKind), (u32, BufferKind)) -> bool,
) -> Option<u32> {
    let BufferRef::Remote(old) = old else { return None };
    let numbers = tables.blocks[block].remote_buffers(kind);
    let what = |position: u32| {
        let buffer = &tables.remote_buffers[numbers[position as usize] as usize];
        (buffer.rank, buffer.buffer)
    };
    let count = numbers.len() as u32;
    (1..count).map(|step| (old + step) % count).find(|&new| suits(what(old), what(new)))
}

/// Returns the operation at a location.
pub(crate) fn op_at(plan: &PlanTree, at: OpLocation) -> Option<&Op> {
    let op = plan.ranks.get(at.rank)?.blocks.get(at.block)?.ops.get(at.index)?;
    match at.inner {
        None => Some(op),
        Some(inner) => op.body.as_ref()?.ops.get(inner),
    }
}
