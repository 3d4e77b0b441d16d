//! Fusion: merging adjacent operations of a thread block.
//!
//! A left fold: the current operation is merged with its successor if a rule permits it, otherwise the successor
//! becomes the current one. Nothing is reordered. Some pairs are not merged but make a sync attribute of one of them
//! redundant.
//!
//! [`sync`] contains the rules for block syncs and synchronizing operations, [`data`] those for data.

mod data;
mod dead;
mod sync;

use crate::collective::Collective;
use crate::plan::{Op, OpKind, Operand, PlanTree, RankPlan};
use dead::DeadStores;

/// What fusion computes for a whole plan.
pub(super) struct Fusion {
    collective: Collective,
    dead: DeadStores,
}

impl Fusion {
    /// Analyzes a plan.
    pub(super) fn of(plan: &PlanTree) -> Self {
        Self { collective: plan.collective, dead: DeadStores::find(plan) }
    }

    /// Fuses every block of a rank, pipelines' bodies included.
    pub(super) fn fuse(&self, number: usize, rank: &mut RankPlan) {
        let scope = Scope { rank: number as u32, collective: self.collective, dead: &self.dead };
        for block in &mut rank.blocks {
            fold(&mut block.ops, &scope);
        }
    }
}

/// Context of the rules in addition to the two operations.
struct Scope<'a> {
    rank: u32,
    collective: Collective,
    dead: &'a DeadStores,
}

impl Scope<'_> {
    /// Returns whether two operands in this rank's buffers share memory.
    fn overlap(&self, a: &Operand, b: &Operand) -> bool {
        let place = |range: &Operand| {
            let buffer = range.local_buffer()?;
            Some(self.collective.canonical_chunk(self.rank, buffer, range.index, self.collective.chunk_factor))
        };
        let (Some((a_buffer, a_index)), Some((b_buffer, b_index))) = (place(a), place(b)) else {
            return false;
        };
        a_buffer == b_buffer && a_index < b_index.saturating_add(b.size) && b_index < a_index.saturating_add(a.size)
    }
}

fn fold(ops: &mut Vec<Op>, scope: &Scope) {
    if let Some(first) = ops.first_mut() {
        fold_body(first, scope);
    }
    ops.dedup_by(|next, current| {
        let was = current.kind;
        let joined = sync::try_fuse(current, next) || data::try_fuse(current, next, scope);
        match joined {
            true if was != OpKind::Pipeline => fold_body(current, scope),
            true => {}
            false => fold_body(next, scope),
        }
        joined
    });
}

/// Fuses inside a pipeline once it has become the current operation: the rules see its original body with earlier
/// operations.
fn fold_body(op: &mut Op, scope: &Scope) {
    if let Some(body) = &mut op.body {
        fold(&mut body.ops, scope);
    }
}

#[cfg(test)]
mod tests;
