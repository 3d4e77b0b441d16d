//! 1, 2: data that does not arrive, and data that arrives twice.

use mscclpp_core::collective::CollectiveKind::AllReduce;
use mscclpp_core::vocab::Sync;

use super::{in_place, plan, refused};

/// Each rank adds both chunks of the other to its own: what it reads may hold its own input already.
#[test]
fn double_counting() {
    let plan = plan(in_place(AllReduce, 2), |p| {
        for rank in p.ranks() {
            let peer = p.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            channel.signal(0).relaxed();
            channel.wait(0).relaxed().sync(Sync::After);
            channel.reduce(rank.input().chunk(..), peer.input().chunk(..), 0);
            channel.signal(0).sync(Sync::Before);
            channel.wait(0).sync(Sync::After);
        }
    });
    refused(&plan, "race", &["`reduce` (rank 0", "`reduce` (rank 1", "input chunk 0 of rank", "writes", "reads"]);
}
