//! All-pairs all-gather that packs once: 1 step, 2(P-1)/P of the output sent per rank, 2P chunks of scratch.

use mscclpp_core::dsl::Program;
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm};

/// Every rank packs its chunk into its own scratch, then forwards the packets to every other rank: the data is read and
/// packed once instead of once per peer.
///
/// In place, any number of ranks, one thread block. Without handshakes, so it needs double scratch. For small messages.
#[collective(AllGather, ranks = [2, 4, 8], in_place, protocol = LL, double_scratch, crate = mscclpp_core)]
pub fn allgather_packed_once(p: &Program) {
    let ranks = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(2 * ranks)).collect();
    for rank in p.ranks() {
        // The upper half of scratch is for sending, the lower half for receiving.
        let packed = scratch[rank.id()].chunk(ranks + rank.id());
        rank.copy_packets(packed, rank.input().chunk(0), 0);
        for step in 1..ranks {
            let peer = p.rank((rank.id() + step) % ranks);
            let channel = rank.memory_channel(peer);
            channel.read_put_packets(scratch[peer.id()].chunk(rank.id()), packed, 0);
        }
        for step in 1..ranks {
            let peer = (rank.id() + step) % ranks;
            rank.unpack_packets(rank.output().chunk(peer), scratch[rank.id()].chunk(peer), 0);
        }
    }
}

/// Entry in the registry.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allgather_packed_once::algorithm, include_str!("packed_once.rs"), |p, _| {
        allgather_packed_once(p)
    })
    .with_buffer_mode(BufferMode::InPlace);
