//! 1, 2: data that does not arrive, and data that arrives twice.

use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce};
use mscclpp_core::types::BlockSync;

use super::{in_place, plan, refused};

#[test]
fn missing_transfer() {
    let plan = plan(in_place(AllGather, 4), |p| {
        for src in p.ranks() {
            let mine = src.output().chunk(src.id());
            for dst in p.ranks().filter(|dst| dst.id() != src.id()) {
                let channel = src.memory_channel(dst);
                channel.signal(0).relaxed();
                channel.wait(0).relaxed().sync(BlockSync::After);
                if (src.id(), dst.id()) != (2, 1) {
                    channel.put(dst.output().chunk(src.id()), mine, 0);
                }
                channel.signal(0).sync(BlockSync::Before);
                channel.wait(0).sync(BlockSync::After);
            }
        }
    });
    refused(&plan, "wrong-result", &["rank 1", "output chunk 2", "rank 2"]);
}

/// Each rank adds both chunks of the other to its own: what it reads may hold its own input already.
#[test]
fn double_counting() {
    let plan = plan(in_place(AllReduce, 2), |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            channel.signal(0).relaxed();
            channel.wait(0).relaxed().sync(BlockSync::After);
            channel.reduce(rank.input().chunk(..), peer.input().chunk(..), 0);
            channel.signal(0).sync(BlockSync::Before);
            channel.wait(0).sync(BlockSync::After);
        }
    });
    refused(&plan, "race", &["`reduce` (rank 0", "`reduce` (rank 1", "input chunk 0 of rank", "writes", "reads"]);
}

/// The same one after the other, so that nothing races: rank 1 adds rank 0's sum to its own, which is in it.
#[test]
fn double_counting_in_turns() {
    let plan = plan(in_place(AllReduce, 2), |p| {
        let (a, b) = (p.rank(0), p.rank(1));
        let (to_b, to_a) = (a.memory_channel(b), b.memory_channel(a));
        to_a.signal(0).relaxed();
        to_b.wait(0).relaxed().sync(BlockSync::After);
        to_b.reduce(a.input().chunk(..), b.input().chunk(..), 0);
        to_b.signal(0);
        to_a.wait(0);
        to_a.reduce(b.input().chunk(..), a.input().chunk(..), 0);
        to_a.signal(0);
        to_b.wait(0);
    });
    refused(
        &plan,
        "double-counted",
        &["`reduce` (rank 1", "output chunk 0 of rank 1 includes input chunk 0 of rank 1 twice"],
    );
}
