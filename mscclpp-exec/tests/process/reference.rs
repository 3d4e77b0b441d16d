//! Plans of MSCCL++, on ranks with separate bootstraps.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_exec::Message;

use super::corpus::{self, Named};
use super::results::check;

/// Small, odd, and so long that loops have more than one iteration.
#[test]
fn reference_plans_equal_the_executor_within_one_process() {
    for Named { plan: tree, .. } in corpus::reference() {
        let blocks = tree.ranks.iter().flat_map(|rank| &rank.blocks);
        let loops = blocks.flat_map(|block| &block.ops).any(|op| op.body.is_some());
        let plan = Plan::new(&tree);
        let ranks = plan.num_ranks() as usize;
        let odd = usize::from(plan.collective().kind == CollectiveKind::AllReduce);
        let sizes = [Some(1_usize), Some(1023), loops.then_some((5 << 20) / 4)].into_iter().flatten();
        let messages: Vec<_> =
            sizes.map(|count| Message::of::<f32>(count.next_multiple_of(ranks) + odd).any_size()).collect();
        check(&plan, &messages);
    }
}
