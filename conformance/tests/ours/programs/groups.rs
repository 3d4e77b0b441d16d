//! Fragments that split operations over a thread-block group.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;

pub(crate) fn copy(p: &Program) {
    let rank = p.rank(0);
    let group = p.thread_block_group(0..4);
    rank.copy(rank.output().chunk(0), rank.input().chunk(0), &group);
}

pub(crate) fn reduce(p: &Program) {
    let rank = p.rank(0);
    let group = p.thread_block_group(0..4);
    rank.reduce(rank.input().chunk(0), rank.input().chunk(1), &group).to(rank.output().chunk(0));
}

pub(crate) fn reduce_twice(p: &Program) {
    let rank = p.rank(0);
    let group = p.thread_block_group(0..4);
    rank.reduce(rank.input().chunk(0), rank.input().chunk(1), &group).to(rank.output().chunk(0));
    rank.reduce(rank.input().chunk(0), rank.input().chunk(2), &group).to(rank.output().chunk(0));
}

pub(crate) fn reduce_send(p: &Program) {
    let group = p.thread_block_group(0..4);
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        let result = rank.output().chunk(0);
        rank.reduce(rank.input().chunk(0), rank.input().chunk(1), &group).to(result);
        channel.put(peer.output().chunk(1), result, &group);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn allgather(p: &Program) {
    let group = p.thread_block_group(0..4);
    for rank in p.ranks() {
        let peer = p.rank(1 - rank.id());
        let channel = rank.memory_channel(peer);
        channel.signal(0).relaxed();
        channel.wait(0).relaxed().sync(BlockSync::After);
        rank.barrier(&group);
        channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), &group);
        rank.barrier(&group);
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}
