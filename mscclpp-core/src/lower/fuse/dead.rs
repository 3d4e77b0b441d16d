//! Dead stores: stores that no operation reads.

use rangemap::RangeSet;

use super::super::access::accesses;
use crate::collective::Collective;
use crate::plan::{BufferRef, Op, OpKind, Operand, PlanTree};
use crate::types::BufferKind;

/// Determines where a switch reduction's local destination can be omitted because the result is broadcast directly
/// after it.
///
/// That is so where the broadcast itself writes the destination (its window covers it), and where the destination is
/// scratch that no other operation of the program reads.
pub(super) struct DeadStores {
    collective: Collective,
    /// Per rank, the scratch that is read other than by a broadcast directly after the reduction that wrote it.
    read: Vec<RangeSet<u64>>,
    /// Per rank, the buffers of its switch channels.
    windows: Vec<Vec<BufferKind>>,
}

impl DeadStores {
    /// Analyzes a plan whose operands have rank-level numbers. It costs nothing unless the plan has switch reductions.
    pub(super) fn find(plan: &PlanTree) -> Self {
        let mut found = Self { collective: plan.collective, read: Vec::new(), windows: Vec::new() };
        let blocks = || plan.ranks.iter().flat_map(|rank| &rank.blocks);
        if !blocks().any(|block| has_switch_reduce(&block.ops)) {
            return found;
        }
        found.read.resize(plan.ranks.len(), RangeSet::new());
        found.windows =
            plan.ranks.iter().map(|rank| rank.switch_channels().map(|(buffer, _)| buffer).collect()).collect();
        for rank in 0..plan.ranks.len() {
            for block in &plan.ranks[rank].blocks {
                found.scan(plan, rank, &block.ops);
            }
        }
        found
    }

    fn scan(&mut self, plan: &PlanTree, rank: usize, ops: &[Op]) {
        let mut previous: Option<&Op> = None;
        for op in ops {
            if let Some(body) = &op.body {
                self.scan(plan, rank, &body.ops);
            }
            let is_result_of_reduce = op.kind == OpKind::SwitchBroadcast
                && previous.is_some_and(|before| before.kind == OpKind::SwitchReduce && before.dsts == op.srcs);
            if !is_result_of_reduce {
                accesses(op).filter(|access| !access.write).for_each(|access| self.note(plan, rank, &access.range));
            }
            previous = Some(op);
        }
    }

    /// Records that `rank` reads a range, if it is scratch of any rank.
    fn note(&mut self, plan: &PlanTree, rank: usize, range: &Operand) {
        let chunks = u64::from(range.index)..u64::from(range.index) + u64::from(range.size);
        if chunks.is_empty() {
            return;
        }
        let tables = &plan.ranks[rank];
        match range.buffer {
            BufferRef::Local(BufferKind::Scratch) => self.read[rank].insert(chunks),
            BufferRef::Local(_) => {}
            BufferRef::Remote(number) => {
                if let Some(remote) = tables.remote_buffers.get(number as usize)
                    && remote.buffer == BufferKind::Scratch
                    && let Some(read) = self.read.get_mut(remote.rank as usize)
                {
                    read.insert(chunks);
                }
            }
            BufferRef::Switch(number) => {
                if let Some((BufferKind::Scratch, group)) = tables.switch_channels().nth(number as usize) {
                    for &member in group {
                        if let Some(read) = self.read.get_mut(member as usize) {
                            read.insert(chunks.clone());
                        }
                    }
                }
            }
        }
    }

    /// Returns whether `rank` need not store `result` when it broadcasts it through `window`.
    pub(super) fn can_drop(&self, rank: u32, result: &Operand, window: &Operand) -> bool {
        let (Some(buffer), BufferRef::Switch(number)) = (result.local_buffer(), window.buffer) else {
            return false;
        };
        let part = self.collective.chunk_factor;
        let shared = self.windows.get(rank as usize).and_then(|windows| windows.get(number as usize));
        if shared.is_some_and(|&shared| {
            self.collective.canonical_chunk(rank, shared, window.index, part)
                == self.collective.canonical_chunk(rank, buffer, result.index, part)
        }) {
            return true;
        }
        let chunks = u64::from(result.index)..u64::from(result.index) + u64::from(result.size);
        buffer == BufferKind::Scratch
            && self.read.get(rank as usize).is_some_and(|read| chunks.is_empty() || !read.overlaps(&chunks))
    }
}

fn has_switch_reduce(ops: &[Op]) -> bool {
    ops.iter()
        .any(|op| op.kind == OpKind::SwitchReduce || op.body.as_ref().is_some_and(|body| has_switch_reduce(&body.ops)))
}
