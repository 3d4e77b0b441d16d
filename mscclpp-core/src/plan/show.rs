//! Plans as text for people: one line per operation, with ranks and buffers instead of table positions.

use std::fmt::{self, Display, Formatter};

use super::{BufferRef, ChannelTable, Op, OpKind, Operand, PlanTree, RankPlan, ThreadBlock};
use crate::types::{BufferKind, ChannelKind};

/// A plan, or one rank of it, as text.
///
/// References read `input[3]` or `scratch[0..4]`, those of another rank `rank 1 scratch[0]`. Operations are numbered in flat
/// order, as in messages; the body of a pipeline is indented.
#[derive(Clone, Copy, Debug)]
pub struct Show<'a> {
    plan: &'a PlanTree,
    rank: Option<u32>,
}

impl<'a> Show<'a> {
    /// All of a plan.
    pub const fn plan(plan: &'a PlanTree) -> Self {
        Self { plan, rank: None }
    }

    /// The head of a plan and one of its ranks; no rank if there is no such.
    pub const fn rank(plan: &'a PlanTree, rank: u32) -> Self {
        Self { plan, rank: Some(rank) }
    }
}

impl Display for Show<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        head(self.plan, f)?;
        for (rank, tables) in self.plan.ranks.iter().enumerate() {
            if self.rank.is_none_or(|wanted| wanted as usize == rank) {
                f.write_str("\n")?;
                show_rank(rank, tables, f)?;
            }
        }
        Ok(())
    }
}

fn head(plan: &PlanTree, f: &mut Formatter<'_>) -> fmt::Result {
    let collective = plan.collective;
    write!(f, "{}: {} of {} ranks", plan.name, collective.kind.name(), plan.ranks.len())?;
    if plan.ranks_per_node as usize != plan.ranks.len() {
        write!(f, " on nodes of {}", plan.ranks_per_node)?;
    }
    f.write_str(if collective.in_place { ", in place" } else { ", out of place" })?;
    if collective.root != 0 {
        write!(f, ", root {}", collective.root)?;
    }
    write!(f, ", protocol {}\n  {} threads per block", plan.protocol.name(), plan.threads_per_block)?;
    write!(f, ", chunks aligned to {} bytes, messages of ", plan.buffer_alignment)?;
    match (plan.min_message_size, plan.max_message_size) {
        (0, u64::MAX) => f.write_str("any size")?,
        (min, u64::MAX) => write!(f, "{min} bytes and more")?,
        (min, max) => write!(f, "{min} to {max} bytes")?,
    }
    if plan.double_scratch {
        f.write_str(", two halves of scratch")?;
    }
    if plan.reuse_resources {
        f.write_str(", shared scratch")?;
    }
    for (i, (key, value)) in plan.tags.iter().enumerate() {
        write!(f, "{}{key} = {value}", if i == 0 { "\n  tags " } else { ", " })?;
    }
    f.write_str("\n")
}

fn show_rank(rank: usize, tables: &RankPlan, f: &mut Formatter<'_>) -> fmt::Result {
    let RankPlan { input_chunks, output_chunks, scratch_chunks, .. } = tables;
    writeln!(f, "rank {rank}: {input_chunks} input, {output_chunks} output, {scratch_chunks} scratch chunks")?;
    for table in &tables.channels {
        match table {
            ChannelTable::Memory(peers) => writeln!(f, "  memory channels to ranks {}", Numbers(peers))?,
            ChannelTable::Port(peers) => writeln!(f, "  port channels to ranks {}", Numbers(peers))?,
            ChannelTable::Switch { buffer, groups } => {
                for group in groups {
                    writeln!(f, "  switch channel over {buffer} of ranks {}", Numbers(group))?;
                }
            }
        }
    }
    for (i, value) in tables.semaphores.iter().enumerate() {
        writeln!(f, "  semaphore {i} starts at {value}")?;
    }
    for (number, block) in tables.blocks.iter().enumerate() {
        writeln!(f, "  thread block {number}")?;
        let mut at = 0;
        show_ops(&block.ops, &Scope { tables, block }, 1, &mut at, f)?;
    }
    Ok(())
}

fn show_ops(ops: &[Op], scope: &Scope<'_>, depth: usize, at: &mut usize, f: &mut Formatter<'_>) -> fmt::Result {
    for op in ops {
        writeln!(f, "  {at:>4} {:width$}{}", "", Operation { op, scope: *scope }, width = 2 * depth)?;
        *at += 1;
        if let Some(body) = &op.body {
            show_ops(&body.ops, scope, depth + 1, at, f)?;
        }
    }
    Ok(())
}

/// The tables that an operation's numbers go through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) tables: &'a RankPlan,
    pub(crate) block: &'a ThreadBlock,
}

/// An operation on one line, without a pipeline's body.
pub(crate) struct Operation<'a> {
    pub(crate) op: &'a Op,
    pub(crate) scope: Scope<'a>,
}

impl Display for Operation<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (op, scope) = (self.op, self.scope);
        f.write_str(op.kind.name())?;
        // A reference through a switch says so itself.
        let by_switch = op.srcs.iter().chain(&op.dsts).any(|at| matches!(at.place, BufferRef::Switch(_)));
        if let Some(kind) = op.channel
            && !(by_switch && kind == ChannelKind::Switch)
        {
            write!(f, " {kind}")?;
        }
        if let Some(reduce) = op.reduce {
            write!(f, " {reduce}")?;
        }
        match op.kind {
            OpKind::Barrier => write!(f, " {} of {} thread blocks", Numbers(&op.ids), op.blocks)?,
            OpKind::SemaphoreAcquire | OpKind::SemaphoreRelease => write!(f, " {}", Numbers(&op.ids))?,
            _ => scope.channels(op, f)?,
        }
        scope.refs(&op.dsts, op.channel, f)?;
        if !op.srcs.is_empty() || !op.dsts.is_empty() {
            f.write_str(" <-")?;
        }
        scope.refs(&op.srcs, op.channel, f)?;
        if let Some(slice) = op.slice {
            write!(f, ", part {} of {}", slice.index, slice.of)?;
        }
        if let Some(body) = &op.body {
            write!(f, " of {} chunks in steps of {} bytes", body.num_chunks, body.unit)?;
        }
        Ok(())
    }
}

impl Scope<'_> {
    /// The channels of an operation: their rank-level numbers and peers.
    fn channels(&self, op: &Op, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(kind) = op.channel else { return Ok(()) };
        for (i, id) in op.ids.iter().enumerate() {
            f.write_str(if i == 0 { " " } else { ", " })?;
            match self.block.channels(kind).get(*id as usize) {
                None => write!(f, "channel ? (index {id})")?,
                Some(number) => match self.tables.peers(kind).get(*number as usize) {
                    Some(peer) => write!(f, "channel {number} (rank {peer})")?,
                    None => write!(f, "channel {number}")?,
                },
            }
        }
        Ok(())
    }

    fn refs(&self, refs: &[Operand], kind: Option<ChannelKind>, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, at) in refs.iter().enumerate() {
            f.write_str(if i == 0 { " " } else { ", " })?;
            match at.place {
                BufferRef::Local(buffer) => write!(f, "{buffer}")?,
                BufferRef::Remote(index) => match self.remote(index, kind) {
                    Some((rank, buffer)) => write!(f, "rank {rank} {buffer}")?,
                    None => write!(f, "remote buffer ? (index {index})")?,
                },
                BufferRef::Switch(index) => match self.switch(index) {
                    Some((number, buffer)) => write!(f, "switch {number} {buffer}")?,
                    None => write!(f, "switch ? (index {index})")?,
                },
            }
            match at.size {
                1 => write!(f, "[{}]", at.index)?,
                size => write!(f, "[{}..{}]", at.index, u64::from(at.index) + u64::from(size))?,
            }
        }
        Ok(())
    }

    /// Owner and kind of a remote buffer of the block.
    pub(super) fn remote(&self, index: u32, kind: Option<ChannelKind>) -> Option<(u32, BufferKind)> {
        let number = *self.block.remote_buffers(kind?).get(index as usize)?;
        self.tables.remote_buffers.get(number as usize).map(|buffer| (buffer.rank, buffer.buffer))
    }

    /// Rank-level number and buffer of a switch channel of the block.
    pub(super) fn switch(&self, index: u32) -> Option<(u32, BufferKind)> {
        let number = *self.block.channels(ChannelKind::Switch).get(index as usize)?;
        self.tables.switch_channels().nth(number as usize).map(|(buffer, _)| (number, buffer))
    }
}

/// Numbers with commas between them.
pub(super) struct Numbers<'a>(pub(super) &'a [u32]);

impl Display for Numbers<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, number) in self.0.iter().enumerate() {
            write!(f, "{}{number}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::json::{ReadOptions, read};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn any_tree_can_be_shown(tree in crate::plan::arbitrary::tree()) {
            let text = Show::plan(&tree).to_string();
            fn count(ops: &[Op]) -> usize {
                ops.iter().map(|op| 1 + op.body.as_ref().map_or(0, |body| count(&body.ops))).sum()
            }
            let blocks = tree.ranks.iter().flat_map(|rank| &rank.blocks);
            let ops: usize = blocks.map(|block| count(&block.ops)).sum();
            prop_assert!(text.lines().count() > ops);
            prop_assert!(Show::rank(&tree, 0).to_string().len() <= text.len());
        }
    }

    #[test]
    fn a_plan_reads_like_this() {
        let (tree, _) = read(include_str!("pair.json"), ReadOptions { strict: true }).unwrap();
        let expected = "\
pair: allreduce of 2 ranks, in place, protocol Simple
  512 threads per block, chunks aligned to 16 bytes, messages of 0 to 1048576 bytes

rank 0: 2 input, 2 output, 1 scratch chunks
  memory channels to ranks 1
  switch channel over input of ranks 0, 1
  semaphore 0 starts at 1
  thread block 0
     0   put memory rank 1 scratch[0] <- input[1]
     1   nop
     2   signal memory channel 0 (rank 1)
     3   wait memory channel 0 (rank 1)
     4   barrier 0 of 2 thread blocks
     5   res memory sum input[0], rank 1 input[0] <- input[0], scratch[0], part 0 of 2
     6   sem_acquire 0
     7   pipeline of 2 chunks in steps of 1024 bytes
     8     glres max switch 0 input[0..2] <- switch 0 input[0..2]
  thread block 1
";
        let shown = Show::rank(&tree, 0).to_string();
        assert_eq!(shown, expected, "{shown}");
    }
}
