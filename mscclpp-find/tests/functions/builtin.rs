//! Found for five.
//!
//! All-pairs all-reduce with packets: 2 steps, 4(P-1)/P of the message sent per rank, 2P chunks of scratch.

use mscclpp::collective;
use mscclpp::dsl::Program;

/// Every rank sends each peer the peer's part as packets, reduces the parts that it receives and sends the result to
/// all ranks.
///
/// In place or not, any number of ranks, one thread block. The result packets acknowledge the input packets, so single
/// scratch is enough. For small messages.
#[collective(AllReduce, ranks = 5, in_place, protocol = LL)]
pub fn allreduce_packets(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2 * ranks)).collect();
    for rank in p.ranks() {
        let packets = scratch[rank.id()];
        let peers: Vec<_> = p.ranks().filter(|peer| peer.id() != rank.id()).collect();
        let channels: Vec<_> = peers.iter().map(|&peer| rank.memory_channel(peer)).collect();
        for (channel, peer) in channels.iter().zip(&peers) {
            channel.put_packets(scratch[peer.id()].chunk(rank.id()), rank.input().chunk(peer.id()), 0);
        }
        let result = |index: usize| {
            if p.in_place() { rank.input().chunk(index).to_any() } else { rank.output().chunk(index).to_any() }
        };
        let mine = result(rank.id());
        let parts: Vec<_> = peers.iter().map(|peer| packets.chunk(peer.id())).collect();
        rank.reduce_packets(rank.input().chunk(rank.id()), parts, 0).to(mine);
        // Results go to the upper half of scratch.
        for (channel, peer) in channels.iter().zip(&peers) {
            channel.put_packets(scratch[peer.id()].chunk(ranks + rank.id()), mine, 0);
        }
        for peer in &peers {
            rank.unpack_packets(result(peer.id()), packets.chunk(ranks + peer.id()), 0);
        }
    }
}
