//! Sync attributes become `nop`s.

use crate::plan::{Op, OpKind, PlanTree};
use crate::vocab::Sync;

/// Puts a `nop` wherever a synchronising operation asks for a block sync, and clears the attributes.
///
/// `nop`s are not merged: fusion has removed the attributes that ask twice, and without fusion the plan keeps them.
pub(super) fn insert(plan: &mut PlanTree) {
    for block in plan.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        expand(&mut block.ops);
    }
}

fn expand(ops: &mut Vec<Op>) {
    let mut nops = 0;
    for op in ops.iter_mut() {
        if let Some(body) = &mut op.body {
            expand(&mut body.ops);
        }
        if !op.kind.is_sync() {
            op.sync = Sync::None;
        }
        nops += usize::from(op.sync.is_before()) + usize::from(op.sync.is_after());
    }
    if nops == 0 {
        return;
    }
    let mut out = Vec::with_capacity(ops.len() + nops);
    for mut op in ops.drain(..) {
        let sync = std::mem::replace(&mut op.sync, Sync::None);
        let nop = Op::new(OpKind::Nop, op.origin);
        if sync.is_before() {
            out.push(nop.clone());
        }
        out.push(op);
        if sync.is_after() {
            out.push(nop);
        }
    }
    *ops = out;
}
