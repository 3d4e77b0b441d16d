//! A loop over all peers that forgets to leave out the rank itself.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 3)]
fn everybody(p: &Program) {
    for src in p.ranks() {
        for dst in p.ranks() {
            let channel = src.memory_channel(dst);
            channel.put(dst.output().chunk(src.id()), src.input().chunk(0), 0);
        }
    }
}

fn main() {}
