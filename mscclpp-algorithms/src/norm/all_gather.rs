//! A norm of the rank's rows, and a staged all-gather: 1 step per MiB, (P-1)/P of the output sent per rank, P chunks of scratch
//! per thread block.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank normalizes its rows into its part of the output, puts them into every other rank's scratch, and copies those of
/// the others to its output.
///
/// In place or not, two ranks or more. The chunk factor is the number of thread blocks. The operands of the norm have a row
/// for every row of the rank's part, as in sequence parallelism. Other ranks access scratch only, so that outputs need
/// no copies.
#[collective(AllGather, ranks = [2, 4, 8], in_place, chunk_factor = 8, rows, crate = mscclpp_core)]
pub fn allgather_norm(p: &Program) {
    let (ranks, blocks) = (p.num_ranks(), p.chunk_factor());
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks * blocks)).collect();
    for rank in p.ranks() {
        for block in 0..blocks {
            let id = rank.id();
            let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
            // A chunk of each part of the output, and the slot of each rank's rows.
            let chunk = |part: usize| part * blocks + block;
            let slot = |from: usize| block * ranks + from;
            let own = rank.output().chunk(chunk(id));
            let mine = if p.in_place() { own.to_any() } else { rank.input().chunk(block).to_any() };
            p.pipeline(1 << 20, 1, || {
                rank.row_norm(own, mine, block);
                // The slots of the previous iteration have been copied.
                channels.handshake(block).relaxed();
                for channel in &channels {
                    channel.put(scratch[channel.peer().id()].chunk(slot(id)), own, block);
                }
                channels.handshake(block);
                for channel in &channels {
                    let peer = channel.peer().id();
                    rank.copy(rank.output().chunk(chunk(peer)), scratch[id].chunk(slot(peer)), block);
                }
            });
        }
    }
}

/// Entry in the list of algorithms.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_norm::algorithm, include_str!("all_gather.rs"), |p, _| allgather_norm(p))
        .any_chunk_factor();
