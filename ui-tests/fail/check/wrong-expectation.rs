//! Every rank is to get the right edge of its left neighbour, and gets the left edge.
use mscclpp::prelude::*;

#[collective(Custom(input = 4, output = 1), ranks = 3)]
fn halo(p: &Program) {
    for rank in p.ranks() {
        let right = p.rank((rank.id() + 1) % 3);
        let send = rank.memory_channel(right);
        let receive = rank.memory_channel((rank.id() + 2) % 3);
        p.expect(right.output().chunk(0), rank.input().chunk(3));
        receive.signal(0).relaxed();
        send.wait(0).relaxed().sync(BlockSync::After);
        send.put(right.output().chunk(0), rank.input().chunk(0), 0);
        send.signal(0).sync(BlockSync::Before);
        receive.wait(0).sync(BlockSync::After);
    }
}

fn main() {}
