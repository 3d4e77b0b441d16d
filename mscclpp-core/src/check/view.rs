//! What the rules look at: a plan as it stands, or one of the instances of which it consists.

use crate::plan::{Op, PlanTree};

/// A plan, or the first instance of one, which is a smaller plan.
///
/// The operations of an instance are those of the plan itself, so what they number counts in the plan's own numbers:
/// [`Placed`](super::place::Placed) tells what that is in the instance.
#[derive(Clone, Copy)]
pub(super) struct View<'p> {
    /// Everything but the operations, which an instance's thread blocks lack here.
    pub(super) plan: &'p PlanTree,
    whole: &'p PlanTree,
    instances: u32,
}

impl<'p> From<&'p PlanTree> for View<'p> {
    fn from(plan: &'p PlanTree) -> Self {
        Self { plan, whole: plan, instances: 1 }
    }
}

impl<'p> View<'p> {
    /// The first of so many instances of a plan, which as a plan of its own has these tables.
    pub(super) fn of_instance(tables: &'p PlanTree, whole: &'p PlanTree, instances: u32) -> Self {
        Self { plan: tables, whole, instances }
    }

    /// Of how many instances this is one; 1 for a plan as it stands.
    pub(super) fn instances(self) -> u32 {
        self.instances
    }

    /// The operations of a thread block.
    pub(super) fn ops(self, rank: usize, block: usize) -> &'p [Op] {
        &self.whole.ranks[rank].blocks[block * self.instances as usize].ops
    }

    /// Operations in all, a pipeline counted as one.
    pub(super) fn operations(self) -> usize {
        let blocks = self.whole.ranks.iter().flat_map(|rank| rank.blocks.iter().step_by(self.instances as usize));
        blocks.map(|block| block.ops.len()).sum()
    }
}
