//! Plans that consist of several instances of a smaller plan, side by side: the result of replication.
//!
//! A plan consists of n instances of a smaller one if
//!
//! 1. thread blocks, channels of a kind, and semaphores form runs of n equal ones: the k-th of a run belongs to
//!    instance k;
//! 2. the operations of a run of thread blocks are equal except for numbers: instance k uses the k-th channel,
//!    semaphore or barrier of each run of which instance 0 uses the first;
//! 3. all ranges are equally long, s chunks, and begin at multiples of s; in runs of n such ranges, instance k uses the
//!    k-th where instance 0 uses the first; and buffers and postconditions begin and end with runs.
//!
//! Then no memory and no counter is used by two instances, and each instance is the smaller plan with its chunks
//! renumbered, including its postconditions. So the plan does what n independent smaller ones do, and it is correct if
//! the smaller one is. Instances can only add order to each other, by the start and the end of a rank.
//!
//! The converse is not used: if the smaller plan has findings, the whole plan is checked.

use super::view::View;
use mscclpp_plan::collective::{ChunkCounts, OutputContent, Postcondition};
use mscclpp_plan::parallel;
use mscclpp_plan::raw::{BlockTable, ChannelTable, LoopBody, Op, Operand, PlanTree, RankPlan, ThreadBlock};

/// Maximum number of instance counts that are tried, the largest first. Wrong ones mostly fail in the tables already.
const MAX_TRIES: usize = 32;

/// One of the instances of which a plan consists: a smaller plan.
pub(super) struct Instance {
    /// All of it but its operations.
    tables: PlanTree,
    /// The number of instances.
    count: u32,
}

impl Instance {
    /// Returns the first instance of the plan from which this was computed.
    pub(super) fn view<'p>(&'p self, plan: &'p PlanTree) -> View<'p> {
        View::of_instance(&self.tables, plan, self.count)
    }
}

/// Returns the instance of which a plan consists two times or more, if there is one.
pub(super) fn one_of(plan: &PlanTree) -> Option<Instance> {
    let all = plan.ranks.iter().map(common).fold(0, greatest_common_divisor);
    let size = plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops).find_map(first_range)?.size;
    let mut tries = (2..=all).rev().filter(|n| all % n == 0).take(MAX_TRIES);
    tries.find_map(|n| Instances { n, size, run: n.checked_mul(size).filter(|run| *run > 0)? }.one(plan))
}

/// Returns a number that the number of instances of a rank divides.
fn common(rank: &RankPlan) -> u32 {
    let channels = rank.channels.iter().map(|table| match table {
        ChannelTable::Memory(peers) | ChannelTable::Port(peers) => peers.len(),
        ChannelTable::Switch { .. } => 0,
    });
    let lists = [rank.blocks.len(), rank.semaphores.len(), rank.switch_channels().count()];
    let lengths = lists.into_iter().chain(channels).map(|length| u32::try_from(length).unwrap_or(1));
    let chunks = [rank.input_chunks, rank.output_chunks, rank.scratch_chunks];
    lengths.chain(chunks).fold(0, greatest_common_divisor)
}

fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn first_range(op: &Op) -> Option<&Operand> {
    let body = op.body.iter().flat_map(|body| &body.ops);
    std::iter::once(op).chain(body).find_map(|op| op.srcs.first().or(op.dsts.first()))
}

/// A possible division of a plan into instances.
struct Instances {
    n: u32,
    /// Chunks of every range.
    size: u32,
    /// Chunks of a run of ranges.
    run: u32,
}

impl Instances {
    /// Returns one instance, if the plan consists of them.
    fn one(&self, plan: &PlanTree) -> Option<Instance> {
        // Tables first: they are short.
        let mut ranks = plan.ranks.iter().map(|rank| self.tables(rank)).collect::<Option<Vec<_>>>()?;
        let mut expectations = plan.expectations.clone();
        for expectation in &mut expectations {
            let inputs = expectation.inputs.iter_mut().map(|(_, chunk)| chunk);
            for number in inputs.chain([&mut expectation.chunk, &mut expectation.len]) {
                *number = self.chunk(*number)?;
            }
        }
        self.postconditions(plan, &ranks)?;
        let halves = parallel::halves(parallel::is_large(plan), &mut ranks, |first, ranks| {
            (first..).zip(ranks).try_for_each(|(number, small)| {
                small.blocks = self.blocks(&plan.ranks[number].blocks)?;
                Some(())
            })
        });
        halves.into_iter().collect::<Option<()>>()?;
        let (name, tags, origins) = (plan.name.clone(), plan.tags.clone(), plan.origins.clone());
        Some(Instance { tables: PlanTree { name, tags, origins, ranks, expectations, ..*plan }, count: self.n })
    }

    fn tables(&self, rank: &RankPlan) -> Option<RankPlan> {
        let mut channels = Vec::with_capacity(rank.channels.len());
        for table in &rank.channels {
            match table {
                ChannelTable::Memory(peers) => channels.push(ChannelTable::Memory(self.first_of_runs(peers)?)),
                ChannelTable::Port(peers) => channels.push(ChannelTable::Port(self.first_of_runs(peers)?)),
                ChannelTable::Switch { .. } => {}
            }
        }
        let switches: Vec<_> = rank.switch_channels().collect();
        for (buffer, group) in self.first_of_runs(&switches)? {
            channels.push(ChannelTable::Switch { buffer, groups: vec![group.to_vec()] });
        }
        Some(RankPlan {
            input_chunks: self.chunk(rank.input_chunks)?,
            output_chunks: self.chunk(rank.output_chunks)?,
            scratch_chunks: self.chunk(rank.scratch_chunks)?,
            blocks: Vec::new(),
            channels,
            remote_buffers: rank.remote_buffers.clone(),
            semaphores: self.first_of_runs(&rank.semaphores)?,
        })
    }

    /// Returns the first of every run of equal elements.
    fn first_of_runs<T: Clone + PartialEq>(&self, list: &[T]) -> Option<Vec<T>> {
        let runs = list.chunks(self.n as usize);
        let is_run = |run: &[T]| run.len() == self.n as usize && run.iter().all(|one| *one == run[0]);
        runs.map(|run| is_run(run).then(|| run[0].clone())).collect()
    }

    /// Returns the number that a chunk of instance 0 has in the smaller plan, if it begins a run.
    fn chunk(&self, number: u32) -> Option<u32> {
        number.is_multiple_of(self.run).then(|| number / self.n)
    }

    /// Checks that the postconditions of the plan are those of every instance.
    fn postconditions(&self, plan: &PlanTree, ranks: &[RankPlan]) -> Option<()> {
        let extent = |ranks: &[RankPlan]| {
            let first = ranks.first()?;
            let count = u32::try_from(ranks.len()).ok()?;
            Some(ChunkCounts { num_ranks: count, input: first.input_chunks, output: first.output_chunks, distance: 1 })
        };
        let (whole, small) = (extent(&plan.ranks)?, extent(ranks)?);
        let chunk = OutputContent::chunk;
        let scaled = |whole: &Postcondition, small: &Postcondition| {
            let numbers =
                [(whole.chunk, small.chunk), (whole.len, small.len), (chunk(whole.content), chunk(small.content))];
            numbers.into_iter().all(|(whole, small)| self.chunk(whole) == Some(small))
        };
        for rank in 0..whole.num_ranks {
            let mut pairs =
                plan.collective.postconditions(whole, rank).zip(plan.collective.postconditions(small, rank));
            if !pairs.all(|(whole, small)| scaled(&whole, &small)) {
                return None;
            }
        }
        Some(())
    }

    /// Returns the blocks of one instance, without their operations.
    fn blocks(&self, blocks: &[ThreadBlock]) -> Option<Vec<ThreadBlock>> {
        // The runs are complete: their length divides the number of blocks.
        let mut small = Vec::with_capacity(blocks.len() / self.n as usize);
        for run in blocks.chunks(self.n as usize) {
            let (first, others) = run.split_first()?;
            let begins_runs = first.ops.iter().all(|op| self.begins_runs(op));
            if !begins_runs || !(1..).zip(others).all(|(k, other)| self.is_shifted(first, other, k)) {
                return None;
            }
            small.push(self.block(first)?);
        }
        Some(small)
    }

    /// Returns a block of instance 0 as it is in the smaller plan, without its operations.
    fn block(&self, block: &ThreadBlock) -> Option<ThreadBlock> {
        let number = |number: &u32| number.is_multiple_of(self.n).then(|| number / self.n);
        let channels = block.channels.iter().map(|(kind, numbers)| {
            let numbers = numbers.iter().map(number).collect::<Option<BlockTable>>()?;
            Some((*kind, numbers))
        });
        let channels = channels.collect::<Option<_>>()?;
        Some(ThreadBlock { ops: Vec::new(), channels, remote_buffers: block.remote_buffers.clone() })
    }

    /// Returns whether every number of an operation of instance 0 is the first of a run.
    fn begins_runs(&self, op: &Op) -> bool {
        let mut ranges = op.srcs.iter().chain(&op.dsts);
        ranges.all(|range| range.size == self.size && range.index.is_multiple_of(self.run))
            && (!op.kind.has_ids_of_rank() || op.ids.iter().all(|id| id.is_multiple_of(self.n)))
            // Loops do not nest in valid plans.
            && op.body.as_ref().is_none_or(|body| {
                body.ops.iter().all(|inner| inner.body.is_none() && self.begins_runs(inner))
            })
    }

    /// Returns whether a block is that of instance k where another one is that of instance 0.
    fn is_shifted(&self, first: &ThreadBlock, other: &ThreadBlock, k: u32) -> bool {
        let shifted = |(one, other): (&(_, BlockTable), &(_, BlockTable))| one.0 == other.0 && by(&one.1, &other.1, k);
        first.remote_buffers == other.remote_buffers
            && first.channels.len() == other.channels.len()
            && first.channels.iter().zip(&other.channels).all(shifted)
            && self.are_shifted(&first.ops, &other.ops, k)
    }

    fn are_shifted(&self, first: &[Op], other: &[Op], k: u32) -> bool {
        first.len() == other.len() && first.iter().zip(other).all(|(one, other)| self.is_shifted_op(one, other, k))
    }

    /// Returns whether an operation is that of instance k. In most plans, operations are equal in most of this.
    fn is_shifted_op(&self, one: &Op, other: &Op, k: u32) -> bool {
        one.kind == other.kind
            && one.channel == other.channel
            && self.ranges_are_shifted(&one.srcs, &other.srcs, k)
            && self.ranges_are_shifted(&one.dsts, &other.dsts, k)
            && by(&one.ids, &other.ids, if one.kind.has_ids_of_rank() { k } else { 0 })
            && (one.reduce, one.sync, one.num_blocks) == (other.reduce, other.sync, other.num_blocks)
            && one.slice == other.slice
            && match (&one.body, &other.body) {
                (None, None) => true,
                (Some(one), Some(other)) => self.is_shifted_body(one, other, k),
                _ => false,
            }
    }

    fn is_shifted_body(&self, one: &LoopBody, other: &LoopBody, k: u32) -> bool {
        (one.unit, one.num_chunks) == (other.unit, other.num_chunks) && self.are_shifted(&one.ops, &other.ops, k)
    }

    fn ranges_are_shifted(&self, ranges: &[Operand], other: &[Operand], k: u32) -> bool {
        let shift = u64::from(k) * u64::from(self.size);
        let mut at = 0;
        while at < ranges.len() && at < other.len() {
            let (one, other) = (&ranges[at], &other[at]);
            if one.size != other.size
                || u64::from(one.index) + shift != u64::from(other.index)
                || one.buffer != other.buffer
            {
                return false;
            }
            at += 1;
        }
        ranges.len() == other.len()
    }
}

/// Returns whether all of some numbers are larger than others by `k`.
fn by(numbers: &[u32], other: &[u32], k: u32) -> bool {
    let mut at = 0;
    while at < numbers.len() && at < other.len() {
        if u64::from(numbers[at]) + u64::from(k) != u64::from(other[at]) {
            return false;
        }
        at += 1;
    }
    numbers.len() == other.len()
}

#[cfg(test)]
mod tests;
