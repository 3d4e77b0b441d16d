//! Packets over a switch channel of inputs.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, protocol = LL)]
fn packets(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    for rank in p.ranks() {
        let scratch = rank.scratch(2);
        rank.copy_packets(scratch.chunk(0), rank.input().chunk(0), 0);
        switch.at(rank).broadcast_packets(0, scratch.chunk(0), 0);
    }
}

fn main() {}
