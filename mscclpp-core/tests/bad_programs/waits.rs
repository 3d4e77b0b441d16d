//! 3, 4, 7: waits that never end, and signals that say too little.

use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce};
use mscclpp_core::types::BlockSync;

use super::{in_place, plan, refused};

#[test]
fn circular_wait() {
    let plan = plan(in_place(AllReduce, 2), |p| {
        for rank in p.ranks() {
            let channel = rank.memory_channel(1 - rank.id());
            channel.wait(0);
            channel.signal(0);
        }
    });
    let words = [
        "`wait` (rank 0, thread block 0) waits for a signal of rank 1 on memory channel 0",
        "`wait` (rank 1, thread block 0) waits for a signal of rank 0 on memory channel 0",
        "after its own wait, `signal` (rank 1, thread block 0) provides it",
        "after its own wait, `signal` (rank 0, thread block 0) provides it",
        "waits.rs:",
    ];
    refused(&plan, "deadlock", &words);
}

/// As many waits as signals between the two ranks, but not on each channel.
#[test]
fn crossed_channels() {
    let plan = plan(in_place(AllReduce, 2), |p| {
        let (a, b) = (p.rank(0), p.rank(1));
        let to_b = [a.memory_channel(b), a.memory_channel(b)];
        let to_a = [b.memory_channel(a), b.memory_channel(a)];
        to_b[0].signal(0);
        to_b[1].wait(0);
        to_a[1].signal(0);
        to_a[1].wait(0);
    });
    let missing = ["rank 1 waits once on its memory channel 1", "rank 0 never signals on its memory channel 1"];
    refused(&plan, "unmatched-wait", &missing);
    let left = ["rank 0 signals once on its memory channel 0", "rank 1 never waits on its memory channel 0"];
    refused(&plan, "unmatched-wait", &left);
}

#[test]
fn relaxed_publication() {
    let plan = plan(in_place(AllGather, 2), |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let (channel, scratch) = (rank.memory_channel(peer), rank.scratch(1));
            channel.signal(0).relaxed();
            channel.wait(0).relaxed().sync(BlockSync::After);
            channel.put(peer.output().chunk(rank.id()), rank.output().chunk(rank.id()), 0);
            channel.signal(0).relaxed().sync(BlockSync::Before);
            channel.wait(0).relaxed().sync(BlockSync::After);
            rank.copy(scratch.chunk(0), rank.output().chunk(peer.id()), 0);
        }
    });
    refused(&plan, "race", &["`copy` (rank 1", "`put` (rank 0", "output chunk 0 of rank 1", "use `signal` and `wait`"]);
}
