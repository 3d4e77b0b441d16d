//! Switch all-gather with packets: 1 multicast step, 2/P of the output sent per rank, P chunks of scratch. Needs multicast
//! hardware.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BufferKind;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank packs its chunk, multicasts the packets and unpacks those of all ranks; the packets' flags are the only
/// synchronization.
///
/// In place, any number of ranks in one switch domain, one thread block per rank. For small messages.
#[collective(
    AllGather, ranks = [2, 4, 8], in_place, protocol = LL, threads_per_block = 256, auto_sync = false, double_scratch,
    message_size = 1 << 10..=1 << 20, crate = mscclpp_core
)]
pub fn allgather_switch_packets(p: &Program) {
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(p.num_ranks())).collect();
    let switch = p.switch_channel(p.ranks(), BufferKind::Scratch);
    for rank in p.ranks() {
        let packets = scratch[rank.id()];
        let mine = packets.chunk(rank.id());
        rank.copy_packets(mine, rank.output().chunk(rank.id()), 0);
        switch.at(rank).broadcast_packets(rank.id(), mine, 0);
        for peer in p.ranks() {
            rank.unpack_packets(rank.output().chunk(peer.id()), packets.chunk(peer.id()), peer.id());
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_switch_packets::algorithm, include_str!("switch_packets.rs"), |p, _| {
        allgather_switch_packets(p)
    })
    .with_buffer_mode(BufferMode::InPlace)
    .multicast();
