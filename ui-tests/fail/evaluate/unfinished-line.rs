//! An unfinished line, as in an editor.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, in_place)]
fn unfinished(p: &Program) {
    for rank in p.ranks() {
        let channel = rank.memory_channel(1 - rank.id());
        channel.
    }
}

fn main() {}
