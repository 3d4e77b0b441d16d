//! Signals and waits have their block syncs removed: a race, and a put that may be in progress when the launch ends.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn through_scratch(p: &Program) {
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(1)).collect();
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.put(scratch[peer.id()].chunk(0), rank.input().chunk(0), 0);
        channel.signal(0).sync(BlockSync::None);
        channel.wait(0);
        rank.copy(rank.output().chunk(peer.id()), scratch[rank.id()].chunk(0), 0);
        rank.copy(rank.output().chunk(rank.id()), rank.input().chunk(0), 0);
    }
}

#[collective(AllGather, ranks = 2, in_place)]
fn direct(p: &Program) {
    for rank in p.ranks() {
        let channel = rank.memory_channel(1 - rank.id());
        channel.handshake(0).relaxed();
        channel.put(channel.peer().output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
        channel.signal(0).sync(BlockSync::None);
        channel.wait(0);
    }
}

fn main() {}
