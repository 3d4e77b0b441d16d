//! Block syncs between operations of a thread block that access the same memory.
//!
//! Threads of a block do not run in lockstep, so an operation that accesses what an earlier one wrote, or overwrites
//! what an earlier one read, needs a `nop` between them. The pass marks such operations with [`BlockSync::Before`],
//! unless the block is synchronized there already. An operation is marked if one of two rules requires it:
//!
//! * [`convention::ReferenceRule`] is the rule of the reference implementation, so that plans are equal wherever its
//!   plan is correct. It considers plain local chunks only and forgets some accesses.
//! * [`hazard::HazardRule`] considers every access, and requires a `nop` wherever different threads may access one
//!   element.
//!
//! Not covered, because nothing inside one block can order them: other blocks, other ranks, and the iterations of a
//! loop among each other.

mod convention;
mod hazard;
mod segments;

use crate::collective::Collective;
use crate::plan::{Op, PlanTree, RankPlan};
use crate::types::{BlockSync, BufferKind};
use convention::ReferenceRule;
use hazard::HazardRule;

/// What the pass computes for a whole plan.
pub(super) struct Dependencies {
    collective: Collective,
    vectors_keep_threads: bool,
}

impl Dependencies {
    pub(super) fn of(plan: &PlanTree) -> Self {
        Self { collective: plan.collective, vectors_keep_threads: plan.buffer_alignment.is_multiple_of(VECTOR_BYTES) }
    }

    /// Marks the dependent operations of every block of a rank, pipelines' bodies included.
    pub(super) fn mark(&self, number: usize, rank: &mut RankPlan) {
        let &Self { collective, vectors_keep_threads } = self;
        let windows: Vec<BufferKind> = rank.switch_channels().map(|(buffer, _)| buffer).collect();
        let scope = Scope { rank: number as u32, collective, windows: &windows, vectors_keep_threads };
        for block in &mut rank.blocks {
            separate(&mut block.ops, &scope);
        }
    }
}

/// Bytes that one thread moves at a time in operations on plain data. Where chunks begin at multiples of it, all such
/// operations assign one element of one range to one thread.
const VECTOR_BYTES: u32 = 16;

/// Context of the rules in addition to the operations.
struct Scope<'a> {
    rank: u32,
    collective: Collective,
    /// The buffers of the rank's switch channels.
    windows: &'a [BufferKind],
    vectors_keep_threads: bool,
}

fn separate(ops: &mut [Op], scope: &Scope) {
    let mut rules = SyncRules::default();
    // The first operation after a sync has nothing to conflict with; it is only recorded when another one follows.
    let mut alone: Option<usize> = None;
    for i in 0..ops.len() {
        if let Some(body) = &mut ops[i].body {
            separate(&mut body.ops, scope);
        }
        let op = &ops[i];
        if op.kind.is_block_sync() || op.kind.is_sync() && op.sync != BlockSync::None {
            rules.clear();
            alone = None;
        } else if op.kind.is_sync() {
            // Accesses no memory, synchronizes nothing.
        } else if alone.is_none() && rules.is_clear {
            alone = Some(i);
        } else {
            if let Some(first) = alone.take() {
                rules.note(&ops[first], first, scope);
            }
            if rules.demand(op, i, scope) {
                ops[i].sync = BlockSync::Before;
            }
        }
    }
}

/// Both rules and their accesses since the last sync.
struct SyncRules {
    convention: ReferenceRule,
    hazards: HazardRule,
    is_clear: bool,
}

impl Default for SyncRules {
    fn default() -> Self {
        Self { convention: ReferenceRule::default(), hazards: HazardRule::default(), is_clear: true }
    }
}

impl SyncRules {
    fn clear(&mut self) {
        if !self.is_clear {
            self.convention.clear();
            self.hazards.clear();
            self.is_clear = true;
        }
    }

    fn note(&mut self, op: &Op, number: usize, scope: &Scope) {
        self.convention.note(op, number);
        self.hazards.note(op, scope);
        self.is_clear = false;
    }

    /// Returns whether `op` needs a sync before it. Records its accesses, as they are after that sync.
    fn demand(&mut self, op: &Op, number: usize, scope: &Scope) -> bool {
        self.is_clear = false;
        let hazard = self.hazards.conflicts(op, scope);
        if hazard {
            self.convention.clear();
        }
        let sync = self.convention.note(op, number) || hazard;
        if sync {
            self.hazards.clear();
        }
        self.hazards.note(op, scope);
        sync
    }
}

#[cfg(test)]
mod tests;
