//! All-pairs reduce-scatter: 1 step, (P-1)/P of the input read per rank, no scratch.

use mscclpp_core::dsl::{Channels, Program};
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
        let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
        channels.handshake(0).relaxed();
        let result = if p.in_place() { rank.input().chunk(id).to_any() } else { rank.output().chunk(0).to_any() };
        // Out of place, the first chunk that is read is reduced with the rank's own input into the output.
        let mut sum = rank.input().chunk(id).to_any();
        for channel in &channels {
            channel.reduce(sum, channel.peer().input().chunk(id), 0).to(result);
            sum = result;
        }
        // The peers' inputs have been read and may be overwritten.
        channels.handshake(0);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_all_pairs::algorithm, include_str!("all_pairs.rs"), |p, _| {
        reducescatter_all_pairs(p)
    });
