//! Conversion of sync attributes to `nop`s.

use crate::origin::Origin;
use crate::plan::{Op, OpKind, RankPlan};
use crate::types::BlockSync;

/// Inserts a `nop` wherever a synchronizing or dependent operation requires a block sync, and clears the attributes.
///
/// `nop`s are not merged: fusion has removed redundant attributes, and without fusion the plan keeps them.
pub(super) fn insert(rank: &mut RankPlan) {
    for block in &mut rank.blocks {
        expand(&mut block.ops);
    }
}

fn expand(ops: &mut Vec<Op>) {
    let mut nops = 0;
    for op in ops.iter_mut() {
        if let Some(body) = &mut op.body {
            expand(&mut body.ops);
        }
        nops += usize::from(op.sync.is_before()) + usize::from(op.sync.is_after());
    }
    if nops == 0 {
        return;
    }
    // From the end, so that each operation moves once, to its final position.
    let mut from = ops.len();
    ops.resize_with(from + nops, || Op::new(OpKind::Nop, Origin::UNKNOWN));
    let mut to = ops.len();
    while from < to {
        from -= 1;
        let sync = std::mem::replace(&mut ops[from].sync, BlockSync::None);
        let origin = ops[from].origin;
        if sync.is_after() {
            to -= 1;
            ops[to].origin = origin;
        }
        to -= 1;
        ops.swap(from, to);
        if sync.is_before() {
            to -= 1;
            ops[to].origin = origin;
        }
    }
    // The operations before the first block sync stay, and require none.
}

#[cfg(test)]
mod tests {
    use crate::testing::{plan, text};

    #[test]
    fn attributes_become_nops() {
        let ops = "signal.m#0@before; wait.m#0@after; sem_acquire#1@both; flush.p#0; \
                   loop 16x1 { rlxwait.m#0@after; sem_release#0@before }";
        let mut plan = plan(&[&[ops], &["copy i0 > s0"]]);
        plan.ranks.iter_mut().for_each(super::insert);
        assert_eq!(
            text(&plan.ranks[0].blocks[0].ops),
            "nop; signal.m#0; wait.m#0; nop; nop; sem_acquire#1; nop; flush.p#0; \
             loop 16x1 { rlxwait.m#0; nop; nop; sem_release#0 }"
        );
        assert_eq!(text(&plan.ranks[1].blocks[0].ops), "copy i0 > s0");
    }
}
