//! Switch all-gather with packets: 1 multicast step, 2/P of the output sent per rank, P chunks of scratch. Needs multicast
//! hardware.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BufferKind;
use mscclpp_macros::collective;

use crate::builtin::BuiltinAlgorithm;

/// Every rank packs its chunk, multicasts the packets and unpacks those of all ranks; the packets' flags are the only
/// synchronization.
///
/// In place or not, any number of ranks in one switch domain, one thread block. For small messages.
#[collective(AllGather, ranks = [2, 4, 8], in_place, protocol = LL, double_scratch, crate = mscclpp_core)]
pub fn allgather_switch_packets(p: &Program) {
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(p.num_ranks())).collect();
    let switch = p.switch_channel(p.ranks(), BufferKind::Scratch);
    for rank in p.ranks() {
        let packets = scratch[rank.id()];
        let mine = packets.chunk(rank.id());
        let own = rank.output().chunk(rank.id());
        let input = if p.in_place() { own.to_any() } else { rank.input().chunk(0).to_any() };
        rank.copy_packets(mine, input, 0);
        switch.at(rank).broadcast_packets(rank.id(), mine, 0);
        if !p.in_place() {
            rank.copy(own, input, 0);
        }
        for step in 1..p.num_ranks() {
            let peer = (rank.id() + step) % p.num_ranks();
            rank.unpack_packets(rank.output().chunk(peer), packets.chunk(peer), 0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_switch_packets::algorithm, include_str!("switch_packets.rs"), |p, _| {
        allgather_switch_packets(p)
    })
    .multicast();
