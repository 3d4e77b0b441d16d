//! 6, 8: launches that get into each other's way.

use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce};
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::types::BlockSync;

use super::{accepted, in_place, packets, plan, refused};

/// The exchange of the quick start, with or without its handshakes.
fn gather(ranks: u32, (first, last): (bool, bool)) -> PlanTree {
    plan(in_place(AllGather, ranks), |p| {
        for src in p.ranks() {
            for dst in p.ranks().filter(|dst| dst.id() != src.id()) {
                let channel = src.memory_channel(dst);
                if first {
                    channel.signal(0).relaxed();
                    channel.wait(0).relaxed().sync(BlockSync::After);
                }
                channel.put(dst.output().chunk(src.id()), src.output().chunk(src.id()), 0);
                if last {
                    channel.signal(0).sync(BlockSync::Before);
                    channel.wait(0).sync(BlockSync::After);
                }
            }
        }
    })
}

/// A peer's put can hit the output while the caller still reads what the launch before left there.
#[test]
fn no_initial_handshake() {
    for ranks in [2, 4] {
        refused(&gather(ranks, (false, true)), "early-access", &["`put` (rank 0", "output chunk 0 of rank 1"]);
    }
}

/// The output may be incomplete when the kernel ends.
#[test]
fn no_final_handshake() {
    for ranks in [2, 4] {
        let words =
            ["`put` (rank 1", "may still be writing output chunk 1 of rank 0", "signal rank 0 after the access"];
        refused(&gather(ranks, (true, false)), "late-access", &words);
    }
}

#[test]
fn both_handshakes() {
    accepted(&gather(4, (true, true)));
}

/// Every rank sends its input to the other one's scratch as packets and reduces there.
fn one_shot(double: bool) -> PlanTree {
    let mut spec = packets(AllReduce, 2);
    spec.double_scratch = double;
    plan(spec, |p| {
        let slots: Vec<_> = p.ranks().map(|rank| rank.scratch(2)).collect();
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let (theirs, mine) = (slots[peer.id()].chunk(0..2), slots[rank.id()].chunk(0..2));
            rank.memory_channel(peer).put_packets(theirs, rank.input().chunk(0..2), 0);
            rank.reduce_packets(rank.input().chunk(0..2), mine, 0).to(rank.output().chunk(0..2));
        }
    })
}

#[test]
fn packet_slots_reused_by_the_next_launch() {
    let words = ["`put_packets` (rank 1", "`reduce_packets` (rank 0", "scratch chunk 0 of rank 0", "double"];
    refused(&one_shot(false), "cross-launch-race", &words);
    accepted(&one_shot(true));
}
