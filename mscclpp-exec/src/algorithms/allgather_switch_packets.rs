//! Switch all-gather with packets: 1 multicast step, 2/P of the output sent per rank, P chunks of scratch. Needs multicast
//! hardware.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::vocab::{BufferKind, Protocol};

use super::registry::{Algorithm, Placement};

/// Every rank packs its chunk, multicasts the packets and unpacks everybody's; the packets' flags are all the
/// synchronisation there is.
///
/// In place, any number of ranks in one switch domain, one thread block per rank. For small messages.
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

/// What the registry knows of it.
pub(super) const ENTRY: Algorithm = Algorithm::new(
    "allgather_switch_packets",
    include_str!("allgather_switch_packets.rs"),
    CollectiveKind::AllGather,
    |p, _| allgather_switch_packets(p),
)
.placed(Placement::InPlace)
.defaults(|spec| {
    spec.protocol = Protocol::LL;
    spec.double_scratch = true;
    spec.auto_sync = false;
    spec.threads_per_block = 256;
    (spec.min_message_size, spec.max_message_size) = (1 << 10, 1 << 20);
});
