//! A plan whose sizes are counts, as a plan of fixed sizes for one table of counts: every element is a chunk. Its checks and
//! runs are those of the plan with this table, by other reasoning than that of the rule `counted`.

use std::collections::BTreeMap;
use std::ops::Range;

use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::plan::raw::{
    BlockTable, BufferRef, ChannelTable, Count, Expectation, Op, OpKind, Operand, PlanTree, ThreadBlock,
};
use mscclpp_core::types::{BufferKind, ChannelKind};

/// Returns a plan that does for messages of single elements what a plan with counts does for a table: `counts[s][r]` elements are what
/// rank `s` has for rank `r`, each at most `max`. The exchange of counts is a relaxed signal to all ranks and a relaxed
/// wait for all. `None` for a plan with pipelines, or with numbers out of range.
pub fn at_counts(plan: &PlanTree, counts: &[Vec<u32>], max: u32) -> Option<PlanTree> {
    let table = Table { plan, counts, max, packed: plan.collective.kind == CollectiveKind::AllToAllV };
    let mut fixed = plan.clone();
    let chunks = plan.ranks.first().map_or((0, 0), |rank| (rank.input_chunks, rank.output_chunks));
    let kind = CollectiveKind::Custom { input: chunks.0.checked_mul(max)?, output: chunks.1.checked_mul(max)? };
    fixed.collective = Collective { dividing: true, ..Collective::new(kind) };
    fixed.expectations = table.expectations()?;
    let ranks = plan.ranks.len() as u32;
    for (rank, tables) in (0..).zip(&mut fixed.ranks) {
        for chunks in [&mut tables.input_chunks, &mut tables.output_chunks, &mut tables.scratch_chunks] {
            *chunks = chunks.checked_mul(max)?;
        }
        // Channels to all ranks, by ports to those of other nodes, come first, so the numbers of all others grow.
        let mut added = [0, 0];
        for ((kind, new), added) in KINDS.into_iter().zip(&mut added) {
            let peers: Vec<u32> =
                (0..ranks).filter(|peer| *peer != rank && exchange_kind(plan, rank, *peer) == kind).collect();
            *added = peers.len() as u32;
            if peers.is_empty() {
                continue;
            }
            let known = tables.channels.iter_mut().find_map(|table| match (table, kind) {
                (ChannelTable::Memory(known), ChannelKind::Memory) | (ChannelTable::Port(known), ChannelKind::Port) => {
                    Some(known)
                }
                _ => None,
            });
            match known {
                Some(known) => *known = [peers, std::mem::take(known)].concat(),
                None => tables.channels.push(new(peers)),
            }
        }
        for (block, original) in tables.blocks.iter_mut().zip(&plan.ranks[rank as usize].blocks) {
            let mut exchange = Vec::new();
            for ((kind, _), added) in KINDS.into_iter().zip(added).filter(|(_, added)| *added > 0) {
                if !block.channels.iter().any(|(known, _)| *known == kind) {
                    block.channels.push((kind, BlockTable::new()));
                }
                let numbers = &mut block.channels.iter_mut().find(|(known, _)| *known == kind)?.1;
                for number in numbers.iter_mut() {
                    *number = number.checked_add(added)?;
                }
                let first = numbers.len() as u32;
                numbers.extend(0..added);
                exchange.push((kind, first..first + added));
            }
            block.ops = Vec::new();
            for op in &original.ops {
                block.ops.extend(table.op(rank, original, op, &exchange)?);
            }
        }
    }
    Some(fixed)
}

/// Makes a table of channels to peers.
type NewTable = fn(Vec<u32>) -> ChannelTable;

/// The kinds of channels of an exchange, and their tables.
const KINDS: [(ChannelKind, NewTable); 2] =
    [(ChannelKind::Memory, ChannelTable::Memory), (ChannelKind::Port, ChannelTable::Port)];

/// Returns the kind of channel of the exchange between two ranks.
fn exchange_kind(plan: &PlanTree, one: u32, other: u32) -> ChannelKind {
    let node = |rank: u32| rank.checked_div(plan.ranks_per_node).unwrap_or(0);
    if node(one) == node(other) { ChannelKind::Memory } else { ChannelKind::Port }
}

/// Maximum number of chunks of an expectation: each becomes an expectation of its own.
const MAX_CHUNKS: u32 = 1 << 12;

/// A plan and its counts.
struct Table<'p> {
    plan: &'p PlanTree,
    counts: &'p [Vec<u32>],
    max: u32,
    /// Whether the chunks of inputs and outputs are packed.
    packed: bool,
}

impl Table<'_> {
    fn count(&self, count: Count) -> Option<u32> {
        self.counts.get(count.sender as usize)?.get(count.receiver as usize).copied()
    }

    /// Returns the first element of a chunk of a rank.
    fn first(&self, rank: u32, buffer: BufferKind, chunk: u32) -> Option<u32> {
        let before = |sender, receiver| self.count(Count { sender, receiver });
        match buffer {
            BufferKind::Input if self.packed => (0..chunk).map(|to| before(rank, to)).sum(),
            BufferKind::Output if self.packed => (0..chunk).map(|from| before(from, rank)).sum(),
            _ => chunk.checked_mul(self.max),
        }
    }

    /// `exchange`: the thread block's channels to all ranks.
    fn op(&self, rank: u32, block: &ThreadBlock, op: &Op, exchange: &[(ChannelKind, Range<u32>)]) -> Option<Vec<Op>> {
        if op.body.is_some() {
            return None;
        }
        if op.kind == OpKind::ExchangeCounts {
            let relaxed = |relaxed: OpKind| {
                let over = move |(kind, ids): &(ChannelKind, Range<u32>)| Op {
                    channel: Some(*kind),
                    ids: ids.clone().collect(),
                    ..Op::new(relaxed, op.origin)
                };
                exchange.iter().map(over)
            };
            let signals = relaxed(OpKind::RelaxedSignal).chain(relaxed(OpKind::RelaxedWait));
            return Some(signals.chain([Op::new(OpKind::Nop, op.origin)]).collect());
        }
        let mut fixed = op.clone();
        let Some(count) = op.count else {
            for operand in fixed.srcs.iter_mut().chain(&mut fixed.dsts) {
                (operand.index, operand.size) =
                    (operand.index.checked_mul(self.max)?, operand.size.checked_mul(self.max)?);
            }
            return Some(vec![fixed]);
        };
        let size = self.count(count)?;
        fixed.count = None;
        let mut peer = None;
        for operand in fixed.srcs.iter_mut().chain(&mut fixed.dsts) {
            let (owner, buffer) = match operand.buffer {
                BufferRef::Local(buffer) => (rank, buffer),
                BufferRef::Remote(index) => {
                    let number = *block.remote_buffers(op.channel?).get(index as usize)?;
                    let remote = self.plan.ranks[rank as usize].remote_buffers.get(number as usize)?;
                    peer = Some(remote.rank);
                    (remote.rank, remote.buffer)
                }
                BufferRef::Switch(_) => return None,
            };
            let index = self.first(owner, buffer, operand.index)?;
            *operand = Operand { index, size, ..*operand };
        }
        fixed.kind = match op.kind {
            OpKind::PutCounted => OpKind::Put,
            OpKind::GetCounted => OpKind::Get,
            _ => OpKind::Copy,
        };
        if fixed.kind == OpKind::Get {
            // The channel to that rank among those to all.
            let peer = peer.filter(|peer| exchange_kind(self.plan, rank, *peer) == ChannelKind::Memory)?;
            let before = (0..peer)
                .filter(|other| *other != rank && exchange_kind(self.plan, rank, *other) == ChannelKind::Memory);
            let (_, ids) = exchange.iter().find(|(kind, _)| *kind == ChannelKind::Memory)?;
            fixed.ids.push(ids.start.checked_add(before.count() as u32)?);
        }
        Some(if size == 0 { Vec::new() } else { vec![fixed] })
    }

    /// Returns what the outputs must hold.
    fn expectations(&self) -> Option<Vec<Expectation>> {
        let ranks = self.plan.ranks.len() as u32;
        let mut list = Vec::new();
        if self.packed {
            for (sender, receiver) in (0..ranks).flat_map(|sender| (0..ranks).map(move |receiver| (sender, receiver))) {
                list.push(Expectation {
                    rank: receiver,
                    chunk: self.first(receiver, BufferKind::Output, sender)?,
                    len: self.count(Count { sender, receiver })?,
                    inputs: vec![(sender, self.first(sender, BufferKind::Input, receiver)?)],
                    origin: Default::default(),
                });
            }
        } else {
            let counts = self.output_counts();
            for expectation in &self.plan.expectations {
                if expectation.len > MAX_CHUNKS {
                    return None;
                }
                for chunk in 0..expectation.len {
                    let at = expectation.chunk.checked_add(chunk)?;
                    let len = counts.get(&(expectation.rank, at)).map_or(Some(self.max), |count| self.count(*count))?;
                    let input =
                        |&(rank, first): &(u32, u32)| Some((rank, first.checked_add(chunk)?.checked_mul(self.max)?));
                    list.push(Expectation {
                        chunk: at.checked_mul(self.max)?,
                        len,
                        inputs: expectation.inputs.iter().map(input).collect::<Option<_>>()?,
                        ..*expectation
                    });
                }
            }
        }
        list.retain(|expectation| expectation.len > 0);
        Some(list)
    }

    /// Returns the counts of chunks of outputs that counted operations of their ranks write.
    fn output_counts(&self) -> BTreeMap<(u32, u32), Count> {
        let mut counts = BTreeMap::new();
        for (rank, tables) in (0..).zip(&self.plan.ranks) {
            for op in tables.blocks.iter().flat_map(|block| &block.ops) {
                let own = op.dsts.iter().filter(|dst| dst.buffer == BufferRef::Local(BufferKind::Output));
                counts.extend(own.zip(op.count).map(|(dst, count)| ((rank, dst.index), count)));
            }
        }
        counts
    }
}
