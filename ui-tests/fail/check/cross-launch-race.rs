//! Packets in a single scratch, and nothing that says when they have been read.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2, protocol = LL)]
fn single(p: &Program) {
    let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
    for rank in p.ranks() {
        let (id, peer) = (rank.id(), 1 - rank.id());
        let (input, output) = (rank.input().chunk(..), rank.output().chunk(..));
        rank.memory_channel(peer).put_packets(slots[peer].chunk(..), input, 0);
        rank.reduce_packets(input, slots[id].chunk(..), 0).to(output);
    }
}

fn main() {}
