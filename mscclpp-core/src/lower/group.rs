//! Recorded operations, per rank and thread block.

use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::{LoopBody, Op, OpKind, PlanTree, RankPlan, ThreadBlock};
use crate::trace::{RankTables, Recorded, Trace};

/// Distributes the operations of a trace over ranks and thread blocks, in recorded order.
///
/// Blocks below the highest used exist and are empty. The operations that a block recorded inside one pipelined loop
/// become one pipeline. Nothing else of that block is recorded while the loop is open, so the place of its first
/// operation is the place where the loop closes.
///
/// # Errors
/// [`Code::RankOutOfRange`], [`Code::BlockOutOfRange`] or [`Code::BadPipeline`] for operations outside the trace's own
/// tables.
pub(super) fn group(trace: &Trace) -> Result<PlanTree, Diagnostics> {
    let counts = count(trace)?;
    let spec = &trace.spec;
    let mut plan = PlanTree {
        name: spec.name.clone(),
        collective: spec.collective,
        protocol: spec.protocol,
        reuse_resources: spec.reuse_resources,
        threads_per_block: spec.threads_per_block,
        double_scratch: spec.double_scratch,
        buffer_alignment: spec.buffer_alignment,
        min_message_size: spec.min_message_size,
        max_message_size: spec.max_message_size,
        ranks_per_node: spec.ranks_per_node,
        tags: spec.tags.clone(),
        ranks: trace
            .ranks
            .iter()
            .zip(&counts)
            .map(|(tables, counts)| rank_plan(tables, counts))
            .collect(),
        origins: trace.origins.clone(),
    };
    // Per rank and block, the loop whose pipeline is the block's last operation.
    let mut open: Vec<Vec<Option<u32>>> = counts
        .iter()
        .map(|blocks| vec![None; blocks.len()])
        .collect();
    for recorded in &trace.ops {
        let (rank, block) = (recorded.rank as usize, recorded.block as usize);
        let ops = &mut plan.ranks[rank].blocks[block].ops;
        let open = &mut open[rank][block];
        match recorded.in_loop {
            None => ops.push(recorded.op.clone()),
            Some(number) => {
                if *open != Some(number) {
                    ops.push(pipeline(trace, number, &recorded.op));
                }
                if let Some(body) = ops.last_mut().and_then(|op| op.body.as_mut()) {
                    body.ops.push(recorded.op.clone());
                }
            }
        }
        *open = recorded.in_loop;
    }
    Ok(plan)
}

/// Operations outside loops per rank and block: what to reserve. Checks every operation against the trace's tables.
fn count(trace: &Trace) -> Result<Vec<Vec<usize>>, Diagnostics> {
    let mut counts: Vec<Vec<usize>> = trace
        .ranks
        .iter()
        .map(|rank| vec![0; rank.blocks as usize])
        .collect();
    for recorded in &trace.ops {
        let Recorded {
            rank,
            block,
            in_loop,
            op,
        } = recorded;
        let site = || {
            trace
                .origins
                .get(op.origin)
                .map_or(Site::None, |place| Site::Source(place.clone()))
        };
        let Some(blocks) = counts.get_mut(*rank as usize) else {
            let message = format!(
                "`{}` is recorded on rank {rank}, expected a rank below {}",
                op.kind.name(),
                trace.ranks.len()
            );
            return Err(Diagnostic::new(Code::RankOutOfRange, site(), message).into());
        };
        let known = blocks.len();
        let Some(count) = blocks.get_mut(*block as usize) else {
            let message = format!(
                "`{}` is recorded on thread block {block} of rank {rank}, expected a block below {known}",
                op.kind.name()
            );
            return Err(Diagnostic::new(Code::BlockOutOfRange, site(), message).into());
        };
        match in_loop {
            None => *count += 1,
            Some(number) if (*number as usize) < trace.loops.len() => {}
            Some(number) => {
                let message = format!(
                    "`{}` is recorded in loop {number}, expected a loop below {}",
                    op.kind.name(),
                    trace.loops.len()
                );
                return Err(Diagnostic::new(Code::BadPipeline, site(), message).into());
            }
        }
    }
    Ok(counts)
}

fn rank_plan(tables: &RankTables, counts: &[usize]) -> RankPlan {
    RankPlan {
        input_chunks: tables.input_chunks,
        output_chunks: tables.output_chunks,
        scratch_chunks: tables.scratch_chunks,
        blocks: counts
            .iter()
            .map(|&count| ThreadBlock {
                ops: Vec::with_capacity(count),
                ..ThreadBlock::default()
            })
            .collect(),
        channels: tables.channels.clone(),
        remote_buffers: tables.remote_buffers.clone(),
        semaphores: tables.semaphores.clone(),
    }
}

/// An empty pipeline for loop `number`, with the origin of its first operation.
fn pipeline(trace: &Trace, number: u32, first: &Op) -> Op {
    let header = &trace.loops[number as usize];
    let mut op = Op::new(OpKind::Pipeline, first.origin);
    op.body = Some(Box::new(LoopBody {
        unit: header.unit,
        num_chunks: header.num_chunks,
        ops: Vec::new(),
    }));
    op
}
