//! Replication: every block becomes one block per instance, each of which processes its own part of every chunk.
//!
//! Chunk i of the program is chunks i·n to i·n + n - 1 of a plan with n instances, and instance k processes the k-th
//! part of every range. Numbers of blocks, channels, semaphores and barriers are mapped in the same way: c becomes c·n
//! + k.

use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::{ChannelTable, Op, OpKind, PlanTree, RankPlan, ThreadBlock};

/// Maximum number of thread blocks of a rank. Numbers of blocks have 16 bits in the executors.
pub(super) const MAX_BLOCKS: u32 = 1 << 16;

/// Maximum number of operations of a plan with several instances, so that a large `instances` cannot exhaust memory.
const MAX_OPS: u64 = 1 << 26;

/// Replicates a numbered plan into two or more instances.
///
/// # Errors
/// [`Code::TooLarge`] when a count leaves 32 bits, a rank has more than 65 536 blocks, or the plan more than 2^26
/// operations.
pub fn replicate(plan: &mut PlanTree, instances: u32) -> Result<(), Diagnostics> {
    bounded(plan, instances)?;
    plan.ranks.iter_mut().enumerate().try_for_each(|(number, rank)| replicate_rank(number, rank, instances))?;
    expectations(plan, instances);
    Ok(())
}

/// Checks that a plan stays within the limit when it is replicated.
///
/// # Errors
/// [`Code::TooLarge`] for more than 2^26 operations.
pub(super) fn bounded(plan: &PlanTree, instances: u32) -> Result<(), Diagnostics> {
    let ops: usize = plan.ranks.iter().flat_map(|rank| &rank.blocks).map(|block| count(&block.ops)).sum();
    let all = ops as u64 * u64::from(instances);
    if all > MAX_OPS {
        return Err(too_large(format!(
            "{instances} instances of {ops} operations are {all} operations, expected at most {MAX_OPS}"
        )));
    }
    Ok(())
}

/// Replicates the expectations of a program.
pub(super) fn expectations(plan: &mut PlanTree, instances: u32) {
    for expectation in &mut plan.expectations {
        // All instances together process whole chunks. Chunks are below the counts of their buffers, which fit.
        let inputs = expectation.inputs.iter_mut().map(|(_, chunk)| chunk);
        for number in inputs.chain([&mut expectation.chunk, &mut expectation.len]) {
            *number = number.saturating_mul(instances);
        }
    }
}

fn count(ops: &[Op]) -> usize {
    ops.iter().map(|op| 1 + op.body.as_ref().map_or(0, |body| count(&body.ops))).sum()
}

fn too_large(message: String) -> Diagnostics {
    Diagnostic::new(Code::TooLarge, Site::None, message).help("use fewer instances or fewer chunks").into()
}

/// Replicates a rank's part of a numbered plan.
///
/// # Errors
/// [`Code::TooLarge`] when a count leaves 32 bits, or the rank has more than 65 536 blocks.
pub(super) fn replicate_rank(number: usize, rank: &mut RankPlan, n: u32) -> Result<(), Diagnostics> {
    let check = |what: &str, count: usize, most: u32| -> Result<u32, Diagnostics> {
        let all = (count as u64).checked_mul(u64::from(n)).filter(|all| *all <= u64::from(most));
        all.map(|all| all as u32).ok_or_else(|| {
            too_large(format!("rank {number} has {count} {what}, which exceeds {most} with {n} instances"))
        })
    };
    rank.input_chunks = check("input chunks", rank.input_chunks as usize, u32::MAX)?;
    rank.output_chunks = check("output chunks", rank.output_chunks as usize, u32::MAX)?;
    rank.scratch_chunks = check("scratch chunks", rank.scratch_chunks as usize, u32::MAX)?;
    check("thread blocks", rank.blocks.len(), MAX_BLOCKS)?;
    check("semaphores", rank.semaphores.len(), u32::MAX)?;
    for table in &rank.channels {
        let channels = match table {
            ChannelTable::Memory(peers) | ChannelTable::Port(peers) => peers.len(),
            ChannelTable::Switch { groups, .. } => groups.len(),
        };
        check("channels of one kind", channels, u32::MAX)?;
    }

    rank.channels =
        std::mem::take(&mut rank.channels).into_iter().flat_map(|table| repeat_channels(table, n)).collect();
    rank.semaphores = repeat(&rank.semaphores, n);
    let mut blocks = Vec::with_capacity(rank.blocks.len() * n as usize);
    for block in std::mem::take(&mut rank.blocks) {
        for k in 1..n {
            let mut copy = block.clone();
            shift_block(&mut copy, k - 1, n).map_err(|op| beyond(number, op))?;
            blocks.push(copy);
        }
        let mut last = block;
        shift_block(&mut last, n - 1, n).map_err(|op| beyond(number, op))?;
        blocks.push(last);
    }
    rank.blocks = blocks;
    Ok(())
}

fn beyond(rank: usize, op: OpKind) -> Diagnostics {
    too_large(format!("a chunk or barrier number of a `{}` on rank {rank} exceeds 32 bits", op.name()))
}

fn repeat<T: Clone>(list: &[T], n: u32) -> Vec<T> {
    list.iter().flat_map(|item| std::iter::repeat_n(item.clone(), n as usize)).collect()
}

/// Returns the tables of all instances. A switch channel keeps its own table.
fn repeat_channels(table: ChannelTable, n: u32) -> Vec<ChannelTable> {
    match table {
        ChannelTable::Memory(peers) => vec![ChannelTable::Memory(repeat(&peers, n))],
        ChannelTable::Port(peers) => vec![ChannelTable::Port(repeat(&peers, n))],
        ChannelTable::Switch { buffer, groups } => {
            repeat(&groups, n).into_iter().map(|group| ChannelTable::Switch { buffer, groups: vec![group] }).collect()
        }
    }
}

/// Converts a block to that of instance `k`. The error is the operation whose numbers exceed 32 bits.
fn shift_block(block: &mut ThreadBlock, k: u32, n: u32) -> Result<(), OpKind> {
    // Within the limits checked above: every number is below the length of its table.
    for number in block.channels.iter_mut().flat_map(|(_, numbers)| numbers) {
        *number = number.saturating_mul(n).saturating_add(k);
    }
    block.ops.iter_mut().try_for_each(|op| shift(op, k, n).ok_or(op.kind))
}

fn shift(op: &mut Op, k: u32, n: u32) -> Option<()> {
    for range in op.srcs.iter_mut().chain(&mut op.dsts) {
        range.index = range.index.checked_mul(n)?.checked_add(k.checked_mul(range.size)?)?;
    }
    if op.kind.has_ids_of_rank() {
        for id in &mut op.ids {
            *id = id.checked_mul(n)?.checked_add(k)?;
        }
    }
    if let Some(body) = &mut op.body {
        body.ops.iter_mut().try_for_each(|inner| shift(inner, k, n))?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::replicate;
    use crate::diag::Code;
    use crate::plan::ChannelTable;
    use crate::testing::{plan, text};
    use crate::types::ChannelKind::{Memory, Switch};

    #[test]
    fn every_number_is_interleaved() {
        let ops = "recspkt.m i1 s1 > i1 s2 r0:3; sem_acquire#1,2; barrier#1=2; signal.m#0,1; \
                   glres.w w0:1+2 > w0:5+2; loop 64x1 { copy/1:2 i1 > s3 }";
        let mut plan = plan(&[&[ops, "nop"], &[""]]);
        replicate(&mut plan, 3).unwrap();
        let rank = &plan.ranks[0];
        assert_eq!((rank.input_chunks, rank.output_chunks, rank.scratch_chunks), (24, 24, 24));
        assert_eq!(rank.blocks.len(), 6);
        assert_eq!(
            text(&rank.blocks[1].ops),
            "recspkt.m i4 s4 > i4 s7 r0:10; sem_acquire#4,7; barrier#4=2; signal.m#0,1; \
             glres.w w0:5+2 > w0:17+2; loop 64x1 { copy/1:2 i4 > s10 }"
        );
        assert_eq!(rank.blocks[2].channels(Memory), [2, 5, 8, 11]);
        assert_eq!(rank.blocks[1].remote_buffers(Memory), [0, 1, 2]);
        assert_eq!(text(&rank.blocks[5].ops), "nop");
        assert_eq!(rank.peers(Memory), [1; 12]);
        assert_eq!(rank.blocks[2].channels(Switch), [2, 5, 8, 11]);
        assert_eq!(rank.channels.iter().filter(|table| matches!(table, ChannelTable::Switch { .. })).count(), 12);
        assert_eq!(rank.semaphores.len(), 12);
        assert_eq!(plan.ranks[1].blocks.len(), 3);
    }

    #[test]
    fn plan_beyond_the_limits_is_rejected() {
        let code = |instances| {
            let mut plan = plan(&[&["copy i0 > s0; nop", "nop"], &[""]]);
            replicate(&mut plan, instances).unwrap_err().iter().next().unwrap().code
        };
        assert_eq!(code(1 << 15 | 1), Code::TooLarge);
        assert_eq!(code(u32::MAX), Code::TooLarge);
        let mut plan = plan(&[&["copy i4000000000 > s0"], &[""]]);
        assert_eq!(replicate(&mut plan, 2).unwrap_err().iter().next().unwrap().code, Code::TooLarge);
    }
}
