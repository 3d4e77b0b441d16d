//! Packets that nobody writes.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, protocol = LL)]
fn nobody_writes(p: &Program) {
    for rank in p.ranks() {
        let scratch = rank.scratch(1);
        rank.unpack_packets(rank.output().chunk(0), scratch.chunk(0), 0);
    }
}

fn main() {}
