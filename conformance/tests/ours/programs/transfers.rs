//! Fragments in which two ranks synchronize, transfer data and synchronize again.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;

pub(crate) fn put(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.put(peer.input().chunk(1), rank.input().chunk(0), 0);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn put_twice(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.put(peer.input().chunk(1), rank.input().chunk(0), 0);
        let second = rank.memory_channel(peer);
        second.put(peer.input().chunk(0), rank.input().chunk(1), 0);
        second.signal(0).sync(BlockSync::Before);
        second.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn get(p: &Program, times: usize) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        for _ in 0..times {
            channel.get(rank.input().chunk(0), peer.input().chunk(1), 0);
        }
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn put_with_signal(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.port_channel(peer);
        channel.signal(0);
        channel.wait(0).sync(BlockSync::After);
        channel.put_with_signal(peer.input().chunk(1), rank.input().chunk(0), 0);
        channel.wait(0).sync(BlockSync::After);
    }
}

/// The reference omits the second wait; the plan is that of the corrected program.
pub(crate) fn put_with_signal_twice(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.port_channel(peer);
        channel.signal(0);
        channel.wait(0).sync(BlockSync::After);
        channel.put_with_signal(peer.input().chunk(1), rank.input().chunk(0), 0);
        channel.put_with_signal(peer.input().chunk(3), rank.input().chunk(2), 0);
        channel.wait(0).sync(BlockSync::After);
        channel.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn put_with_signal_and_flush(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.port_channel(peer);
        channel.signal(0);
        channel.wait(0).sync(BlockSync::After);
        channel.put_with_signal_and_flush(peer.input().chunk(1), rank.input().chunk(0), 0);
        channel.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn read_reduce(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.reduce(rank.input().chunk(0), peer.input().chunk(1), 0).to(rank.output().chunk(0));
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn read_reduce_twice(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.reduce(rank.input().chunk(0), peer.input().chunk(0), 0).to(rank.output().chunk(0));
        channel.reduce(rank.input().chunk(0), peer.input().chunk(1), 0).to(rank.output().chunk(0));
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn read_reduce_send(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        channel.reduce(rank.input().chunk(0), peer.input().chunk(1), 0).to(rank.output().chunk(0));
        channel.put(peer.output().chunk(1), rank.output().chunk(0), 0);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn reduce_send(p: &Program) {
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        rank.reduce(rank.input().chunk(0), rank.input().chunk(1), 0).to(rank.output().chunk(0));
        channel.put(peer.output().chunk(1), rank.output().chunk(0), 0);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}
