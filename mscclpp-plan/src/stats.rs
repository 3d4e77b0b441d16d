//! Counts what a plan contains and moves.

use std::collections::BTreeMap;

use super::{BufferRef, Op, OpKind, PlanTree, RankPlan};
use crate::types::ChannelKind;

/// Counts of one rank, or summed over several.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Thread blocks.
    pub num_blocks: u64,
    /// Operations by kind, those of pipelines' bodies once.
    pub ops: BTreeMap<OpKind, u64>,
    /// Channels by kind.
    pub num_channels: BTreeMap<ChannelKind, u64>,
    /// Buffers of other ranks.
    pub num_remote_buffers: u64,
    /// Semaphores.
    pub num_semaphores: u64,
    /// Chunks of scratch.
    pub scratch_chunks: u64,
    /// What is written to other ranks' buffers, by channel kind. A multicast store counts once.
    pub sent: BTreeMap<ChannelKind, Chunks>,
    /// What is read from other ranks' buffers, by channel kind. A multicast load counts once.
    pub fetched: BTreeMap<ChannelKind, Chunks>,
    /// What is written to the rank's own buffers.
    pub written: Chunks,
    /// Operands that are combined with another one.
    pub reduced: Chunks,
}

/// An amount of data.
///
/// In chunks of the rank's buffers: fractions come from operations that process a part of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chunks {
    /// Plain data.
    pub plain: f64,
    /// Data in packets, which take twice the bytes.
    pub packets: f64,
}

impl Chunks {
    /// Returns the moved bytes, in chunks: packets count twice.
    pub fn moved(&self) -> f64 {
        self.plain + 2.0 * self.packets
    }

    fn add(&mut self, amount: f64, packets: bool) {
        *if packets { &mut self.packets } else { &mut self.plain } += amount;
    }
}

impl Stats {
    /// Returns the counts of one rank.
    pub fn of_rank(rank: &RankPlan) -> Self {
        let mut stats = Self {
            num_blocks: rank.blocks.len() as u64,
            num_remote_buffers: rank.remote_buffers.len() as u64,
            num_semaphores: rank.semaphores.len() as u64,
            scratch_chunks: u64::from(rank.scratch_chunks),
            ..Self::default()
        };
        for kind in [ChannelKind::Memory, ChannelKind::Port] {
            stats.num_channels.insert(kind, rank.peers(kind).len() as u64);
        }
        stats.num_channels.insert(ChannelKind::Switch, rank.switch_channels().count() as u64);
        stats.num_channels.retain(|_, count| *count != 0);
        for block in &rank.blocks {
            stats.count(&block.ops);
        }
        stats
    }

    /// Returns the counts of each rank of a plan, in order.
    pub fn of_plan(plan: &PlanTree) -> Vec<Self> {
        plan.ranks.iter().map(Self::of_rank).collect()
    }

    /// Returns the sum over several ranks.
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut sum, one| {
            sum.num_blocks += one.num_blocks;
            sum.num_remote_buffers += one.num_remote_buffers;
            sum.num_semaphores += one.num_semaphores;
            sum.scratch_chunks += one.scratch_chunks;
            one.ops.iter().for_each(|(kind, count)| *sum.ops.entry(*kind).or_default() += count);
            one.num_channels.iter().for_each(|(kind, count)| *sum.num_channels.entry(*kind).or_default() += count);
            for (sum, one) in [(&mut sum.sent, &one.sent), (&mut sum.fetched, &one.fetched)] {
                one.iter().for_each(|(kind, chunks)| add(sum.entry(*kind).or_default(), chunks));
            }
            add(&mut sum.written, &one.written);
            add(&mut sum.reduced, &one.reduced);
            sum
        })
    }

    /// Returns the number of all operations.
    pub fn num_ops(&self) -> u64 {
        self.ops.values().sum()
    }

    /// Returns the number of operations that order threads, blocks or ranks.
    pub fn num_syncs(&self) -> u64 {
        let sync = |kind: &OpKind| kind.is_sync() || kind.is_block_sync();
        self.ops.iter().filter(|(kind, _)| sync(kind)).map(|(_, count)| count).sum()
    }

    /// Returns what leaves the rank over any channel, in chunks; packets count twice.
    pub fn chunks_sent(&self) -> f64 {
        self.sent.values().map(Chunks::moved).sum()
    }

    fn count(&mut self, ops: &[Op]) {
        for op in ops {
            *self.ops.entry(op.kind).or_default() += 1;
            self.data(op);
            if let Some(body) = &op.body {
                self.count(&body.ops);
            }
        }
    }

    fn data(&mut self, op: &Op) {
        let part = op.slice.map_or(1.0, |slice| 1.0 / f64::from(slice.count.max(1)));
        let kind = op.channel.unwrap_or(ChannelKind::Memory);
        for (i, at) in op.srcs.iter().enumerate() {
            let amount = f64::from(at.size) * part;
            let packets = op.kind.srcs().packets.at(i);
            if !matches!(at.buffer, BufferRef::Local(_)) {
                self.fetched.entry(kind).or_default().add(amount, packets);
            }
            // Other operands are combined into the first one of a reduction; a switch combines its members itself.
            if op.kind.is_reduce() && (i > 0 || matches!(at.buffer, BufferRef::Switch(_))) {
                self.reduced.add(amount, packets);
            }
        }
        for (i, at) in op.dsts.iter().enumerate() {
            let amount = f64::from(at.size) * part;
            let packets = op.kind.dsts().packets.at(i);
            match at.buffer {
                BufferRef::Local(_) => self.written.add(amount, packets),
                _ => self.sent.entry(kind).or_default().add(amount, packets),
            }
        }
    }
}

fn add(sum: &mut Chunks, one: &Chunks) {
    sum.plain += one.plain;
    sum.packets += one.packets;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{ReadOptions, read};

    #[test]
    fn a_plan_is_counted() {
        let (tree, _) = read(include_str!("pair.json"), ReadOptions::default()).unwrap();
        let all = Stats::of_plan(&tree);
        let stats = &all[0];
        assert_eq!((stats.num_blocks, stats.num_ops(), stats.num_syncs()), (2, 9, 5));
        assert_eq!((stats.num_remote_buffers, stats.num_semaphores, stats.scratch_chunks), (2, 1, 1));
        assert_eq!(stats.num_channels, BTreeMap::from([(ChannelKind::Memory, 1), (ChannelKind::Switch, 1)]));
        let plain = |plain| Chunks { plain, packets: 0.0 };
        // A put of one chunk and half a chunk of the `res`; the `glres` covers two chunks.
        assert_eq!(stats.sent, BTreeMap::from([(ChannelKind::Memory, plain(1.5)), (ChannelKind::Switch, plain(2.0))]));
        assert_eq!(stats.fetched, BTreeMap::from([(ChannelKind::Switch, plain(2.0))]));
        assert_eq!((stats.written, stats.reduced), (plain(0.5), plain(2.5)));
        assert_eq!(stats.chunks_sent(), 3.5);
        let twice = Stats::sum([stats, stats]);
        assert_eq!((twice.num_ops(), twice.chunks_sent(), twice.num_channels[&ChannelKind::Memory]), (18, 7.0, 2));
    }
}
