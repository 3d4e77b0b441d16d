//! A block twice in a group, a rank twice on a switch.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn twice(p: &Program) {
    let group = p.thread_block_group([0, 1, 1]);
    let switch = p.switch_channel([0, 0], BufferKind::Input);
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(0), rank.input().chunk(0), &group);
        switch.at(0).reduce(p.rank(0).output().chunk(0), 0, 0);
    }
}

fn main() {}
