//! All-pairs all-reduce in the order of a ring: 2 steps, (P-1)/P of the message read and as much sent per rank, 1/P of it of scratch.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank reads and reduces its part of all ranks' inputs, in the order in which partial sums travel around a ring: from the
/// rank before it downwards, its own last. Then it puts the result into all ranks' outputs.
///
/// In place or not, two ranks or more on one node, one thread block. A rank's part is as many chunks as the chunk factor says,
/// and chunks are aligned to elements, so that with the right factor the bits are those of the ring all-reduce of gloo.
#[collective(AllReduce, ranks = [2, 4, 8], chunk_factor = 2, buffer_alignment = 1, crate = mscclpp_core)]
pub fn allreduce_ring_order(p: &Program) {
    let (ranks, factor) = (p.num_ranks(), p.chunk_factor());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(factor).chunk(0..factor)).collect();
    for rank in p.ranks() {
        let (id, sum) = (rank.id(), scratch[rank.id()]);
        let part = id * factor..(id + 1) * factor;
        let channels = rank.memory_channels((1..ranks).map(|step| (id + ranks - step) % ranks));
        let result = |of: usize| {
            if p.in_place() {
                p.rank(of).input().chunk(part.clone()).to_any()
            } else {
                p.rank(of).output().chunk(part.clone()).to_any()
            }
        };
        channels.handshake(0).relaxed();
        for (step, channel) in channels.iter().enumerate() {
            let input = channel.peer().input().chunk(part.clone());
            if step == 0 {
                channel.get(sum, input, 0);
            } else {
                channel.reduce(sum, input, 0);
            }
        }
        rank.reduce(sum, rank.input().chunk(part.clone()), 0).to(result(id));
        for channel in &channels {
            channel.put(result(channel.peer().id()), result(id), 0);
        }
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_ring_order::algorithm, include_str!("ring_order.rs"), |p, _| {
        allreduce_ring_order(p)
    })
    .any_chunk_factor();
