//! The plan that the rules check: a whole plan, or one of the instances of which it consists.

use mscclpp_plan::raw::{Op, PlanTree};

/// A plan, or the first instance of one, which is a smaller plan.
///
/// The operations of an instance are those of the plan itself, so they use the numbers of the whole plan:
/// [`LocatedOp`](super::place::LocatedOp) converts them to numbers of the instance.
#[derive(Clone, Copy)]
pub(super) struct View<'p> {
    /// Everything but the operations, which an instance's thread blocks lack here.
    pub(super) plan: &'p PlanTree,
    whole: &'p PlanTree,
    instances: u32,
    /// Selects the order of the abstract execution, in tests of its independence.
    order: Option<u64>,
}

impl<'p> From<&'p PlanTree> for View<'p> {
    fn from(plan: &'p PlanTree) -> Self {
        Self { plan, whole: plan, instances: 1, order: None }
    }
}

impl<'p> View<'p> {
    /// Returns the first of the given number of instances of a plan; `tables` are its tables as a plan.
    pub(super) fn of_instance(tables: &'p PlanTree, whole: &'p PlanTree, instances: u32) -> Self {
        Self { plan: tables, whole, instances, order: None }
    }

    /// Returns the same plan, whose abstract execution takes the order that a seed selects instead of the usual one.
    pub(super) fn in_order(self, order: Option<u64>) -> Self {
        Self { order, ..self }
    }

    /// Returns the seed of the order of the abstract execution; none for the usual order.
    pub(super) fn order(self) -> Option<u64> {
        self.order
    }

    /// Returns the number of instances of which this is one; 1 for a whole plan.
    pub(super) fn instances(self) -> u32 {
        self.instances
    }

    /// Returns the operations of a thread block.
    pub(super) fn ops(self, rank: usize, block: usize) -> &'p [Op] {
        &self.whole.ranks[rank].blocks[block * self.instances as usize].ops
    }

    /// Returns the number of operations, a pipeline counted as one.
    pub(super) fn operations(self) -> usize {
        let blocks = self.whole.ranks.iter().flat_map(|rank| rank.blocks.iter().step_by(self.instances as usize));
        blocks.map(|block| block.ops.len()).sum()
    }
}
