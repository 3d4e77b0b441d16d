//! A ring that makes one step too many: the last one sends every rank its own chunk. This is a warning, made an error here.
#![deny(deprecated)]

use mscclpp::prelude::*;

#[collective(AllGather, ranks = 3, in_place)]
fn ring(p: &Program) {
    let n = p.num_ranks();
    for rank in p.ranks() {
        let next = rank.memory_channel((rank.id() + 1) % n);
        let previous = rank.memory_channel((rank.id() + n - 1) % n);
        previous.signal(0).relaxed();
        next.wait(0).relaxed().sync(BlockSync::After);
        for step in 0..n {
            let chunk = (rank.id() + n - step) % n;
            next.put(next.peer().output().chunk(chunk), rank.output().chunk(chunk), 0);
            next.signal(0);
            previous.wait(0);
        }
    }
}

fn main() {}
