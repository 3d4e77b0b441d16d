//! Fusion of block syncs and synchronizing operations.

use super::data::append;
use crate::plan::raw::OpClass;
use crate::plan::{Op, OpKind};
use crate::types::BlockSync;

/// Tries to merge `b` into `a`; returns whether `b` was merged. Otherwise each may have lost a sync attribute that the
/// other, or a block sync between them, makes redundant.
pub(super) fn try_fuse(a: &mut Op, b: &mut Op) -> bool {
    use OpKind as K;
    if a.kind.is_sync() && a.kind == b.kind && unite(a, b) {
        return true;
    }
    match (a.kind, b.kind) {
        (K::Nop, K::Nop) => true,
        // The whole block is already synchronized where `b` begins: the `nop` before it is removed.
        (K::Nop, K::Barrier | K::Pipeline) if starts_synced(b) => {
            std::mem::swap(a, b);
            true
        }
        // The whole block was already synchronized where `a` ended.
        (K::Barrier | K::Pipeline, K::Nop) => ends_synced(a),
        (K::Nop | K::Barrier | K::Pipeline, kind) if kind.is_sync() && ends_synced(a) => {
            b.sync = b.sync.without(BlockSync::Before);
            false
        }
        (kind, _) if kind.is_sync() && starts_synced(b) => {
            a.sync = a.sync.without(BlockSync::After);
            false
        }
        _ => false,
    }
}

/// Merges two synchronizing operations of one kind, unless both use one channel: each signal counts.
fn unite(a: &mut Op, b: &Op) -> bool {
    if a.channel != b.channel {
        return false;
    }
    match a.kind.class() {
        OpClass::Acquire | OpClass::Release => append(&mut a.ids, &b.ids),
        OpClass::Flush => {
            let known = a.ids.len();
            for id in &b.ids {
                if !a.ids[..known].contains(id) {
                    a.ids.push(*id);
                }
            }
        }
        _ if b.ids.iter().any(|id| a.ids.contains(id)) => return false,
        _ => append(&mut a.ids, &b.ids),
    }
    a.sync = a.sync.union(b.sync);
    true
}

/// Returns whether the whole block is synchronized before the operation does anything else.
fn starts_synced(op: &Op) -> bool {
    match op.kind {
        kind if kind.is_block_sync() => true,
        OpKind::Pipeline => op.body.as_ref().and_then(|body| body.ops.first()).is_some_and(starts_synced),
        kind => kind.is_sync() && op.sync.is_before(),
    }
}

/// Returns whether the whole block is synchronized after everything else that the operation does.
fn ends_synced(op: &Op) -> bool {
    match op.kind {
        kind if kind.is_block_sync() => true,
        OpKind::Pipeline => op.body.as_ref().and_then(|body| body.ops.last()).is_some_and(ends_synced),
        kind => kind.is_sync() && op.sync.is_after(),
    }
}
