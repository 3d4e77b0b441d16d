//! All-pairs reduce-scatter with packets: 1 step, 2(P-1)/P of the input sent per rank, P-1 chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank sends each peer the peer's part as packets and reduces the parts that it receives with its own.
///
/// In place or not, two ranks or more, one thread block. Without handshakes, so it needs double scratch. For small
/// messages.
#[collective(ReduceScatter, ranks = [2, 4, 8], protocol = LL, double_scratch, crate = mscclpp_core)]
pub fn reducescatter_packets(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks - 1)).collect();
    // Index of `other` among the ranks other than `id`.
    let position = |other: usize, id: usize| if other < id { other } else { other - 1 };
    for rank in p.ranks() {
        let (id, input) = (rank.id(), rank.input());
        for step in 1..ranks {
            let peer = p.rank((id + step) % ranks);
            let slot = scratch[peer.id()].chunk(position(id, peer.id()));
            rank.memory_channel(peer).put_packets(slot, input.chunk(peer.id()), 0);
        }
        let arrived: Vec<_> = (0..ranks - 1).map(|slot| scratch[id].chunk(slot)).collect();
        let result = if p.in_place() { input.chunk(id).to_any() } else { rank.output().chunk(0).to_any() };
        rank.reduce_packets(input.chunk(id), arrived, 0).to(result);
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_packets::algorithm, include_str!("packets.rs"), |p, _| {
        reducescatter_packets(p)
    });
