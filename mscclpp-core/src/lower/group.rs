//! Distribution of recorded operations to ranks and thread blocks.

use super::replicate::MAX_BLOCKS;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::origin::Origin;
use crate::plan::{BufferRef, ChannelTable, LoopBody, Op, OpKind, PlanTree, RankPlan, ThreadBlock};
use crate::trace::{LoopHeader, RankTables, Trace, TracedOp};
use crate::types::ChannelKind;

/// Distributes the operations of a trace to ranks and thread blocks, in recorded order.
///
/// Blocks below the highest used exist and are empty. The operations that a block recorded inside one pipelined loop
/// become one pipeline. The block records nothing else while the loop is open, so the position of its first operation
/// is the position at which the loop ends.
///
/// # Errors
/// [`Code::RankOutOfRange`], [`Code::ThreadBlockOutOfRange`], [`Code::BadPipeline`] or [`Code::ForeignHandle`] for operations
/// outside the trace's own tables.
pub(super) fn group(trace: Trace) -> Result<PlanTree, Diagnostics> {
    let places = Places::of(&trace)?;
    let counts = count(&trace, &places)?;
    let Trace { spec, ranks, ops, loops, expectations, origins } = trace;
    // Of all blocks, one rank after the other.
    let mut lists: Vec<Vec<Op>> = counts.into_iter().map(Vec::with_capacity).collect();
    // Per block, the loop whose pipeline is its last operation.
    let mut open = vec![None; if loops.is_empty() { 0 } else { lists.len() }];
    for TracedOp { rank, block, in_loop, op } in ops {
        let place = places.first[rank as usize] + block as usize;
        let ops = &mut lists[place];
        let was = open.get_mut(place).and_then(|open| std::mem::replace(open, in_loop));
        match in_loop {
            None => ops.push(op),
            Some(number) => {
                if was != Some(number) {
                    ops.push(pipeline(&loops[number as usize], op.origin));
                }
                if let Some(body) = ops.last_mut().and_then(|op| op.body.as_mut()) {
                    body.ops.push(op);
                }
            }
        }
    }
    let mut lists = lists.into_iter();
    Ok(PlanTree {
        name: spec.name,
        collective: spec.collective,
        protocol: spec.protocol,
        reuse_resources: spec.reuse_resources,
        threads_per_block: spec.threads_per_block,
        double_scratch: spec.double_scratch,
        buffer_alignment: spec.buffer_alignment,
        min_message_size: spec.min_message_size,
        max_message_size: spec.max_message_size,
        ranks_per_node: spec.ranks_per_node,
        tags: spec.tags,
        ranks: ranks.into_iter().map(|tables| rank_plan(tables, &mut lists)).collect(),
        expectations,
        origins,
    })
}

/// Positions of the thread blocks of a trace in one list of all.
struct Places {
    /// Per rank, its first block; and the end of the last rank's blocks.
    first: Vec<usize>,
}

impl Places {
    fn of(trace: &Trace) -> Result<Self, Diagnostics> {
        let mut first = Vec::with_capacity(trace.ranks.len() + 1);
        let mut next = 0;
        first.push(next);
        for (rank, tables) in trace.ranks.iter().enumerate() {
            if tables.num_blocks > MAX_BLOCKS {
                let message =
                    format!("rank {rank} has {} thread blocks, expected at most {MAX_BLOCKS}", tables.num_blocks);
                return Err(Diagnostic::new(Code::ThreadBlockOutOfRange, Site::None, message).into());
            }
            next += tables.num_blocks as usize;
            first.push(next);
        }
        Ok(Self { first })
    }
}

/// Returns the operations outside loops per block, including the block syncs that they require: the capacity to
/// reserve. Checks every operation against the trace's tables.
fn count(trace: &Trace, places: &Places) -> Result<Vec<usize>, Diagnostics> {
    let mut counts = vec![0; places.first[trace.ranks.len()]];
    let channels: Vec<_> = trace.ranks.iter().map(|rank| ChannelKind::ALL.map(|kind| channels(rank, kind))).collect();
    for TracedOp { rank, block, in_loop, op } in &trace.ops {
        let site = || trace.origins.get(op.origin).map_or(Site::None, |place| Site::Source(place.clone()));
        let Some(tables) = trace.ranks.get(*rank as usize) else {
            let message =
                format!("`{}` is recorded on rank {rank}, expected a rank below {}", op.kind.name(), trace.ranks.len());
            return Err(Diagnostic::new(Code::RankOutOfRange, site(), message).into());
        };
        check_numbers(tables, &channels[*rank as usize], op)
            .map_err(|message| Diagnostic::new(Code::ForeignHandle, site(), message))?;
        if *block >= tables.num_blocks {
            let message = format!(
                "`{}` is recorded on thread block {block} of rank {rank}, expected a block below {}",
                op.kind.name(),
                tables.num_blocks
            );
            return Err(Diagnostic::new(Code::ThreadBlockOutOfRange, site(), message).into());
        }
        match in_loop {
            None => {
                let count = &mut counts[places.first[*rank as usize] + *block as usize];
                *count += 1 + usize::from(op.sync.is_before()) + usize::from(op.sync.is_after());
            }
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

/// Returns the number of a rank's channels of a kind.
fn channels(tables: &RankTables, kind: ChannelKind) -> usize {
    let count = |table: &ChannelTable| match (table, kind) {
        (ChannelTable::Memory(peers), ChannelKind::Memory) | (ChannelTable::Port(peers), ChannelKind::Port) => {
            peers.len()
        }
        (ChannelTable::Switch { groups, .. }, ChannelKind::Switch) => groups.len(),
        _ => 0,
    };
    tables.channels.iter().map(count).sum()
}

/// Checks that an operation's rank-level numbers are in the rank's tables.
fn check_numbers(tables: &RankTables, channels: &[usize], op: &Op) -> Result<(), String> {
    let check = |what: &str, number: u32, known: usize| match (number as usize) < known {
        true => Ok(()),
        false => Err(format!("`{}` uses {what} {number} of its rank, expected one below {known}", op.kind.name())),
    };
    for range in op.srcs.iter().chain(&op.dsts) {
        match range.buffer {
            BufferRef::Local(_) => {}
            BufferRef::Remote(number) => check("remote buffer", number, tables.remote_buffers.len())?,
            BufferRef::Switch(number) => check("switch channel", number, channels[ChannelKind::Switch as usize])?,
        }
    }
    let Some(kind) = op.channel else { return Ok(()) };
    op.ids.iter().try_for_each(|&id| check("channel", id, channels[kind as usize]))
}

/// Returns a rank with its tables, and with the first of some lists of operations for its blocks.
fn rank_plan(tables: RankTables, lists: &mut impl Iterator<Item = Vec<Op>>) -> RankPlan {
    let lists = lists.take(tables.num_blocks as usize);
    RankPlan {
        input_chunks: tables.input_chunks,
        output_chunks: tables.output_chunks,
        scratch_chunks: tables.scratch_chunks,
        blocks: lists.map(|ops| ThreadBlock { ops, ..ThreadBlock::default() }).collect(),
        channels: tables.channels,
        remote_buffers: tables.remote_buffers,
        semaphores: tables.semaphores,
    }
}

/// Returns an empty pipeline for a loop, with the origin of its first operation.
fn pipeline(header: &LoopHeader, origin: Origin) -> Op {
    let mut op = Op::new(OpKind::Pipeline, origin);
    op.body = Some(Box::new(LoopBody { unit: header.unit, num_chunks: header.num_chunks, ops: Vec::new() }));
    op
}

#[cfg(test)]
mod tests {
    use super::group;
    use crate::diag::Code;
    use crate::testing::{ops, text, trace};
    use crate::trace::TracedOp;

    #[test]
    fn operations_keep_their_order_per_block() {
        let trace = trace(&[&["copy i0 > s0; nop", "", "copy i1 > s1"], &["put.m#0 i0 > r0:0"]]);
        let plan = group(trace).unwrap();
        let blocks: Vec<Vec<String>> =
            plan.ranks.iter().map(|rank| rank.blocks.iter().map(|block| text(&block.ops)).collect()).collect();
        assert_eq!(blocks, [vec!["copy i0 > s0; nop", "", "copy i1 > s1"], vec!["put.m#0 i0 > r0:0"]]);
    }

    #[test]
    fn loop_becomes_one_pipeline_per_block() {
        let mut trace = trace(&[&["nop; loop 64x2 { copy i0 > s0; copy s0 > o0 }; loop 32x1 { nop }", ""], &[""]]);
        // The first loop also runs on block 1, interleaved with block 0.
        let other = TracedOp { rank: 0, block: 1, in_loop: Some(0), op: ops("copy i1 > s1").remove(0) };
        trace.ops.insert(2, other);
        let plan = group(trace).unwrap();
        assert_eq!(
            text(&plan.ranks[0].blocks[0].ops),
            "nop; loop 64x2 { copy i0 > s0; copy s0 > o0 }; loop 32x1 { nop }"
        );
        assert_eq!(text(&plan.ranks[0].blocks[1].ops), "loop 64x2 { copy i1 > s1 }");
    }

    #[test]
    fn trace_with_indexes_outside_its_tables_is_rejected() {
        let refused = |ops: &str, change: fn(&mut TracedOp)| {
            let mut trace = trace(&[&[ops], &[""]]);
            change(&mut trace.ops[0]);
            group(trace).unwrap_err().iter().next().unwrap().code
        };
        assert_eq!(refused("nop", |op| op.rank = 2), Code::RankOutOfRange);
        assert_eq!(refused("nop", |op| op.block = 1), Code::ThreadBlockOutOfRange);
        assert_eq!(refused("nop", |op| op.in_loop = Some(0)), Code::BadPipeline);
        assert_eq!(refused("signal.m#4", |_| ()), Code::ForeignHandle);
        assert_eq!(refused("put.m#0 i0 > r3:0", |_| ()), Code::ForeignHandle);
        assert_eq!(refused("gstore.w#0 i0 > w4:0", |_| ()), Code::ForeignHandle);
        let mut trace = trace(&[&["nop"], &[""]]);
        trace.ranks[0].num_blocks = u32::MAX;
        assert_eq!(group(trace).unwrap_err().iter().next().unwrap().code, Code::ThreadBlockOutOfRange);
    }
}
