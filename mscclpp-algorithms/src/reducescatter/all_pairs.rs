//! All-pairs reduce-scatter: 1 step, (P-1)/P of the input read per rank, no scratch.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank reads its chunk of all ranks' inputs and reduces it, starting with its neighbor, so that the ranks read
/// different peers at a time.
///
/// In place or not, two ranks or more, one thread block. For large messages, with many instances.
#[collective(ReduceScatter, ranks = [2, 4, 8], crate = mscclpp_core)]
pub fn reducescatter_all_pairs(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        let peers: Vec<_> = (1..ranks).map(|step| p.rank((id + step) % ranks)).collect();
        let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        let result = if p.in_place() { rank.input().chunk(id).to_any() } else { rank.output().chunk(0).to_any() };
        // Out of place, the first chunk that is read is reduced with the rank's own input into the output.
        let mut sum = rank.input().chunk(id).to_any();
        for (channel, peer) in channels.iter().zip(&peers) {
            channel.reduce(sum, peer.input().chunk(id), 0).to(result);
            sum = result;
        }
        // The peers' inputs have been read and may be overwritten.
        for channel in &channels {
            channel.signal(0).sync(BlockSync::Before);
        }
        for channel in &channels {
            channel.wait(0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_all_pairs::algorithm, include_str!("all_pairs.rs"), |p, _| {
        reducescatter_all_pairs(p)
    });
