//! Fragments that only synchronize.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BlockSync;

pub(crate) fn barrier(p: &Program) {
    p.rank(0).barrier([0, 1]);
}

pub(crate) fn semaphore(p: &Program) {
    let semaphore = p.rank(0).semaphore(0);
    semaphore.acquire(0).sync(BlockSync::After);
    semaphore.release(1).sync(BlockSync::Before);
}

pub(crate) fn flush(p: &Program) {
    p.rank(0).port_channel(1).flush(0).sync(BlockSync::Before);
}

pub(crate) fn flush_twice(p: &Program) {
    p.rank(0).port_channel(1).flush(0).sync(BlockSync::After);
    p.rank(0).port_channel(1).flush(0).sync(BlockSync::Before);
}

pub(crate) fn signal_wait(p: &Program) {
    for rank in p.ranks() {
        let channel = rank.memory_channel(1 - rank.id());
        channel.signal(0).sync(BlockSync::Before);
        channel.wait(0).sync(BlockSync::After);
    }
}

pub(crate) fn signal_wait_relaxed(p: &Program) {
    for rank in p.ranks() {
        let channel = rank.memory_channel(1 - rank.id());
        channel.signal(0).relaxed();
        channel.wait(0).relaxed();
    }
}

/// Signals on the first two of four channels, waits on the last two, which no signal reaches.
pub(crate) fn signals_waits(p: &Program) {
    for rank in p.ranks() {
        let channels: Vec<_> = (0..4).map(|_| rank.memory_channel(1 - rank.id())).collect();
        for channel in &channels[..2] {
            channel.signal(0);
        }
        for channel in &channels[2..] {
            channel.wait(0);
        }
    }
}

/// The signals and waits of `signals_waits`, relaxed.
pub(crate) fn signals_waits_relaxed(p: &Program) {
    for rank in p.ranks() {
        let channels: Vec<_> = (0..4).map(|_| rank.memory_channel(1 - rank.id())).collect();
        for channel in &channels[..2] {
            channel.signal(0).relaxed();
        }
        for channel in &channels[2..] {
            channel.wait(0).relaxed();
        }
    }
}
