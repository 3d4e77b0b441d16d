//! All-to-all with packets: 1 step, 2(P-1)/P of the message sent per rank, P-1 chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts each part as packets into its receiver's scratch; the receiver unpacks it into its position in the
/// output.
///
/// In place or not, any number of ranks, one thread block per peer. Without handshakes, so it needs double scratch. For
/// small messages.
#[collective(AllToAll, ranks = [2, 4, 8], in_place, instances = 2, protocol = LL, double_scratch, crate = mscclpp_core)]
pub fn alltoall_packets(p: &Program) {
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(p.num_ranks() - 1)).collect();
    // Index of `other` among the ranks other than `id`.
    let position = |other: usize, id: usize| if other < id { other } else { other - 1 };
    for rank in p.ranks() {
        if !p.in_place() {
            rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(rank.id()), 0);
        }
        for peer in p.ranks().filter(|peer| peer.id() != rank.id()) {
            let block = position(peer.id(), rank.id());
            let channel = rank.memory_channel(peer);
            let slot = scratch[peer.id()].chunk(position(rank.id(), peer.id()));
            channel.put_packets(slot, rank.input().chunk(peer.id()), block);
            let result = if p.in_place() {
                rank.input().chunk(peer.id()).to_any()
            } else {
                rank.output().chunk(peer.id()).to_any()
            };
            rank.unpack_packets(result, scratch[rank.id()].chunk(block), block);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(alltoall_packets::algorithm, include_str!("packets.rs"), |p, _| alltoall_packets(p))
        .blocks_per_peer(1);
