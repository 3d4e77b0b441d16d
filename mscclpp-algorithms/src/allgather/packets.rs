//! All-pairs all-gather with packets: 1 step, 2(P-1)/P of the output sent per rank, P chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank puts its chunk as packets into every other rank's scratch and unpacks the packets that it receives.
///
/// In place or not, any number of ranks, one thread block. Without handshakes, so it needs double scratch. For small
/// messages.
#[collective(AllGather, ranks = [2, 4, 8], in_place, protocol = LL, double_scratch, crate = mscclpp_core)]
pub fn allgather_packets(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(ranks)).collect();
    for rank in p.ranks() {
        let own = rank.output().chunk(rank.id());
        let mine = if p.in_place() { own.to_any() } else { rank.input().chunk(0).to_any() };
        for step in 1..ranks {
            let peer = p.rank((rank.id() + step) % ranks);
            let channel = rank.memory_channel(peer);
            channel.put_packets(scratch[peer.id()].chunk(rank.id()), mine, 0);
        }
        if !p.in_place() {
            rank.copy(own, mine, 0);
        }
        for step in 1..ranks {
            let peer = (rank.id() + step) % ranks;
            rank.unpack_packets(rank.output().chunk(peer), scratch[rank.id()].chunk(peer), 0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_packets::algorithm, include_str!("packets.rs"), |p, _| allgather_packets(p));
