//! A custom collective that does not state what its outputs hold. This is a warning, made an error here.
#![deny(deprecated)]

use mscclpp::prelude::*;

#[collective(Custom(input = 1, output = 1), ranks = 2)]
fn swap(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.handshake(0).relaxed();
        channel.put(peer.output().chunk(0), rank.input().chunk(0), 0);
        channel.handshake(0);
    }
}

#[collective(Custom(input = 2, output = 2), ranks = 2)]
fn half(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(1), rank.input().chunk(1), 0);
        p.expect(rank.output().chunk(1), rank.input().chunk(1));
    }
}

#[collective(Custom(input = 2, output = 2), ranks = 2, allow(no_postcondition))]
fn open(p: &Program) {
    for rank in p.ranks() {
        rank.copy(rank.output().chunk(1), rank.input().chunk(1), 0);
    }
}

fn main() {}
