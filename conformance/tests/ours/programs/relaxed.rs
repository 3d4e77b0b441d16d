//! Algorithms that end with relaxed signals in the reference. The library's own forms publish their results.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::{BlockSync, BufferKind};

pub(crate) fn allgather_ring(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        let others = p.ranks().filter(|peer| peer.id() != id);
        let channels: Vec<_> = others.map(|peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        for step in 1..ranks {
            let peer = p.rank((id + step) % ranks);
            let index = if peer.id() < id { peer.id() } else { peer.id() - 1 };
            channels[index].put(peer.output().chunk(id), rank.output().chunk(id), 0);
        }
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed();
        }
    }
}

pub(crate) fn allgather_nvls(p: &Program) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Output);
    for rank in p.ranks() {
        let others = p.ranks().filter(|peer| peer.id() != rank.id());
        let channels: Vec<_> = others.map(|peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        switch.at(rank).broadcast(rank.id(), rank.output().chunk(rank.id()), 0);
        for channel in &channels {
            channel.signal(0).relaxed().sync(BlockSync::Before);
        }
        for channel in &channels {
            channel.wait(0).relaxed();
        }
    }
}

/// `unit` is the window of the loop in bytes, 0 for no loop.
pub(crate) fn allreduce_nvls(p: &Program, unit: usize) {
    let switch = p.switch_channel(p.ranks(), BufferKind::Input);
    for rank in p.ranks() {
        let others = p.ranks().filter(|peer| peer.id() != rank.id());
        let channels: Vec<_> = others.map(|peer| rank.memory_channel(peer)).collect();
        for channel in &channels {
            channel.signal(0).relaxed();
        }
        for channel in &channels {
            channel.wait(0).relaxed().sync(BlockSync::After);
        }
        let mine = rank.input().chunk(rank.id());
        let body = || {
            switch.at(rank).reduce(mine, rank.id(), 0);
            switch.at(rank).broadcast(rank.id(), mine, 0);
        };
        if unit == 0 {
            body();
        } else {
            p.pipeline(unit as u64, 1, body);
        }
        for channel in &channels {
            channel.signal(0).relaxed().sync(BlockSync::Before);
        }
        for channel in &channels {
            channel.wait(0).relaxed();
        }
    }
}
