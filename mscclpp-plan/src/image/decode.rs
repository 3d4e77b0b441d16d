//! Decodes an image to a tree.

use super::Plan;
use super::encode::kind_of_number;
use super::layout::*;
use super::validate;
use super::view::{BlockView, OpView, RankView, switch_buffer};
use crate::collective::{Collective, CollectiveKind};
use crate::origin::Origin;
use crate::{ChannelTable, LoopBody, Op, PlanTree, RankPlan, ThreadBlock};

/// Returns the tree of an image. A rank whose section is damaged is empty.
pub(super) fn decode(plan: &Plan) -> PlanTree {
    let (origins, of_ops) = plan.origin_table().map(|table| table.decode()).unwrap_or_default();
    let ranks = (0..plan.num_ranks()).map(|rank| {
        let Some(view) = plan.rank(rank).filter(|view| validate::section(rank, view).is_ok()) else {
            return RankPlan::default();
        };
        let of_ops = of_ops.get(rank as usize).map(Vec::as_slice).unwrap_or_default();
        decode_rank(&view, of_ops)
    });
    PlanTree {
        name: plan.name().to_owned(),
        collective: plan.collective(),
        protocol: plan.protocol(),
        reuse_resources: plan.reuse_resources(),
        threads_per_block: plan.threads_per_block(),
        double_scratch: plan.double_scratch(),
        buffer_alignment: plan.buffer_alignment(),
        min_message_size: plan.min_message_size(),
        max_message_size: plan.max_message_size(),
        ranks_per_node: plan.ranks_per_node(),
        tags: plan.tags().map(|(key, value)| (key.to_owned(), value)).collect(),
        ranks: ranks.collect(),
        expectations: plan.expectations().collect(),
        origins,
    }
}

pub(super) fn collective(image: &[u8]) -> Collective {
    let kind = image.get(KIND).copied().unwrap_or(u8::MAX);
    let (input, output) = (u32_at(image, KIND_INPUT), u32_at(image, KIND_OUTPUT));
    Collective {
        kind: kind_of_number(kind, input, output).unwrap_or(CollectiveKind::Custom { input, output }),
        chunk_factor: u32_at(image, CHUNK_FACTOR),
        in_place: image.get(FLAGS).is_some_and(|flags| flags & IN_PLACE != 0),
        root: u32_at(image, ROOT),
        dividing: image.get(FLAGS).is_some_and(|flags| flags & DIVIDING != 0),
        rows: image.get(FLAGS).is_some_and(|flags| flags & ROWS != 0),
    }
}

fn decode_rank(view: &RankView<'_>, origins: &[Origin]) -> RankPlan {
    use crate::types::BufferKind::{Input, Output, Scratch};
    let channels = view.channel_tables().map(|(tag, first, len)| match switch_buffer(tag) {
        Some(buffer) => {
            ChannelTable::Switch { buffer, groups: view.groups(first, len).map(Iterator::collect).collect() }
        }
        None if tag == TAG_PORT => ChannelTable::Port(view.numbers(first, len).collect()),
        None => ChannelTable::Memory(view.numbers(first, len).collect()),
    });
    RankPlan {
        input_chunks: view.chunks(Input),
        output_chunks: view.chunks(Output),
        scratch_chunks: view.chunks(Scratch),
        blocks: view.blocks().map(|block| decode_block(&block, origins)).collect(),
        channels: channels.collect(),
        remote_buffers: view.remote_buffers().collect(),
        semaphores: view.semaphores().collect(),
    }
}

fn decode_block(view: &BlockView<'_>, origins: &[Origin]) -> ThreadBlock {
    let mut at = view.first_op();
    let mut flat = view.ops().map(|op| {
        let origin = origins.get(at).copied().unwrap_or(Origin::UNKNOWN);
        at += 1;
        (op, origin)
    });
    ThreadBlock {
        ops: decode_ops(&mut flat, usize::MAX, 0),
        channels: view.channel_tables().map(|(kind, ids)| (kind, ids.collect())).collect(),
        remote_buffers: view.remote_buffer_tables().map(|(kind, ids)| (kind, ids.collect())).collect(),
    }
}

/// Takes operations until `count` flat operations are consumed.
fn decode_ops<'a>(flat: &mut dyn Iterator<Item = (OpView<'a>, Origin)>, count: usize, depth: usize) -> Vec<Op> {
    let mut ops = Vec::new();
    let mut left = count;
    while left > 0 {
        let Some((view, origin)) = flat.next() else {
            break;
        };
        left -= 1;
        let mut op = Op {
            kind: view.kind(),
            channel: view.channel(),
            reduce: view.reduce(),
            sync: view.sync(),
            slice: view.slice(),
            count: view.count(),
            srcs: view.srcs().collect(),
            dsts: view.dsts().collect(),
            ids: view.ids().collect(),
            num_blocks: view.num_blocks(),
            body: None,
            origin,
        };
        if let Some(header) = view.pipeline() {
            let count = (header.body_len as usize).min(left);
            let ops = if depth < MAX_DEPTH { decode_ops(flat, count, depth + 1) } else { Vec::new() };
            left -= count;
            op.body = Some(Box::new(LoopBody { unit: header.unit, num_chunks: header.num_chunks, ops }));
        }
        ops.push(op);
    }
    ops
}
