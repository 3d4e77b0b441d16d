//! The program is an all-gather, and the attribute names an all-reduce.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 3, in_place)]
fn all_pairs(p: &Program) {
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        let chunk = rank.output().chunk(rank.id());
        channels.handshake(0).relaxed();
        for channel in &channels {
            channel.put(channel.peer().output().chunk(rank.id()), chunk, 0);
        }
        channels.handshake(0);
    }
}

fn main() {}
