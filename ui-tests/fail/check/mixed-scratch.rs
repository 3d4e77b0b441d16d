//! Plain data behind packets, which are twice as long as they look.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, protocol = LL)]
fn too_close(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let (slot, own) = (rank.scratch(1), rank.scratch(1));
        rank.copy(own.chunk(0), rank.input().chunk(0), 0);
        rank.copy(rank.output().chunk(rank.id()), own.chunk(0), 0);
        peer.memory_channel(rank).put_packets(slot.chunk(0), peer.input().chunk(0), 0);
        rank.unpack_packets(rank.output().chunk(peer.id()), slot.chunk(0), 0);
    }
}

fn main() {}
