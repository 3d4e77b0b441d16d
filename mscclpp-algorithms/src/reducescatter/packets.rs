//! All-pairs reduce-scatter with packets: 1 step, 2(P-1)/P of the input sent per rank, P chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank sends each peer the peer's part as packets and reduces the parts that it receives with its own.
///
/// In place or not, two ranks or more, one thread block. Without handshakes, so it needs double scratch. Every element is
/// reduced in the order of ranks: a rank packs its own part as well, and unpacks that of the last rank, because the plain
/// operand of a reduction follows its packets. For small messages.
#[collective(ReduceScatter, ranks = [2, 4, 8], protocol = LL, double_scratch, crate = mscclpp_core)]
pub fn reducescatter_packets(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let (id, input) = (rank.id(), rank.input());
        for step in 1..ranks {
            let peer = p.rank((id + step) % ranks);
            rank.memory_channel(peer).put_packets(scratch[peer.id()].chunk(id), input.chunk(peer.id()), 0);
        }
        let before: Vec<_> = (0..ranks - 1).map(|of| scratch[id].chunk(of)).collect();
        let result = if p.in_place() { input.chunk(id).to_any() } else { rank.output().chunk(0).to_any() };
        if id == ranks - 1 {
            rank.reduce_packets(input.chunk(id), before, 0).to(result);
        } else {
            rank.copy_packets(scratch[id].chunk(id), input.chunk(id), 0);
            rank.unpack_packets(result, scratch[id].chunk(ranks - 1), 0);
            rank.reduce_packets(result, before, 0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(reducescatter_packets::algorithm, include_str!("packets.rs"), |p, _| {
        reducescatter_packets(p)
    })
    .in_rank_order();
