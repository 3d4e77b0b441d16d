//! The ranks exchange chunk 0 through chunk 1 of each other's output, which is empty where a message has one element.
use mscclpp::prelude::*;

#[collective(Custom(input = 2, output = 2), ranks = 2)]
fn staged(p: &Program) {
    for rank in p.ranks() {
        let channel = rank.memory_channel((rank.id() + 1) % 2);
        let peer = channel.peer();
        p.expect(peer.output().chunk(0), rank.input().chunk(0));
        p.expect(peer.output().chunk(1), rank.input().chunk(1));
        channel.handshake(0).relaxed();
        channel.put(peer.output().chunk(1), rank.input().chunk(0), 0);
        channel.handshake(0);
        rank.copy(rank.output().chunk(0), rank.output().chunk(1), 0);
        channel.handshake(0);
        channel.put(peer.output().chunk(1), rank.input().chunk(1), 0);
        channel.handshake(0);
    }
}

#[collective(Custom(input = 2, output = 2), ranks = 2, dividing)]
fn accepted(p: &Program) {
    for rank in p.ranks() {
        let channel = rank.memory_channel((rank.id() + 1) % 2);
        let peer = channel.peer();
        p.expect(peer.output().chunk(0), rank.input().chunk(0));
        p.expect(peer.output().chunk(1), rank.input().chunk(1));
        channel.handshake(0).relaxed();
        channel.put(peer.output().chunk(1), rank.input().chunk(0), 0);
        channel.handshake(0);
        rank.copy(rank.output().chunk(0), rank.output().chunk(1), 0);
        channel.handshake(0);
        channel.put(peer.output().chunk(1), rank.input().chunk(1), 0);
        channel.handshake(0);
    }
}

fn main() {}
